"""Resume trials: a job resumes from a state that a crash could have left, for a few steps.

A `TrialSlot` runs one trial after the other; several slots work in parallel. The job finds each state at the path of
the recorded run, on a file system that records its accesses. It is launched like that run, and stopped when every rank
has taken enough steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, cast

from chaoskit import environments
from chaoskit.analysis.alignment.index import Index
from chaoskit.analysis.alignment.resume_point import Start
from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.diagnosis import CODES, data_code
from chaoskit.analysis.record.history import History, Incarnation
from chaoskit.analysis.reference.reference import Reference
from chaoskit.capabilities import CanShowDirectory
from chaoskit.engine.log_reason import reason
from chaoskit.engine.resume_arguments import newest
from chaoskit.engine.run_store import Store
from chaoskit.environments.environment import Ended, Environment, RunSpec
from chaoskit.environments.launch.mode import Mode
from chaoskit.errors import ChaoskitError
from chaoskit.files.removal import empty, remove
from chaoskit.job import NEWEST, Job
from chaoskit.protocol.events import Event, RecordGap, read_events

#: Steps per trial: the first shows the loaded state, the second how the job continues from it.
STEPS = 2
#: A failing or hanging job is launched twice, as a supervisor would do.
LAUNCHES = 2
#: Interval of polling a running job, in seconds.
POLL_EVERY = 0.02
#: A job hangs if it takes no step for this many seconds plus this multiple of the time that an uninterrupted run took
#: to its first step.
PATIENCE, TIMES = 20.0, 4.0
_STEP = b'"e":"step"'

How = Literal["resumed", "crashed", "hung", "ended"]


@dataclass(frozen=True)
class Answer:
    """The reaction of a job to a state.

    `base` is the position that it resumed from (None: unknown); `off` are the wrong components by rank, `lost` the
    diagnosis codes of these. `codes` are its exit codes, `message` the exception that ended a rank, or the last line of
    its log that looks like a reason. `accesses` are its accesses to the state
    (see `chaoskit.analysis.crash_model.observed`). `seconds` is the duration of the trial by part.
    """

    how: How
    base: int | None = None
    off: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    message: str = ""
    accesses: frozenset[tuple[str, str]] = frozenset()
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def signature(self) -> tuple[object, ...]:
        """The part that is equal in two trials of the same state."""
        return self.how, self.base, self.off, self.codes

    @property
    def exact(self) -> bool:
        """Whether the job continued exactly like an uninterrupted run from `base`."""
        return self.how == "resumed" and self.base is not None and not self.off

    @property
    def wrong(self) -> frozenset[str]:
        """The wrong components of all ranks."""
        return frozenset(name for names in self.off.values() for name in names)


@dataclass(frozen=True)
class Recorded:
    """The run whose save was recorded, and the reference for the trials."""

    run_dir: Path
    job: Job
    reference: Reference

    @property
    def out(self) -> Path:
        """The directory that was the job's `{out}`."""
        return self.run_dir / "out"

    @cached_property
    def entries(self) -> list[Event | RecordGap]:
        """The events of the recorded run."""
        return [one for path in sorted((self.run_dir / "events").glob("*.jsonl")) for one in read_events(path)]

    @cached_property
    def patience(self) -> float:
        """Seconds that a launch may take to its first steps."""
        first = [c.incarnations[0].first_step or 0.0 for c in self.reference.controls]
        begun = [c.launches[0].begun if c.launches else c.incarnations[0].start for c in self.reference.controls]
        return PATIENCE + TIMES * max(a - b for a, b in zip(first, begun, strict=True))


