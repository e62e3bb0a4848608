"""`Trace`: the steps of the ranks in one window, and `judge`: the outcome of the corruption in it.

Each step of each rank is compared bitwise with the uninterrupted run.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chaoskit.analysis.record.history import UNTOUCHED
from chaoskit.analysis.record.steps import Step, values
from chaoskit.analysis.reference.reference import Reference
from chaoskit.studies.sdc.windows import WatchWindow

Class = Literal["detected", "crashed", "hung", "gone", "faded", "silent"]
#: The outcomes of a corruption.
CLASSES: dict[Class, str] = {
    "detected": "detected",
    "crashed": "crashed",
    "hung": "hung",
    "gone": "gone (bitwise)",
    "faded": "faded",
    "silent": "silent",
}


@dataclass(frozen=True)
class Seen:
    """The state of a rank before a step. `loaded`: it has just read a checkpoint; `nonfinite` are the components with a
    value that is not finite, as far as the probe checked."""

    losses: tuple[str, ...]
    state: Mapping[str, str]
    loaded: bool = False
    nonfinite: tuple[str, ...] = ()

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Seen:
        """Make it from the record that a rank sends at its gate."""
        loaded, nonfinite = bool(record.get("loaded")), tuple(record.get("nonfinite", ()))
        return cls(tuple(record["losses"]), dict(record["state"]), loaded, nonfinite)

    def same(self, step: Step | None, idle: frozenset[str]) -> bool:
        """Whether it is bitwise equal to that step of the uninterrupted run, without unused random streams."""
        if step is None or self.losses != step.losses:
            return False
        names = set(self.state) | set(step.components)
        return all(self.state.get(name) == step.components.get(name) for name in names - _unused(step, idle))


def _unused(step: Step | None, idle: frozenset[str]) -> set[str]:
    """Return random streams that the job does not use: their values are arbitrary and differ between processes."""
    components = step.components if step is not None else {}
    return {*idle, *(name for name, value in components.items() if value == UNTOUCHED)}


@dataclass(frozen=True)
class End:
    """The end of the job in the window. `noticed`: by its own decision. `words` is the explanation."""

    noticed: bool
    words: str
    hung: bool = False


@dataclass
class Trace:
    """What was observed by rank and step, the end of the job if it ended, and the effect of the corruption as reported
    by the rank (None: no report, or a control)."""

    seen: dict[int, dict[int, Seen]] = field(default_factory=dict)
    end: End | None = None
    effect: Mapping[str, Any] | None = None

    def add(self, rank: int, step: int, seen: Seen) -> None:
        self.seen.setdefault(rank, {})[step] = seen

    def whole(self, window: WatchWindow, world_size: int) -> bool:
        """Whether every rank has reached the end of the window."""
        return sum(window.closes in steps for steps in self.seen.values()) == world_size

    @property
    def displaced(self) -> bool:
        """Whether the job has loaded a checkpoint."""
        return any(seen.loaded for steps in self.seen.values() for seen in steps.values())

    def opened(self, window: WatchWindow, reference: Reference) -> bool:
        """Whether every rank equals the uninterrupted run just before the corrupted step."""
        return all(self._same(reference, rank, window.opens) for rank in range(reference.world_size))

    def exact(self, window: WatchWindow, reference: Reference) -> bool:
        """Whether the whole window equals the uninterrupted run."""
        ranks = range(reference.world_size)
        return self.end is None and all(self._same(reference, rank, n) for rank in ranks for n in window.steps)

    def _same(self, reference: Reference, rank: int, step: int) -> bool:
        seen = self.seen.get(rank, {}).get(step)
        return seen is not None and seen.same(reference.step(rank, step), reference.idle)

    def digest(self, until: int | None, reference: Reference) -> str:
        """Return a digest of all losses and components up to a step (None: the last one that all ranks reached)."""
        last = min((max(steps) for steps in self.seen.values()), default=0)
        last = last if until is None else min(last, until)
        content = []
        for rank, steps in sorted(self.seen.items()):
            for step, seen in sorted(steps.items()):
                unused = _unused(reference.step(rank, step), reference.idle)
                state = sorted((name, value) for name, value in seen.state.items() if name not in unused)
                if step <= last:
                    content.append((rank, step, seen.losses, state))
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class CorruptionOutcome:
    """The outcome of a corruption. `how` explains it; `step` is the step of the detection, None at the end of the
    window. `worst` is the largest relative difference of a loss (infinite if it is not finite), `last` that at the end
    of the window; `digest` covers everything observed until then. `over`: the launch ended."""

    becomes: Class
    how: str
    step: int | None = None
    worst: float = 0.0
    last: float = 0.0
    digest: str = ""
    over: bool = False

    @property
    def signature(self) -> tuple[object, ...]:
        """The part that is equal for the same corruption in another launch; messages of a log may differ."""
        return self.becomes, self.step, self.worst, self.last, self.digest


def judge(trace: Trace, window: WatchWindow, reference: Reference, *, tolerance: float) -> CorruptionOutcome:
    """Judge a finished window.

    Detection comes first: the job ended by its own decision, loaded a checkpoint, or skipped an update. An undetected
    corruption is gone if in the last step every component of every rank equals the uninterrupted run, has faded if no
    loss of the window differed by more than `tolerance`, and is silent otherwise.
    """
    step, how = _noticed(trace, window, reference)
    worst, last = _off(trace, window, reference, until=step)
    digest = trace.digest(step, reference)
    if step is not None:
        return CorruptionOutcome(
            "detected", how, step, worst, last, digest, over=trace.end is not None or trace.displaced
        )
    if trace.end is not None:
        at = min((max(steps) for steps in trace.seen.values()), default=window.struck)
        becomes: Class = "hung" if trace.end.hung else "detected" if trace.end.noticed else "crashed"
        return CorruptionOutcome(becomes, trace.end.words, at, worst, last, digest, over=True)
    if all(trace._same(reference, rank, window.closes) for rank in range(reference.world_size)):
        return CorruptionOutcome("gone", "the state equals the uninterrupted run again", None, worst, last, digest)
    if worst <= tolerance:
        return CorruptionOutcome("faded", "the state differs, but no loss does", None, worst, last, digest)
    finite = f"a loss differed by {worst:.2g} (relative)"
    how = "the job trained on a loss that is not finite" if math.isinf(worst) else finite
    return CorruptionOutcome("silent", how, None, worst, last, digest)


def _noticed(trace: Trace, window: WatchWindow, reference: Reference) -> tuple[int | None, str]:
    """Return the first step at which the job reacted to the corruption, and its reaction."""
    for step in range(window.struck, window.closes + 1):
        for rank, seen in sorted(trace.seen.items()):
            now, due, before = seen.get(step), reference.step(rank, step), seen.get(step - 1)
            if now is None or due is None:
                continue
            if now.loaded and step > window.struck:
                return step, "the job loaded a checkpoint"
            if len(now.losses) > len(due.losses):
                return step, "the job skipped an update"
            former = reference.step(rank, step - 1)
            if step > window.struck and _skipped(before, now, former, due):
                return step, "the job skipped an update"
    return None, ""


def _skipped(before: Seen | None, now: Seen, former: Step | None, due: Step) -> bool:
    """Whether an update was skipped: no component that it changes has changed. Components that are NaN do not count."""
    if before is None or former is None:
        return False
    moves = {n for n in ("model", "optimizer") if former.components.get(n) != due.components.get(n)}
    kept = all(before.state.get(name) == now.state.get(name) for name in moves)
    return "model" in moves and kept and not moves <= set(now.nonfinite)


def _off(trace: Trace, window: WatchWindow, reference: Reference, *, until: int | None) -> tuple[float, float]:
    """Return the largest relative difference of a loss, and that of the last observed step."""
    worst = last = 0.0
    common = min((max(steps) for steps in trace.seen.values()), default=window.closes)
    for step in range(window.struck, min(until or window.closes, common) + 1):
        last = 0.0
        for rank, seen in trace.seen.items():
            now, due = seen.get(step), reference.step(rank, step)
            if now is not None and due is not None:
                last = max(last, _apart(now.losses, due.losses))
        worst = max(worst, last)
    return worst, last


def _apart(losses: tuple[str, ...], due: tuple[str, ...]) -> float:
    if losses == due:
        return 0.0
    found, wanted = values(" ".join(losses)), values(" ".join(due))
    if found is None or wanted is None or len(found) != len(wanted) or not all(map(math.isfinite, found)):
        return math.inf
    return max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(found, wanted, strict=True))
