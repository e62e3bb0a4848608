"""The published site of a store: the pages of each night, an index of all nights, and their history."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from chaoskit.engine.result import SKIPPED, UNRUN, WORDS
from chaoskit.engine.run_store import Store
from chaoskit.report.html import history_page, page, site
from chaoskit.report.html.groups import ORDER
from chaoskit.report.html.site import ReportSite
from chaoskit.studies.nights.findings import Findings
from chaoskit.studies.nights.suite import Suite
from chaoskit.studies.nights.suite_history import SuiteHistory
from chaoskit.studies.nights.verdict_changes import VerdictTurn

INDEX, HISTORY, NIGHTS = "index.html", "history.html", "nights"


class Target(Protocol):
    """See `chaoskit.report.machine.page_target.PageTarget`."""

    def put(self, file: Path, name: str) -> None: ...
    def names(self, below: str) -> Collection[str]: ...


def publish(suite: Suite, target: Target, *, store: Store, findings: Findings, directory: Path) -> ReportSite:
    """Write the pages of a night below `directory`, and publish them, the index last: it never leads to a page that is
    not there. `findings` are those of all nights. Raises UsageError, and what the target raises."""
    own = directory / NIGHTS / suite.id
    written = site.write(suite, own, store=store, problems=suite.problems, option="--publish")
    page.write(history_page.render(findings), directory / HISTORY, option="--publish")
    there = {*target.names(NIGHTS), suite.id}
    page.write(index(findings, there), directory / INDEX, option="--publish")
    files = [each for each in sorted(own.rglob("*")) if each.is_file()]
    for file in (*files, directory / HISTORY, directory / INDEX):
        target.put(file, file.relative_to(directory).as_posix())
    return written


def index(findings: Findings, there: Collection[str]) -> str:
    """Render the index: the newest night first, with its verdicts, what changed, and a link to its pages if they are
    `there`."""
    history = findings.history
    nights = [_night(history, at, findings.turns, there) for at in range(len(history.nights))]
    return page.render("nights.html.j2", headline=findings.sentence, nights=nights[::-1], history=HISTORY)


def _night(history: SuiteHistory, at: int, turns: tuple[VerdictTurn, ...], there: Collection[str]) -> dict[str, Any]:
    night = history.nights[at]
    results = [found for track in history.tracks if (found := track.results[at]) is not None]
    unrun = sum(result.is_unrun for result in results)
    counts = {verdict: sum(result.verdict == verdict for result in results) for verdict in ORDER}
    counts[SKIPPED] -= unrun
    told = [(verdict, f"{count} {WORDS[verdict]}") for verdict, count in counts.items() if count]
    told += [(SKIPPED, f"{unrun} {UNRUN}: budget")] if unrun else []
    return {
        "when": night.when, "status": night.status, "counts": told,
        "link": f"{NIGHTS}/{quote(night.id)}/index.html" if night.id in there else "",
        "turns": [turn for turn in turns if turn.since == at],
    }  # fmt: skip