class TrialSlot:
    """Resumes the job of a recorded run from one state after the other. A context manager."""

    def __init__(self, number: int, recorded: Recorded, store: Store) -> None:
        self.recorded = recorded
        self._number = number
        self._store = store
        self._environment = str(store.read(recorded.run_dir)["environment"])
        self._undo = ExitStack()
        self._launch = 0  # what was recorded was launch 0
        self._run_id = f"{store.read(recorded.run_dir)['id']}-{number}"

    def __enter__(self) -> TrialSlot:
        with ExitStack() as undo:
            self.directory = self._store.new_slot(self.recorded.run_dir, self._number)
            undo.callback(remove, self.directory, within=self._store.root)
            self.out = self.directory / "out"
            job, mode = self.recorded.job, Mode.from_json(self.recorded.reference.mode)
            env = {key: value.replace("{out}", str(self.recorded.out)) for key, value in job.env.items()}
            spec = RunSpec(
                run_dir=self.directory,
                out=self.recorded.out,
                cwd=job.directory,
                run_id=self._run_id,
                env=env,
                mode=mode,
                nodes=job.nodes,
                image=job.image,
                helper_image=job.helper_image,
                program=job.words()[0],
                mounts=tuple(job.mounts),
                cluster=job.cluster,
                partition=job.partition,
                store=self._store.root,
                shows=True,
            )
            self._env: Environment = undo.enter_context(environments.environment(self._environment)(spec))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._undo.close()

    def resume(self, materialise: Callable[[Path], object]) -> Answer:
        """Run one trial: the job resumes from the state that `materialise` writes into an empty directory."""
        begun = time.monotonic()
        empty(self.out, within=self.directory)
        materialise(self.out)
        ready = time.monotonic()
        shows = cast(CanShowDirectory, self._env)
        shows.show(self.out)
        try:
            answer = self._ask()
            self._env.stop()
            answer = replace(answer, accesses=shows.looked_at())
        finally:
            self._env.stop()
            shows.hide()
        seconds = {"materialise": ready - begun, **answer.seconds}
        return replace(answer, seconds={**seconds, "rest": time.monotonic() - begun - sum(seconds.values())})

    def _ask(self) -> Answer:
        """Launch the job, again after a failure, and judge its steps."""
        begun, first = time.monotonic(), self._launch + 1
        codes: list[int] = []
        for _ in range(LAUNCHES):
            how, code = self._try()
            if code is not None:
                codes.append(code)
            if how in ("resumed", "ended"):
                break
        ended = time.monotonic()
        answer = self._judge(first) if how == "resumed" else Answer(how, message=self._last_message())
        seconds = {"resume": ended - begun, "judge": time.monotonic() - ended}
        return replace(answer, codes=tuple(codes), seconds=seconds)

    def _try(self) -> tuple[How, int | None]:
        """Launch the job once; returns the result, and the exit code if the job ended by itself."""
        self._launch += 1
        job = self.recorded.job
        patterns = {glob: newest(self.out, glob) for word in job.resume_args for glob in NEWEST.findall(word)}
        # Where nothing has that name there is nothing that the job could be told to resume from.
        known = None not in patterns.values()
        told = job.resume_words(self.recorded.out, newest=lambda glob: str(patterns[glob])) if known else []
        self._env.launch(self._launch, job.words(out=self.recorded.out, relaunch=True, resume_words=told))
        deadline = time.monotonic() + self.recorded.patience
        while time.monotonic() < deadline:
            for event in self._env.wait(POLL_EVERY):
                if isinstance(event, Ended):
                    if self._stepped():
                        return "resumed", event.code
                    return ("crashed" if event.code else "ended"), event.code
            if self._stepped():
                self._env.stop()
                return "resumed", None
        self._env.stop()
        return "hung", None

    def _stepped(self) -> bool:
        """Whether every rank of this launch has taken enough steps in one lifetime."""
        ready = set()
        for path in (self.directory / "events").glob(f"rank-{self._launch}-*.jsonl"):
            text = path.read_bytes()
            if text.count(_STEP) >= STEPS or (_STEP in text and b'"e":"process.end"' in text):
                ready.add(path.name.split("-")[3])
        return len(ready) >= self.recorded.reference.world_size

    def _judge(self, first: int) -> Answer:
        """Compare the last lifetime of the trial that took steps with the reference."""
        own = [one for n in range(first, self._launch + 1) for one in self._events(n)]
        history = History.of([*self.recorded.entries, *own])
        timeline = Timeline(history, self.recorded.reference)
        stepped = [inc for inc in history.incarnations if inc.launch >= first and inc.index in timeline.starts]
        if not stepped:
            raise ChaoskitError("a resume trial took steps that are missing from its record")
        start = timeline.starts[stepped[-1].index]
        if start.base is None or not start.trusted:
            nowhere = dict.fromkeys(start.ranks, ("model",))
            return Answer("resumed", None, nowhere, lost=("model-not-restored",))
        off = _off(stepped[-1], start.base, timeline, self.recorded.reference)
        return Answer("resumed", start.base, off, lost=_lost(start, off))

    def _events(self, launch: int) -> list[Event | RecordGap]:
        paths = sorted((self.directory / "events").glob(f"rank-{launch}-*.jsonl"))
        return [one for path in paths for one in read_events(path)]

    def _last_message(self) -> str:
        """Return why the job ended: the exception of the first rank that had one, or a line of its log."""
        ends = [event for event in self._events(self._launch) if isinstance(event, Event)]
        errors = sorted((event.t, str(event["uncaught"])) for event in ends if event.get("uncaught"))
        if errors:
            return " ".join(errors[0][1].split())[:300]
        try:
            text = (self.directory / "logs" / f"launch-{self._launch}.log").read_text(errors="replace")
        except OSError:
            return ""
        return reason(text)


def _off(inc: Incarnation, base: int, timeline: Timeline, reference: Reference) -> dict[int, tuple[str, ...]]:
    """Return by rank the components that differ from an uninterrupted run, in the first step in which any do: what
    differs after it may be a consequence."""
    # The timeline's own index has learned what this very lifetime did.
    index = Index.of(reference, components=timeline.comparable)
    for number in range(1, STEPS + 1):
        found = {}
        for rank, own in inc.ranks.items():
            for step in own.steps[:STEPS]:
                if step.n == number:
                    names = list(index.align(step, rank).off(base + number - 1))
                    due = reference.step(rank, base + number)
                    names += ["loss"] if due is not None and due.losses != step.losses else []
                    found.update({rank: tuple(names)} if names else {})
        if found:
            return found
    return {}


def _lost(start: Start, off: Mapping[int, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the diagnosis codes of wrong components; of a loss alone, that it diverged."""
    found: dict[str, None] = {}
    for rank, names in off.items():
        for name in names:
            family = name.partition(".")[0]
            if family == "batch":
                places = sorted(start.ranks[rank].positions.get("batch") or ())
                found[data_code(places, start.base or 0)] = None
            elif family in CODES:
                found[CODES[family]] = None
    return tuple(found) or (("loss-diverged",) if off else ())
