"""The page of one run: what was done to the job, what it did, and what that proves, as one self-contained HTML file.

It draws the stored history and the stored verdicts, and judges nothing. From the top: the sentence, the picture, the
lanes of the ranks, the clock, the alignment, the ledger, the checks, the stacks, the story, the commands, the files.

What stands in it for tests and style sheets to find. Sections have ids: `#verdict`, `#picture`, `#lanes`, `#clock`,
`#alignment`, `#ledger`, `#checks`, `#stacks`, `#story`, `#again`, `#files`. In the picture (`svg.losses`):
`.line.reference`, `.line.run`, `.band`, `.branch.rolled-back` (one a life, `data-life`), `.fault-window` (with
`data-fault`, the number of the fault; its name in `.fault-name`), `.checkpoint` (`.valid`, `.refused`, `.poisoned`,
`.resumed`; with `data-position`, `data-life`; `.harmed` where something was wrong with one that was resumed from),
`.resumed-arrow` (with `data-from`, `data-to`), `.nonfinite`, `.first-wrong` (`data-step`). In the lanes (`svg.lanes`):
`.lane` (`data-ranks`), `.life`, `.stall`, `.death` (`.struck` where a fault did it), `.rollback`. In the clock
(`svg.clock`): `.launch`, `.life`, `.fault-time`, `.recovery`, `.phase` (`data-phase`: detection, teardown, relaunch,
load, first-step), and the same in `table.phases`. In tables: `td.wrong`. Whatever did not happen is not there.
The signs in `.legend` have the same classes.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaoskit.checks.check import Case
from chaoskit.errors import CODES, StoreError
from chaoskit.history import lives
from chaoskit.life import common_settings
from chaoskit.phases import PHASES, phases
from chaoskit.remedies import REMEDIES
from chaoskit.report import page
from chaoskit.report.alignment_rows import table
from chaoskit.report.clock import clock, room
from chaoskit.report.evidence import pieces
from chaoskit.report.headline import ENDS, headline
from chaoskit.report.lane_picture import lane_picture
from chaoskit.report.loss_picture import WIDTH, loss_picture
from chaoskit.report.story import story
from chaoskit.runner import Run
from chaoskit.store import Store
from chaoskit.verdict import Verdict

#: From a file or directory of the store to what a page links to.
Link = Callable[[Path], str]
#: So many files are linked to, and moments of the story told.
FILES, MOMENTS = 60, 300
#: Evidence that has a place of its own on the page.
SHOWN_ELSEWHERE = ("table", "stacks")


def render(
    run: Run,
    *,
    store: Store | None = None,
    verdicts: Sequence[Verdict] | None = None,
    links: Link | None = None,
    home: str = "",
) -> str:
    """The page of a stored run. `verdicts` are those of `verdicts.json` unless given; `links` turns paths of the store
    (by default that of the run itself) into links, which are absolute otherwise; `home` links to the page of its suite.
    Raises StoreError where the run cannot be read."""
    store = store or run.store
    told = store.read(run.dir)
    found = stored_verdicts(run, store) if verdicts is None else tuple(verdicts)
    case = run.case
    columns, rows = table(case.table())
    return page.render(
        "run.html.j2",
        run=run,
        home=home,
        told=told,
        case=case,
        headline=headline(case, found),
        meanings=CODES,
        remedies=REMEDIES,
        width=WIDTH,
        losses=loss_picture(case),
        lanes=lane_picture(case),
        clock=clock(case),
        room=room,
        recoveries=case.recoveries,
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


def stored_verdicts(run: Run, store: Store) -> tuple[Verdict, ...] | None:
    """Those that are kept beside the run; None where there are none."""
    try:
        return store.read_verdicts(run.dir).verdicts
    except StoreError:
        return None


def troubles(case: Case) -> Iterator[str]:
    """What the reader of the page has to know of the record itself."""
    if case.reference is None:
        yield "No uninterrupted run lies beside this one, so there is nothing to compare with."
    elif case.reference.parting is not None:
        yield f"The uninterrupted runs differ from each other: {case.reference.parting.sentence}."
    if case.history.end is None:
        yield "The record has no end: chaoskit itself died, or is still at work."
    if gaps := len(case.history.gaps):
        yield f"{gaps} line{'' if gaps == 1 else 's'} of the record are damaged or missing."
    if not case.timeline.starts:
        yield "No optimizer step of this run was seen."
    if case.timeline.unplaced:
        which = ", ".join(map(str, case.timeline.unplaced))
        yield f"Nothing tells which steps life {which} took: it matches neither the reference nor the run's own past."
    if case.timeline.resized:
        which = ", ".join(map(str, case.timeline.resized))
        yield f"In life {which} the job went on with another number of ranks: its losses are not the reference's."
    errors = sorted({error for _, life in lives(case.history) for error in life.errors})
    yield from (f"The probe had trouble: {error}." for error in errors[:3])


def commands(run: Run) -> list[tuple[str, str]]:
    """What to type, and what for."""
    place = shlex.quote(str(run.dir))
    return [
        ("repeat what was done to the job, and judge it again", f"chaoskit replay {place}"),
        ("tell the story in the terminal", f"chaoskit explain {place}"),
        ("judge the stored record again", f"chaoskit analyze {place}"),
        ("the job itself", shlex.join(run.job.words())),
    ]


def about(run: Run, told: Mapping[str, Any]) -> dict[str, str]:
    """The run in a few words."""
    faults = "; ".join(str(fault.get("asked") or fault.get("text", "fault")) for fault in told["schedule"])
    facts = {
        "experiment": run.experiment or "–",
        "run": run.id,
        "begun": str(told["created"]),
        "environment": str(told["environment"]),
        "asked for": faults,
        "job in": str(run.job.directory),
        "reference": str(told["reference"] or ""),
        "launched": "; ".join(dict.fromkeys(launch.how for launch in run.history.launches if launch.how)),
    }
    return {name: text for name, text in facts.items() if text}


def settings(case: Case) -> dict[str, str]:
    """The versions and flags that the ranks computed with, as far as they are the same on all."""
    own = [life for _, life in lives(case.history) if life.settings]
    if own:
        return common_settings(own)
    return dict(case.reference.settings) if case.reference is not None else {}


def files(run_dir: Path, link: Link) -> Iterator[tuple[str, str, int]]:
    """The raw files of a run: their names, links and sizes in bytes."""
    found = [run_dir / "run.json", run_dir / "verdicts.json"]
    for folder in ("events", "logs"):
        found += sorted(path for path in (run_dir / folder).rglob("*") if path.is_file())
    for path in found:
        if path.is_file():
            yield str(path.relative_to(run_dir)), link(path), path.stat().st_size
