"""Where the seconds of one experiment go: a rank of the tiny GPT is killed, and the record of the run says when.

Nothing is timed twice: each part begins where the one before it ends.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from table import Figure, parser, show

from chaoskit import Job, checks, faults
from chaoskit.events import Event, read_events
from chaoskit.runner import Run, Runner
from chaoskit.store import Store

REPOSITORY = Path(__file__).resolve().parents[1]
PARTS = (
    "launcher: import torch, rendezvous, start the ranks",
    "ranks: import torch",
    "ranks: the script until its process group stands",
    "ranks: model, data, first forward and backward",
    "steps until the fault",
    "fault applied until seen to have taken effect",
    "detection: fault seen until the command has ended",
    "relaunch until the first step again",
    "steps after the resume, and the end",
    "verdict",
)


def events(run: Run, *, launch: int) -> dict[str, float]:
    """The first time at which any rank of a launch said each kind of thing."""
    first: dict[str, float] = {}
    for path in (run.dir / "events").glob(f"rank-{launch}-*.jsonl"):
        for event in read_events(path):
            if isinstance(event, Event):
                first[event.kind] = min(event.t, first.get(event.kind, event.t))
    return first


def parts(run: Run, judged: float) -> list[float]:
    """Seconds of each of PARTS."""
    launches, fault, ranks = run.history.launches, run.history.faults[0], events(run, launch=0)
    ended = launches[-1].ended
    assert fault.applied and fault.observed and launches[0].ended and ended
    marks = [
        launches[0].begun, ranks["process.start"], ranks["torch"], ranks["group"], ranks["step"],
        fault.applied, fault.observed, launches[0].ended, events(run, launch=1)["step"], ended,
    ]  # fmt: skip
    return [b - a for a, b in pairwise(marks)] + [judged]


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--rounds", type=int, default=5)
    told = arguments.parse_args()
    job = Job("tinymodels.train", ["--out", "{out}"], module=True, cwd=str(REPOSITORY))
    with tempfile.TemporaryDirectory() as scratch:
        runner = Runner(Store(scratch))
        begun = time.perf_counter()
        reference = runner.reference(job)
        made = time.perf_counter() - begun
        measured, wholes = [], []
        for number in range(told.rounds):
            print(f"round {number + 1} of {told.rounds}", file=sys.stderr)
            begun = time.perf_counter()
            run = runner.run(job, faults.kill(rank=1).at_step(reference.middle_of_epoch(2)))
            ran = time.perf_counter()
            run.verify(checks.completed(), checks.resumed_from_last_valid(), checks.matches_reference())
            measured.append(parts(run, time.perf_counter() - ran))
            wholes.append(time.perf_counter() - begun)
    whole = statistics.median(wholes)
    medians = [statistics.median(column) for column in zip(*measured, strict=True)]
    figures = [
        Figure(f"{name} ({100 * seconds / whole:.0f} %)", seconds, "s")
        for name, seconds in zip(PARTS, medians, strict=True)
    ]
    figures += [Figure("one experiment", whole, "s"), Figure("the reference (two controls, kept)", made, "s")]
    show(f"Where the seconds of one experiment go (median of {told.rounds})", figures, json_file=told.json)


if __name__ == "__main__":
    main()
