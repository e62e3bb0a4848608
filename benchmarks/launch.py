"""Cold and warm launches of a 2-rank job, one after the other: how long until its first optimizer step, how long from
the SIGKILL of a rank until the first step after it, and where what is left of that goes.

The record of the runs says when; nothing is timed twice: each part begins where the one before it ends.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from table import Figure, parser, show

from chaoskit import Job, checks, faults
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Run, Runner
from chaoskit.protocol.events import Event, read_events

REPOSITORY = Path(__file__).resolve().parents[1]
KINDS = ("cold", "warm")
FIRST, AGAIN = "start until the first step", "SIGKILL of a rank until the next step"
UP = "the environment, until the first launch"
PARTS = (
    "launcher: up, rendezvous, start the ranks",
    "ranks: up, until torch is imported",
    "ranks: the script until its process group stands",
    "ranks: model, data, first forward and backward",
    "steps until the fault",
    "fault applied until seen to have taken effect",
    "detection: fault seen until the command has ended",
    "relaunch until the first step again",
    "steps after the resume, and the end",
    "verdict",
)
#: Which of PARTS the two spans consist of.
SPANS = {FIRST: PARTS[:4], AGAIN: PARTS[5:8]}
TARGETS = {FIRST: ">= 8", AGAIN: ">= 8"}


def events(run: Run, *, launch: int) -> dict[str, float]:
    """The first time at which any rank of a launch said each kind of thing."""
    first: dict[str, float] = {}
    for path in (run.dir / "events").glob(f"rank-{launch}-*.jsonl"):
        for event in read_events(path):
            if isinstance(event, Event):
                first[event.kind] = min(event.t, first.get(event.kind, event.t))
    return first


def parts(run: Run, judged: float) -> dict[str, float]:
    """Seconds of each of PARTS."""
    launches, fault, ranks = run.history.launches, run.history.faults[0], events(run, launch=0)
    ended = launches[-1].ended
    assert fault.applied and fault.observed and launches[0].ended and ended
    marks = [
        launches[0].begun, ranks["process.start"], ranks["torch"], ranks["group"], ranks["step"],
        fault.applied, fault.observed, launches[0].ended, events(run, launch=1)["step"], ended,
    ]  # fmt: skip
    return dict(zip(PARTS, [*(b - a for a, b in pairwise(marks)), judged], strict=True))


def experiment(runner: Runner, job: Job) -> dict[str, float]:
    """The parts of one experiment, its spans, the whole of it, and how long until its first launch."""
    step = runner.reference(job).middle_of_epoch(2)
    begun = time.monotonic()
    run = runner.run(job, faults.kill(rank=1).at_step(step))
    ran = time.monotonic()
    run.verify(checks.completed(), checks.resumed_from_last_valid(), checks.matches_reference())
    how = {launch.how for launch in run.history.launches}
    assert how == {runner.launch}, f"launched {how}"
    found = parts(run, time.monotonic() - ran)
    spans = {name: sum(found[part] for part in those) for name, those in SPANS.items()}
    return {UP: run.history.launches[0].begun - begun, **found, **spans, "one experiment": time.monotonic() - begun}


def figures(measured: dict[str, list[dict[str, float]]]) -> list[Figure]:
    """Medians, ratios of the medians, and the slowest part of what a warm launch still takes."""
    typical = {kind: medians(rows) for kind, rows in measured.items()}
    found = []
    for name in (FIRST, AGAIN, "one experiment"):
        found += [Figure(f"{name}, {kind}", typical[kind][name], "s") for kind in KINDS]
        ratio = typical["cold"][name] / typical["warm"][name]
        found.append(Figure(f"{name}, cold / warm", ratio, "x", TARGETS.get(name, "")))
    warm = typical["warm"]
    for name, those in SPANS.items():
        slowest = max(those, key=lambda part: warm[part])
        found.append(Figure(f"slowest of '{name}', warm: {slowest}", 100 * warm[slowest] / warm[name], "%"))
    whole = warm["one experiment"]
    found += [Figure(f"warm: {part} ({100 * warm[part] / whole:.0f} %)", warm[part], "s") for part in PARTS]
    return found


def medians(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """The median of each span and part."""
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--rounds", type=int, default=10)
    told = arguments.parse_args()
    job = Job("tinymodels.train", ["--out", "{out}"], module=True, cwd=str(REPOSITORY))
    measured: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as scratch:
        runners = {kind: Runner(Store(scratch), launch=kind) for kind in KINDS}
        for runner in runners.values():
            runner.reference(job)  # gets both parents going, too
        for number in range(told.rounds):
            print(f"round {number + 1} of {told.rounds}", file=sys.stderr)
            for kind, runner in runners.items():
                measured[kind].append(experiment(runner, job))
    title = f"Cold and warm launches (medians of {told.rounds}, alternating)"
    show(title, figures(measured), json_file=told.json)


if __name__ == "__main__":
    main()
