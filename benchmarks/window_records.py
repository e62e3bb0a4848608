"""What an experiment in a window pays for records, by processor time: a job of 2 ranks and 6,000 steps, whose window
begins at step 5,000, beside one of 600 steps.

No job is run. The records are written as the probe writes them: two controls, the run in which states were kept, and a
run that begins late, is killed 30 steps later and goes on from the kept state until it equals its reference. Measured
is what chaoskit does with them: the reference of the job is looked up, the record before the window is verified and
begun with, the watch looks every 10 steps, and the run is judged and, as its process would again, read.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from align import step_events
from table import Figure, parser, show

from chaoskit import checks
from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine import reference_store
from chaoskit.engine.progress import quiet
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Run
from chaoskit.engine.windows import earned
from chaoskit.engine.windows.kept_outs import fresh
from chaoskit.engine.windows.window import Window
from chaoskit.job import Job
from chaoskit.protocol.events import EventWriter

RANKS, SAVE_EVERY, LOOK_EVERY = 2, 50, 10
#: The steps of the long job and of the short one, and what an experiment should cost in seconds.
SIZES, TARGET = (6000, 600), "<= 0.3"
CHECKS = (
    checks.completed(), checks.resumed_from_last_valid(), checks.state_restored(), checks.same_data(),
    checks.matches_reference(), checks.checkpoints_faithful(), checks.no_checkpoint_lost(), checks.replicas_agree(),
)  # fmt: skip


class Ranks:
    """The ranks of one launch, whose records are written step by step, from position `base` on."""

    def __init__(
        self, run_dir: Path, steps: list[list[dict[str, Any]]], *, launch: int, base: int, out: Path
    ) -> None:
        self.steps, self.at, self.base, self.out, self.saves = steps, base, base, out, 0
        pids = [100 * launch + rank + 1 for rank in range(RANKS)]
        names = [f"rank-{launch}-0-{rank}-{pid}.jsonl" for rank, pid in enumerate(pids)]
        self.writers = [EventWriter(run_dir / "events" / name) for name in names]
        for rank, writer in enumerate(self.writers):
            about = {
                "role": "rank",
                "rank": rank,
                "world": RANKS,
                "launch": launch,
                "restart": 0,
                "pid": pids[rank],
            }
            writer.write("process.start", **about)
            if base:
                call = {"id": 0, "n": 0, "path": str(out / f"{base}.pt"), "api": "torch.load"}
                writer.write("load.begin", **call)
                writer.write("load.end", **call, ok=True, content=content(base))

    def train(self, until: int) -> None:
        """Take the steps up to a position."""
        while self.at < until:
            for rank, writer in enumerate(self.writers):
                writer.write("step", **{**self.steps[rank][self.at], "n": self.at + 1 - self.base})
            self.at += 1
            if self.at % SAVE_EVERY == 0:
                self.saves += 1
                (self.out / f"{self.at}.pt").write_text(f"{self.at}")
                for writer in self.writers:
                    call = {"id": self.saves, "n": self.at - self.base, "path": str(self.out / f"{self.at}.pt")}
                    call |= {"api": "torch.save", "content": content(self.at)}
                    writer.write("save.begin", **call)
                    writer.write("save.end", **call, ok=True)

    def end(self) -> None:
        """Let the ranks end by themselves."""
        for writer in self.writers:
            writer.write("process.end", clean=True)
            writer.close()


def content(at: int) -> dict[str, str]:
    """What a checkpoint holds."""
    return {"step": f"={at}"}


def whole(run_dir: Path, steps: list[list[dict[str, Any]]], *, keep: int = 0) -> None:
    """An uninterrupted run, which keeps the state of position `keep`."""
    out = run_dir / "out"
    out.mkdir(parents=True)
    (run_dir / "events").mkdir()
    harness = EventWriter(run_dir / "events" / "harness.jsonl")
    harness.write("launch.start", launch=0, command=["train"], out=str(out))
    ranks = Ranks(run_dir, steps, launch=0, base=0, out=out)
    if keep:
        ranks.train(keep + 1)
        states = fresh(run_dir / earned.OUTS, within=run_dir.parent)
        states.keep(out, save=keep, at=keep + 1)
        states.write()
    ranks.train(len(steps[0]))
    ranks.end()
    harness.write("launch.end", launch=0, code=0, cause="itself", survivors=[])
    harness.write("run.end", status="finished")
    harness.close()


def made(root: Path, size: int) -> tuple[Store, str, earned.Windows]:
    """The store of a job of so many steps, the digest of its reference, and its windows."""
    steps = [[*step_events(rank, size)] for rank in range(RANKS)]
    store = Store(root)
    store.prepare()
    directory = store.references / "job"
    for number in range(2):
        whole(directory / f"control-{number}", steps)
    whole(directory / "windows", steps, keep=size * 5 // 6)
    kept = {"format": 1, "digest": "job", "seconds": 1.0, "controls": 2, "files": []}
    (directory / "reference.json").write_text(json.dumps(kept))
    return store, "job", earned.keep(directory / "windows", ("0", "1"), why="")


def experiment(
    store: Store, name: str, windows: earned.Windows, run_id: str, steps: list[list[dict[str, Any]]]
) -> Iterator[tuple[str, Callable[[], object]]]:
    """The parts of an experiment that work with records, in order."""
    run_dir = store.runs / run_id
    (run_dir / "events").mkdir(parents=True)
    (run_dir / "out").mkdir()
    found: list[Reference] = []

    def look_up() -> None:
        reference = reference_store.load(store, name)
        assert reference is not None
        found.append(reference)

    yield "look up the reference, and attach it", look_up
    reference = found[0]
    yield "look up the reference, and attach it", lambda: reference_store.attach(reference, run_dir)
    state = windows.states.states[0]
    window = Window(windows, state, reference, store, quiet)
    yield "verify and begin", lambda: (windows.verify(), state.verify())
    yield "verify and begin", lambda: window.begin(run_dir)
    watch = window.watch(run_dir)
    assert watch is not None
    harness = EventWriter(run_dir / "events" / "harness.jsonl")
    base, out, due = state.save, run_dir / "out", False
    for launch, until in ((1, base + 30), (2, base + 120)):
        harness.write("launch.start", launch=launch, command=["train"], out=str(out))
        ranks = Ranks(run_dir, steps, launch=launch, base=base, out=out)
        while ranks.at < until and not due:
            ranks.train(ranks.at + LOOK_EVERY)
            if launch == 2:

                def look() -> None:
                    nonlocal due
                    due = watch.look(watch.next_look)

                yield "looks", look
        if launch == 1:
            for stage in ("requested", "applied", "observed"):
                what = {"text": "kill(rank=1)", "action": {"kind": "kill"}, "trigger": None}
                harness.write(f"fault.{stage}", fault=0, what=what, evidence={})
        cause, code = ("itself", 1) if launch == 1 else ("window", None)
        harness.write("launch.end", launch=launch, code=code, cause=cause, survivors=[])
    assert due, "the window does not end"
    harness.write("run.end", status="window")
    harness.close()
    yield "judge", lambda: window.to_repeat(run_dir)
    run = Run(run_id, run_dir, Job("train.py"), store, reference, window=window)

    def judge() -> None:
        verdicts = checks.judge(run.case, CHECKS)
        assert all(verdict.outcome.value == "pass" for verdict in verdicts), verdicts

    yield "judge", judge
    yield "judge", lambda: run.summary


def measure(size: int, count: int) -> dict[str, float]:
    """Seconds of processor time of each part of an experiment: the median of several, the first one left out, which
    reads the reference."""
    times: list[dict[str, float]] = []
    steps = [[*step_events(rank, size)] for rank in range(RANKS)]
    with tempfile.TemporaryDirectory(prefix="windows-") as scratch:
        store, name, windows = made(Path(scratch, "store"), size)
        for number in range(count + 1):
            own: dict[str, float] = {}
            for part, do in experiment(store, name, windows, f"run-{number}", steps):
                begun = time.process_time()
                do()
                own[part] = own.get(part, 0.0) + time.process_time() - begun
            times.append(own)
    return {part: sorted(own[part] for own in times[1:])[count // 2] for part in times[0]}


def main() -> None:
    """Both sizes, and the table."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of steps")
    arguments.add_argument("--experiments", type=int, default=5, help="of each size (5)")
    told = arguments.parse_args()
    figures = []
    for size in told.sizes:
        parts = measure(size, told.experiments)
        figures += [Figure(f"{size:,} steps: {part}", seconds, "s") for part, seconds in parts.items()]
        figures.append(Figure(f"{size:,} steps: an experiment in a window", sum(parts.values()), "s", TARGET))
    show(f"Records of {RANKS} ranks, processor time", figures, json_file=told.json)


if __name__ == "__main__":
    sys.exit(main())
