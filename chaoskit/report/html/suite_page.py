"""The HTML page of a suite: its problems, then each experiment under the problem that it shows.

For tests, links and style sheets: a problem is `.problem#problem-CODE`, its experiments are in
`details.group#of-problem-CODE`, the others in `details.group#of-verdict-VERDICT`. An experiment is
`tr#experiment-NAME` with `data-codes`. The filter is `form#filter`, which only the script shows.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaoskit.analysis.record.steps import readable
from chaoskit.engine.result import ACCEPTED, SKIPPED, WORDS, Result
from chaoskit.errors import CODES
from chaoskit.report.html import page
from chaoskit.report.html.groups import ORDER, Group, anchors, groups, shown_by
from chaoskit.report.problem_words import WEAKNESSES
from chaoskit.report.terminal.table import total
from chaoskit.studies.nights.suite import Suite
from chaoskit.studies.problems.problem import Problem, Proof

#: For each outcome of a proof: the verdict that selects the mark and the colour, and a label.
PROOFS = {
    "proven": ("pass", "Proven"),
    "more-lost": ("fail", "More is lost"),
    "impossible": ("inconclusive", "Not proven"),
}
STATUS = {
    "interrupted": "This suite was interrupted. The page shows the experiments that had ended.",
    "running": "This suite has no end: chaoskit is still running or was killed. The page shows the experiments that "
    "have ended.",
}


def render(
    suite: Suite,
    *,
    links: Mapping[str, str] | None = None,
    why: Mapping[str, str] | None = None,
    problems: Sequence[Problem] = (),
) -> str:
    """Render the page. `links` maps the directory of a run to its page, `why` to the reason why it has none; a run in
    neither is shown as deleted. `problems` are those of the suite, the worst first."""
    links, why = links or {}, why or {}
    # By identity: two stored runs of one experiment may have one name.
    rows = {id(one): _row(one, name, links, why) for one, name in addresses(suite)}
    found = groups(suite.results, problems)
    shown = [(group, _shown(group, suite.results, links)) for group in found if group.problem is not None]
    return page.render(
        "suite.html.j2",
        headline=asked(problems) or headline(suite),
        command=shlex.join(suite.command),
        begun=suite.when,
        status=STATUS.get(suite.status, ""),
        # The counts of verdicts are shown separately.
        told=total(suite.results, seconds=suite.seconds).rpartition(": ")[0],
        counts=counts(suite.results),
        words=WORDS,
        problems=[each for each in shown if each[0].number],
        weaknesses=[each for each in shown if not each[0].number],
        proof=proof_line,
        groups=found,
        row=lambda result: rows[id(result)],
        codes=Counter(code for result in suite.results for code in (*result.codes, *result.accepted)),
        repeated=_repeated(suite.results),
        about=about(suite),
        meanings=CODES,
    )


def addresses(suite: Suite) -> list[tuple[Result, str]]:
    """Each experiment with its id on the page."""
    return list(zip(suite.results, anchors(f"experiment-{one.name}" for one in suite.results), strict=True))


def run_order(suite: Suite, problems: Sequence[Problem] = ()) -> list[Result]:
    """The experiments in the order of the page."""
    return [result for group in groups(suite.results, problems) for result in group.results]


def asked(problems: Sequence[Problem]) -> str:
    """'3 problems in your job'; empty without problems and weaknesses."""
    count = sum(not problem.weakness for problem in problems)
    weak = len(problems) - count
    if count:
        return f"{count} problem{'' if count == 1 else 's'} in your job"
    return f"No problem, {weak} weakness{'' if weak == 1 else 'es'} in your job" if weak else ""


def proof_line(proof: Proof) -> tuple[str, str, str]:
    """The verdict that selects the mark of a proof, its label and its sentence."""
    verdict, label = PROOFS[proof.outcome]
    sentence = proof.sentence.strip()
    if sentence.lower().startswith(label.lower()):
        sentence = sentence[len(label) :].lstrip(" :.")
    return verdict, label, readable(sentence)


def _shown(group: Group, results: Sequence[Result], links: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows of a problem: 'Shown by test_resume and 22 more', and what follows from it."""
    problem = group.problem
    assert problem is not None
    names = problem.shown_by
    found = shown_by(problem, results)
    return {
        "problem": problem, "sentence": readable(problem.sentence), "first": names[0] if names else "",
        "smallest": found[0] if found else None, "more": max(0, len(names) - 1),
        "page": links.get(problem.run), "brief": WEAKNESSES.get(problem.code, readable(problem.sentence).rstrip(".")),
    }  # fmt: skip


