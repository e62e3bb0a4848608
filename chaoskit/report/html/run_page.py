"""The HTML page of one run: the faults, the reaction of the job, and the verdicts.

It presents the stored history and the stored verdicts and makes none. From the top: headline, last words of the
ranks if the job did not finish, losses, lanes of the ranks, timeline, throughput, alignment, data ledger, checks,
stacks, story, commands, files.

For tests and style sheets, sections have ids: `#verdict`, `#last-words`, `#picture`, `#lanes`, `#clock`,
`#throughput`, `#alignment`, `#ledger`, `#checks` (each `#check-NAME`), `#stacks`, `#story`, `#again`, `#files`;
`#fault-N` names a fault. In the picture (`svg.losses`): `.line.reference`, `.line.run`, `.band`,
`.branch.rolled-back` (one per lifetime, `data-life`), `.fault-window` (with
`data-fault`, the number of the fault; its name in `.fault-name`), `.checkpoint` (`.valid`, `.refused`, `.poisoned`,
`.resumed`; with `data-position`, `data-life`; `.harmed` for a damaged one that the job resumed from),
`.resumed-arrow` (with `data-from`, `data-to`), `.nonfinite`, `.first-wrong` (`data-step`). In the lanes (`svg.lanes`):
`.lane` (`data-ranks`), `.life`, `.stall`, `.death` (`.struck` if a fault caused it), `.rollback`. In the timeline
(`svg.clock`): `.launch`, `.life`, `.fault-time`, `.recovery`, `.phase` (`data-phase`: detection, teardown, relaunch,
load, first-step), and the same in `table.phases`. In tables: `td.wrong`. Elements without content are omitted. The
signs in `.legend` have the same classes.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.history import lifetimes
from chaoskit.analysis.record.rank_lifetime import common_settings
from chaoskit.analysis.recovery.phases import PHASES, phases
from chaoskit.analysis.recovery.throughput import Throughput, slow_rank, stragglers
from chaoskit.engine.result import ACCEPTED, Result, advice_of
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Run
from chaoskit.errors import CODES, StoreError
from chaoskit.remedies import REMEDIES
from chaoskit.report.alignment_rows import table
from chaoskit.report.evidence import pieces
from chaoskit.report.headline import ENDS, headline
from chaoskit.report.html import page
from chaoskit.report.last_words import last_words
from chaoskit.report.story import story
from chaoskit.report.svg.clock import clock, room
from chaoskit.report.svg.lane_picture import lane_picture
from chaoskit.report.svg.loss_picture import WIDTH, loss_picture
from chaoskit.verdict import Verdict

#: Maps a path of the store to a link.
Link = Callable[[Path], str]


@dataclass(frozen=True)
class Neighbour:
    """The previous or the next run of a suite: the name of its experiment, and the link to its page."""

    name: str
    link: str


#: Maximum number of linked files, and of entries of the story.
FILES, MOMENTS, RANKS = 60, 300, 16
#: Evidence that has its own section on the page.
SHOWN_ELSEWHERE = ("table", "stacks")


def render(
    run: Run,
    *,
    store: Store | None = None,
    verdicts: Sequence[Verdict] | None = None,
    links: Link | None = None,
    home: str = "",
    previous: Neighbour | None = None,
    next_one: Neighbour | None = None,
    result: Result | None = None,
) -> str:
    """Render the page of a stored run. `verdicts` default to those of `verdicts.json`, `store` to that of the run;
    `links` maps paths of the store to links (default: absolute ones); `home` links to the page of the suite,
    `previous` and `next_one` to the pages of other runs of it; `result` is that of its experiment, which knows what is
    accepted. Raises StoreError if the run cannot be read."""
    store = store or run.store
    told = store.read(run.dir)
    found = stored_verdicts(run, store) if verdicts is None else tuple(verdicts)
    case = run.case
    columns, rows = table(case.table())
    return page.render(
        "run.html.j2",
        run=run,
        home=home,
        previous=previous,
        next=next_one,
        accepted={code: result.reasons.get(code, "") for code in result.accepted} if result is not None else {},
        verdict=ACCEPTED if result is not None and result.verdict == ACCEPTED else "",
        faults=list(faults(case, told)),
        words=last_words(case, run.dir),
        finished=case.history.end == "finished",
        told=told,
        case=case,
        headline=headline(case, found),
        meanings=CODES,
        remedies={**REMEDIES, **advice_of(found or ())},
        width=WIDTH,
        losses=loss_picture(case),
        lanes=lane_picture(case),
        clock=clock(case),
        room=room,
        recoveries=case.recoveries,
        notices=case.emergencies,
        paces=paces(case),
        slowest=[slow_rank(one, case.history) for one in stragglers(case.throughput)],
        phases={one.fault: one for one in phases(case.history, case.recoveries)},
        phase_names=PHASES,
        columns=columns,
        rows=rows,
        ledger=case.ledger,
        verdicts=found or (),
        pieces=lambda verdict: list(pieces(verdict.evidence, without=SHOWN_ELSEWHERE)),
        stacks=case.history.stacks,
        moments=story(case)[:MOMENTS],
        end=ENDS.get(case.history.end or ""),
        troubles=list(troubles(case)),
        commands=commands(run),
        about=about(run, told),
        settings=settings(case),
        files=list(files(run.dir, links or Path.as_uri))[:FILES],
    )


def paces(case: Case) -> list[tuple[str, list[Throughput]]]:
    """Return the pace of the ranks, by fault and outside of faults; of many ranks the slowest. Where no rank can be
    compared with another one, there is nothing to show."""
    if all(one.slower is None for one in case.throughput):
        return []
    found: dict[int | None, list[Throughput]] = {}
    for one in case.throughput:
        found.setdefault(one.fault, []).append(one)
    names = {fault.index: fault.name for fault in case.history.faults}
    tables = []
    for number, own in found.items():
        slowest = sorted(own, key=lambda one: -(one.slower or 0.0))[:RANKS]
        when = "outside of faults" if number is None else f"during '{names[number]}'"
        tables.append((when, sorted(slowest, key=lambda one: one.rank)))
    return tables


def faults(case: Case, told: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return the number and the name of each fault, as planned where the record has none."""
    if case.history.faults:
        return [(fault.index, fault.name) for fault in case.history.faults]
    return [(number, str(fault.get("text", "fault"))) for number, fault in enumerate(told["schedule"])]


