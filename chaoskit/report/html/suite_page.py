"""The HTML page of a suite: the result of each experiment, failures first, with a link to the page of each run."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaoskit.analysis.record.steps import readable
from chaoskit.engine.result import SKIPPED, WORDS, Result
from chaoskit.errors import CODES
from chaoskit.report.html import page
from chaoskit.report.terminal.table import total
from chaoskit.studies.nights.suite import Suite

#: Failures come first.
ORDER = ("fail", "inconclusive", "pass", SKIPPED)
STATUS = {
    "interrupted": "This suite was interrupted. The page shows the experiments that had ended.",
    "running": "This suite has no end: chaoskit is still running or was killed. The page shows the experiments that "
    "have ended.",
}


def render(suite: Suite, *, links: Mapping[str, str] | None = None, why: Mapping[str, str] | None = None) -> str:
    """Render the page. `links` maps the directory of a run to its page, `why` to the reason why it has none; a run in
    neither is shown as deleted."""
    links, why = links or {}, why or {}
    return page.render(
        "suite.html.j2",
        headline=headline(suite),
        command=shlex.join(suite.command),
        begun=suite.when,
        status=STATUS.get(suite.status, ""),
        # The counts of verdicts are shown separately.
        told=total(suite.results, seconds=suite.seconds).rpartition(": ")[0],
        counts=counts(suite.results),
        words=WORDS,
        rows=[_row(result, links, why) for result in in_order(suite.results)],
        repeated=_repeated(suite.results),
        about=about(suite),
        meanings=CODES,
    )


def in_order(results: Sequence[Result]) -> list[Result]:
    """Sort by verdict: failed, inconclusive, passed, skipped; otherwise keep the order."""
    return sorted(results, key=lambda result: ORDER.index(result.verdict))


def counts(results: Sequence[Result]) -> dict[str, int]:
    """Count the experiments by verdict, in that order, without zeros."""
    found = {verdict: sum(result.verdict == verdict for result in results) for verdict in ORDER}
    return {verdict: count for verdict, count in found.items() if count}


def headline(suite: Suite) -> str:
    """Summarize the suite: '2 of 28 experiments failed'."""
    found = counts(suite.results)
    judged = sum(count for verdict, count in found.items() if verdict != SKIPPED)
    if not judged:
        return "No verdict: every experiment was skipped" if found else "No verdict: no experiment had ended"
    worst = next(iter(found))
    if worst != "pass":
        verb = {"fail": "failed", "inconclusive": "could not be decided"}[worst]
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


def _row(result: Result, links: Mapping[str, str], why: Mapping[str, str]) -> dict[str, Any]:
    """Return what the page shows of an experiment. The first line of a long sentence (such as the end of a log) is in
    the row, the rest is folded."""
    sentences = [readable(sentence).partition("\n")[::2] for sentence in result.sentences]
    runs = [{"name": Path(run).name, "link": links.get(run), "why": why.get(run, "")} for run in runs_of(result)]
    first = runs[0] if runs else None
    return {
        "result": result, "place": ORDER.index(result.verdict), "sentences": sentences, "run": first,
        "others": runs[1:],
    }  # fmt: skip


def _repeated(results: Sequence[Result]) -> set[str]:
    """Return the names that several experiments share."""
    names = Counter(result.name for result in results)
    return {name for name, count in names.items() if count > 1}