def in_order(results: Sequence[Result]) -> list[Result]:
    """Sort by verdict: failed, inconclusive, accepted, passed, skipped; otherwise keep the order."""
    return sorted(results, key=lambda result: ORDER.index(result.verdict))


def counts(results: Sequence[Result]) -> dict[str, int]:
    """Count the experiments by verdict, in that order, without zeros."""
    found = {verdict: sum(result.verdict == verdict for result in results) for verdict in ORDER}
    return {verdict: count for verdict, count in found.items() if count}


def headline(suite: Suite) -> str:
    """Summarize the suite: '2 of 28 experiments failed', and how many did not run for lack of time."""
    unrun = sum(result.is_unrun for result in suite.results)
    return _judged(suite) + (f", {unrun} did not run: the budget did not suffice" if unrun else "")


def _judged(suite: Suite) -> str:
    found = counts(suite.results)
    judged = sum(count for verdict, count in found.items() if verdict != SKIPPED)
    if not judged:
        return "No verdict: every experiment was skipped" if found else "No verdict: no experiment had ended"
    worst = next(iter(found))
    if worst != "pass":
        verb = {"fail": "failed", "inconclusive": "could not be decided", ACCEPTED: "lost what is accepted"}[worst]
        return f"{found[worst]} of {judged} experiment{'' if judged == 1 else 's'} {verb}"
    return "The experiment passed" if judged == 1 else f"All {judged} experiments passed"


def settings(suite: Suite) -> dict[str, str]:
    """Return the versions and flags of the uninterrupted runs; different values are joined by commas."""
    found: dict[str, dict[str, None]] = {}
    for baseline in suite.baselines.values():
        for name, value in baseline.settings.items():
            found.setdefault(name, {})[value] = None
    return {name: ", ".join(values) for name, values in sorted(found.items())}


def about(suite: Suite) -> dict[str, str]:
    """Return the suite's id, the versions, the machine and the settings of the jobs, without duplicates."""
    told = {"suite": suite.id, "chaoskit": suite.chaoskit, **suite.machine}
    told.update({name: value for name, value in settings(suite).items() if told.get(name) != value})
    return {name: value for name, value in told.items() if value}


def runs_of(result: Result) -> tuple[str, ...]:
    """Return the directories of the experiment's runs, the one with the figures first; none for a failed reference."""
    runs = result.runs or ((result.run,) if result.run and Path(result.run).parent.name == "runs" else ())
    return tuple(sorted(runs, key=lambda run: run != result.run))


def _row(result: Result, anchor: str, links: Mapping[str, str], why: Mapping[str, str]) -> dict[str, Any]:
    """Return what the page shows of an experiment. The first line of a long sentence (such as the end of a log) is in
    the row, the rest is folded."""
    sentences = [readable(sentence).partition("\n")[::2] for sentence in result.sentences]
    runs = [{"name": Path(run).name, "link": links.get(run), "why": why.get(run, "")} for run in runs_of(result)]
    first = runs[0] if runs else None
    return {
        "result": result, "anchor": anchor, "place": ORDER.index(result.verdict), "sentences": sentences,
        "run": first, "others": runs[1:],
    }  # fmt: skip


def _repeated(results: Sequence[Result]) -> set[str]:
    """Return the names that several experiments share."""
    names = Counter(result.name for result in results)
    return {name for name, count in names.items() if count > 1}
