"""Visits: a job is shown what a crash may have left of its checkpoints, and resumes from it, just far enough to tell.

A `Slot` is a place for one visit after the other; several slots work side by side. The job finds each state under the
path of the run that was recorded, on a file system that notes what it looks at; it is launched as that run was, and
stopped once every rank has shown where it stands.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from chaoskit import journal
from chaoskit.environments.environment import Ended, Place
from chaoskit.environments.local import LocalEnvironment, launcher_for
from chaoskit.environments.storage import Storage
from chaoskit.errors import ChaoskitError
from chaoskit.events import Event, Gap, read_events
from chaoskit.history import History, Incarnation
from chaoskit.job import Job
from chaoskit.launch.launcher import Launch, Launcher
from chaoskit.launch.mode import Mode
from chaoskit.launch.order import Order
from chaoskit.reference import Reference
from chaoskit.store import Store
from chaoskit.timeline import Timeline

#: So many steps show where a job stands: the first what it has loaded, the second what it makes of that.
STEPS = 2
#: How often a job that fails, or hangs, is launched: twice, since a supervisor would, too.
LAUNCHES = 2
#: How often, in seconds, a running job is looked at.
LOOK_EVERY = 0.02
#: A job that shows nothing for so many seconds, and so many times what an uninterrupted run needed, hangs.
PATIENCE, TIMES = 20.0, 4.0
_STEP = b'"e":"step"'
_TELLING = re.compile(r"\w*(Error|Exception|Refused|error)\b.*:|refused")
_TORCHRUN = re.compile(r"ChildFailedError|elastic|error_file|exitcode|traceback :")

How = Literal["resumed", "crashed", "hung", "ended"]


@dataclass(frozen=True)
class Answer:
    """What a job did of itself when it was shown a state.

    `base` is the position that it resumed from, None where nothing tells; `off` says, rank by rank, what was not as it
    should be there. `codes` are its exit codes, `words` the last line of its log that reads like a reason. `looks` are
    what it looked at, and where (see `chaoskit.crash.sight`). `seconds` is what the visit took, by part.
    """

    how: How
    base: int | None = None
    off: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    codes: tuple[int, ...] = ()
    words: str = ""
    looks: frozenset[tuple[str, str]] = frozenset()
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def said(self) -> tuple[object, ...]:
        """What two visits to the same state have in common."""
        return self.how, self.base, self.off, self.codes

    @property
    def exact(self) -> bool:
        """Whether it went on as an uninterrupted run does from `base`."""
        return self.how == "resumed" and self.base is not None and not self.off


@dataclass(frozen=True)
class Recorded:
    """The run whose save was recorded, and what a visit is compared with."""

    run_dir: Path
    job: Job
    reference: Reference

    @property
    def out(self) -> Path:
        """Where the job found its `{out}`."""
        return self.run_dir / "out"

    @cached_property
    def entries(self) -> list[Event | Gap]:
        """Its record."""
        return [one for path in sorted((self.run_dir / "events").glob("*.jsonl")) for one in read_events(path)]

    @cached_property
    def patience(self) -> float:
        """How many seconds a launch may take to its first steps."""
        first = [c.incarnations[0].first_step or 0.0 for c in self.reference.controls]
        begun = [c.launches[0].begun if c.launches else c.incarnations[0].start for c in self.reference.controls]
        return PATIENCE + TIMES * max(a - b for a, b in zip(first, begun, strict=True))


class Slot:
    """A place where the job of a recorded run is shown one state after the other. A context manager."""

    def __init__(self, number: int, recorded: Recorded, store: Store) -> None:
        self.recorded = recorded
        self._number = number
        self._store = store
        self._undo = ExitStack()
        self._launch = 0  # what was recorded was launch 0
        self._run_id = f"{store.read(recorded.run_dir)['id']}-{number}"

    def __enter__(self) -> Slot:
        with ExitStack() as undo:
            self.directory = self._store.new_slot(self.recorded.run_dir, self._number)
            undo.callback(shutil.rmtree, self.directory, ignore_errors=True)
            self.out = self.directory / "out"
            job, mode = self.recorded.job, Mode.from_json(self.recorded.reference.mode)
            env = {key: value.replace("{out}", str(self.recorded.out)) for key, value in job.env.items()}
            place = Place(
                run_dir=self.directory,
                out=self.recorded.out,
                cwd=job.directory,
                run_id=self._run_id,
                env=env,
                mode=mode,
            )
            self._launcher = _Hosted(launcher_for(mode))
            self._env = undo.enter_context(LocalEnvironment(place, self._launcher))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._undo.close()

    def visit(self, materialise: Callable[[Path], object]) -> Answer:
        """Show the job what `materialise` writes into an empty directory; what it did."""
        begun = time.monotonic()
        _empty(self.out)
        materialise(self.out)
        ready = time.monotonic()
        # A new one each time: nobody remembers what was there before.
        shutil.rmtree(self.directory / journal.NAME, ignore_errors=True)
        storage = Storage(
            self._run_id, out=self.recorded.out, run_dir=self.directory, beneath=self.out, sights=True
        )
        try:
            self._launcher.host = storage.host
            answer = self._ask()
            self._env.stop()
            answer = replace(answer, looks=storage.seen())
        finally:
            self._env.stop()
            storage.close()
        seconds = {"materialise": ready - begun, **answer.seconds}
        return replace(answer, seconds={**seconds, "rest": time.monotonic() - begun - sum(seconds.values())})

    def _ask(self) -> Answer:
        """Launch it, again where it fails, and see what it does."""
        begun, first = time.monotonic(), self._launch + 1
        codes: list[int] = []
        for _ in range(LAUNCHES):
            how, code = self._try()
            if code is not None:
                codes.append(code)
            if how in ("resumed", "ended"):
                break
        ended = time.monotonic()
        answer = self._judge(first) if how == "resumed" else Answer(how, words=self._words())
        seconds = {"resume": ended - begun, "judge": time.monotonic() - ended}
        return replace(answer, codes=tuple(codes), seconds=seconds)

    def _try(self) -> tuple[How, int | None]:
        """One launch: what it came to, and its exit code if it ended by itself."""
        self._launch += 1
        job = self.recorded.job
        self._env.launch(self._launch, job.words(out=self.recorded.out, relaunch=True))
        deadline = time.monotonic() + self.recorded.patience
        while time.monotonic() < deadline:
            for happening in self._env.wait(LOOK_EVERY):
                if isinstance(happening, Ended):
                    if self._shown():
                        return "resumed", happening.code
                    return ("crashed" if happening.code else "ended"), happening.code
            if self._shown():
                self._env.stop()
                return "resumed", None
        self._env.stop()
        return "hung", None

    def _shown(self) -> bool:
        """Whether every rank of this launch has shown enough steps, in one life."""
        shown = set()
        for path in (self.directory / "events").glob(f"rank-{self._launch}-*.jsonl"):
            text = path.read_bytes()
            if text.count(_STEP) >= STEPS or (_STEP in text and b'"e":"process.end"' in text):
                shown.add(path.name.split("-")[3])
        return len(shown) >= self.recorded.reference.world_size

    def _judge(self, first: int) -> Answer:
        """Where the last life of the visit stood that took steps."""
        own = [one for n in range(first, self._launch + 1) for one in self._said(n)]
        history = History.of([*self.recorded.entries, *own])
        timeline = Timeline(history, self.recorded.reference)
        stepped = [inc for inc in history.incarnations if inc.launch >= first and inc.index in timeline.starts]
        if not stepped:
            raise ChaoskitError("a visit took steps that its record does not show")
        start = timeline.starts[stepped[-1].index]
        if start.base is None or not start.trusted:
            off = dict.fromkeys(start.ranks, ("model",))
            return Answer("resumed", None, off)
        return Answer("resumed", start.base, _off(stepped[-1], start.base, timeline, self.recorded.reference))

    def _said(self, launch: int) -> list[Event | Gap]:
        paths = sorted((self.directory / "events").glob(f"rank-{launch}-*.jsonl"))
        return [one for path in paths for one in read_events(path)]

    def _words(self) -> str:
        """What the job said last that looks like the reason for its end."""
        try:
            text = (self.directory / "logs" / f"launch-{self._launch}.log").read_text(errors="replace")
        except OSError:
            return ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # What torchrun says of its ranks comes last and tells nothing.
        telling = [line for line in lines if _TELLING.search(line) and not _TORCHRUN.search(line)]
        return (telling or lines or [""])[-1][:300]


class _Hosted:
    """Starts commands on a host that they do not choose."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self.host: Mapping[str, str] | None = None

    def start(self, order: Order) -> Launch:
        """See `Launcher.start`."""
        return self._launcher.start(replace(order, host=self.host))


def _off(inc: Incarnation, base: int, timeline: Timeline, reference: Reference) -> dict[int, tuple[str, ...]]:
    """What of the first steps is not what an uninterrupted run has there, by rank."""
    found = {}
    for rank, life in inc.ranks.items():
        names: list[str] = []
        for step in life.steps[:STEPS]:
            names += timeline.index.align(step, rank).off(base + step.n - 1)
            due = reference.step(rank, base + step.n)
            if due is not None and due.losses != step.losses:
                names.append("loss")
        if names:
            found[rank] = tuple(dict.fromkeys(names))
    return found


def _empty(directory: Path) -> None:
    """Remove what is in it and keep the directory itself: it stands in for another one."""
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