def stored_verdicts(run: Run, store: Store) -> tuple[Verdict, ...] | None:
    """Return the verdicts stored with the run; None if there are none."""
    try:
        return store.read_verdicts(run.dir).verdicts
    except StoreError:
        return None


def troubles(case: Case) -> Iterator[str]:
    """Yield the limitations of the record that a reader must know."""
    if case.reference is None:
        yield "This run has no stored reference, so there is no comparison."
    elif case.reference.divergence is not None:
        yield f"The uninterrupted runs differ from each other: {case.reference.divergence.sentence}."
    if case.history.end is None:
        yield "The record is incomplete: chaoskit was killed or is still running."
    if gaps := len(case.history.gaps):
        yield f"{gaps} line{'' if gaps == 1 else 's'} of the record are damaged or missing."
    if not case.timeline.starts:
        yield "The probe observed no optimizer step of this run."
    if case.timeline.unplaced:
        which = ", ".join(map(str, case.timeline.unplaced))
        yield (
            f"The steps of incarnation {which} are unknown: "
            "its state matches neither the reference nor an earlier state of the run."
        )
    if case.timeline.resized:
        which = ", ".join(map(str, case.timeline.resized))
        yield (
            f"In incarnation {which} the job had a different number of ranks, "
            "so its losses differ from the reference's."
        )
    yield from (f"The probe had an error: {error}." for error in case.probe_errors[:3])


def commands(run: Run) -> list[tuple[str, str]]:
    """Return the commands for this run, each with its purpose."""
    path = shlex.quote(str(run.dir))
    return [
        ("repeat the run with the same faults and checks", f"chaoskit replay {path}"),
        ("print the events in the terminal", f"chaoskit explain {path}"),
        ("apply the checks to the stored record again", f"chaoskit analyze {path}"),
        ("the command of the job", run.job.text),
    ]


def about(run: Run, told: Mapping[str, Any]) -> dict[str, str]:
    """Return the main facts of the run."""
    faults = "; ".join(str(fault.get("asked") or fault.get("text", "fault")) for fault in told["schedule"])
    facts = {
        "experiment": run.experiment or "–",
        "run": run.id,
        "started": str(told["created"]),
        "environment": str(told["environment"]),
        "faults": faults,
        "directory of the job": str(run.job.directory),
        "reference": str(told["reference"] or ""),
        "launched": "; ".join(dict.fromkeys(launch.how for launch in run.history.launches if launch.how)),
    }
    return {name: text for name, text in facts.items() if text}


def settings(case: Case) -> dict[str, str]:
    """Return the versions and flags that are the same on all ranks."""
    own = [one for _, one in lifetimes(case.history) if one.settings]
    if own:
        return common_settings(own)
    return dict(case.reference.settings) if case.reference is not None else {}


def files(run_dir: Path, link: Link) -> Iterator[tuple[str, str, int]]:
    """Yield the files of a run: names, links and sizes in bytes."""
    found = [run_dir / "run.json", run_dir / "verdicts.json"]
    for folder in ("events", "logs"):
        found += sorted(path for path in (run_dir / folder).rglob("*") if path.is_file())
    for path in found:
        if path.is_file():
            yield str(path.relative_to(run_dir)), link(path), path.stat().st_size
