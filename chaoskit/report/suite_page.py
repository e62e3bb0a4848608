"""The page of a suite: what came of each experiment, the failures first, and a link to the page of each of its runs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaoskit.errors import CODES
from chaoskit.report import page
from chaoskit.report.headline import readable
from chaoskit.report.terminal import total
from chaoskit.results import SKIPPED, WORDS, Result
from chaoskit.suites.suite import Suite

#: What needs somebody's attention comes first.
ORDER = ("fail", "inconclusive", "pass", SKIPPED)
STATUS = {
    "interrupted": "It was interrupted; what had ended by then is here.",
    "running": "It has not ended: it is still at work, or its harness died. What had ended is here.",
}


def render(suite: Suite, *, links: Mapping[str, str] | None = None, why: Mapping[str, str] | None = None) -> str:
    """The page. `links` has the address of a run's page by the directory that the result names, and `why` the reason
    for those that have none; without either the run is said to be gone."""
    links, why = links or {}, why or {}
    return page.render(
        "suite.html.j2",
        headline=headline(suite),
        command=shlex.join(suite.command),
        begun=suite.when,
        status=STATUS.get(suite.status, ""),
        # How many came to what is told beside it.
        told=total(suite.results, seconds=suite.seconds).rpartition(": ")[0],
        counts=counts(suite.results),
        words=WORDS,
        rows=[_row(result, links, why) for result in in_order(suite.results)],
        repeated=_repeated(suite.results),
        about=about(suite),
        meanings=CODES,
    )


def in_order(results: Sequence[Result]) -> list[Result]:
    """The failures first, then what was inconclusive, passed, was skipped; otherwise as they were run."""
    return sorted(results, key=lambda result: ORDER.index(result.verdict))


def counts(results: Sequence[Result]) -> dict[str, int]:
    """How many came to each verdict, in that order; those that nothing came to are left out."""
    found = {verdict: sum(result.verdict == verdict for result in results) for verdict in ORDER}
    return {verdict: count for verdict, count in found.items() if count}


def headline(suite: Suite) -> str:
    """The suite in a few words: '2 of 28 experiments failed'."""
    found = counts(suite.results)
    judged = sum(count for verdict, count in found.items() if verdict != SKIPPED)
    if not judged:
        return "Nothing was proved: every experiment was skipped" if found else "No experiment had ended"
    worst = next(iter(found))
    if worst != "pass":
        verb = {"fail": "failed", "inconclusive": "could not be decided"}[worst]
        return f"{found[worst]} of {judged} experiment{'' if judged == 1 else 's'} {verb}"
    return "The experiment passed" if judged == 1 else f"All {judged} experiments passed"


def settings(suite: Suite) -> dict[str, str]:
    """The versions and flags that the uninterrupted runs ran with; of several, every one."""
    found: dict[str, dict[str, None]] = {}
    for baseline in suite.baselines.values():
        for name, value in baseline.settings.items():
            found.setdefault(name, {})[value] = None
    return {name: ", ".join(values) for name, values in sorted(found.items())}


def about(suite: Suite) -> dict[str, str]:
    """What made it, and where: versions, the machine, what the jobs ran with; nothing twice."""
    told = {"suite": suite.id, "chaoskit": suite.chaoskit, **suite.machine}
    told.update({name: value for name, value in settings(suite).items() if told.get(name) != value})
    return {name: value for name, value in told.items() if value}


def runs_of(result: Result) -> tuple[str, ...]:
    """The directories of its runs, the one that its figures are of first; a failed reference left none."""
    runs = result.runs or ((result.run,) if result.run and Path(result.run).parent.name == "runs" else ())
    return tuple(sorted(runs, key=lambda run: run != result.run))


def _row(result: Result, links: Mapping[str, str], why: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows of an experiment. Of a long sentence, such as the last words of a job, the first line is in
    the row and the rest is folded."""
    sentences = [readable(sentence).partition("\n")[::2] for sentence in result.sentences]
    runs = [{"name": Path(run).name, "link": links.get(run), "why": why.get(run, "")} for run in runs_of(result)]
    first = runs[0] if runs else None
    return {
        "result": result, "place": ORDER.index(result.verdict), "sentences": sentences, "run": first,
        "others": runs[1:],
    }  # fmt: skip


def _repeated(results: Sequence[Result]) -> set[str]:
    """Names that experiments of several files have."""
    names = Counter(result.name for result in results)
    return {name for name, count in names.items() if count > 1}
