"""`Trace`: what the ranks did in one window, and `judge`: what the corruption in it came to.

Compared is with the uninterrupted run, step by step and rank by rank, to the bit.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chaoskit.history import UNTOUCHED
from chaoskit.reference import Reference
from chaoskit.sdc.windows import Window
from chaoskit.steps import Step, values

Class = Literal["detected", "crashed", "hung", "gone", "faded", "silent"]
#: What becomes of a corruption.
CLASSES: dict[Class, str] = {
    "detected": "detected",
    "crashed": "crashed",
    "hung": "hung",
    "gone": "gone to the bit",
    "faded": "faded",
    "silent": "silent",
}


@dataclass(frozen=True)
class Seen:
    """A step, as a rank was about to take it. `loaded`: a checkpoint was read just before; `nonfinite` are the
    components that held a number which is not finite, as far as it was looked for."""

    losses: tuple[str, ...]
    state: Mapping[str, str]
    loaded: bool = False
    nonfinite: tuple[str, ...] = ()

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Seen:
        """From what a rank says at its gate."""
        loaded, nonfinite = bool(record.get("loaded")), tuple(record.get("nonfinite", ()))
        return cls(tuple(record["losses"]), dict(record["state"]), loaded, nonfinite)

    def same(self, step: Step | None, idle: frozenset[str]) -> bool:
        """Whether it is that step of the uninterrupted run, to the bit; streams that nobody uses aside."""
        if step is None or self.losses != step.losses:
            return False
        names = set(self.state) | set(step.components)
        return all(self.state.get(name) == step.components.get(name) for name in names - _unused(step, idle))


def _unused(step: Step | None, idle: frozenset[str]) -> set[str]:
    """Streams that are as a process finds them, by chance: put back, they are as another process found them."""
    components = step.components if step is not None else {}
    return {*idle, *(name for name, value in components.items() if value == UNTOUCHED)}


@dataclass(frozen=True)
class End:
    """The job has ended in the window. `noticed`: by its own decision. `words` say how."""

    noticed: bool
    words: str
    hung: bool = False


@dataclass
class Trace:
    """Per rank and step what was seen, the end of the job if it came, and what the struck rank said of the corruption
    (None: it said nothing, or there was to be none)."""

    seen: dict[int, dict[int, Seen]] = field(default_factory=dict)
    end: End | None = None
    effect: Mapping[str, Any] | None = None

    def add(self, rank: int, step: int, seen: Seen) -> None:
        self.seen.setdefault(rank, {})[step] = seen

    def whole(self, window: Window, world_size: int) -> bool:
        """Whether every rank has come to the end of the window."""
        return sum(window.closes in steps for steps in self.seen.values()) == world_size

    @property
    def displaced(self) -> bool:
        """Whether the job has gone back to a checkpoint."""
        return any(seen.loaded for steps in self.seen.values() for seen in steps.values())

    def opened(self, window: Window, reference: Reference) -> bool:
        """Whether every rank was, just before the struck step, what it is in an uninterrupted run."""
        return all(self._same(reference, rank, window.opens) for rank in range(reference.world_size))

    def exact(self, window: Window, reference: Reference) -> bool:
        """Whether all of the window is that of an uninterrupted run."""
        ranks = range(reference.world_size)
        return self.end is None and all(self._same(reference, rank, n) for rank in ranks for n in window.steps)

    def _same(self, reference: Reference, rank: int, step: int) -> bool:
        seen = self.seen.get(rank, {}).get(step)
        return seen is not None and seen.same(reference.step(rank, step), reference.idle)

    def digest(self, until: int | None, reference: Reference) -> str:
        """Of every loss and component of every rank, up to a step (None: all), as far as all ranks had come."""
        last = min((max(steps) for steps in self.seen.values()), default=0)
        last = last if until is None else min(last, until)
        told = []
        for rank, steps in sorted(self.seen.items()):
            for step, seen in sorted(steps.items()):
                unused = _unused(reference.step(rank, step), reference.idle)
                state = sorted((name, value) for name, value in seen.state.items() if name not in unused)
                if step <= last:
                    told.append((rank, step, seen.losses, state))
        return hashlib.blake2b(json.dumps(told).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Outcome:
    """What a corruption came to. `how` says by what it was noticed, or what was not; `step` is when that was seen, None
    at the end of the window. `worst` is by how much a loss was off at most (relative; infinite where it was no number),
    `last` the same at the end of the window; `digest` is of all that was seen until then. `over`: the launch was."""

    becomes: Class
    how: str
    step: int | None = None
    worst: float = 0.0
    last: float = 0.0
    digest: str = ""
    over: bool = False

    @property
    def said(self) -> tuple[object, ...]:
        """What it has in common with that of the same corruption in another launch; words of a log may differ."""
        return self.becomes, self.step, self.worst, self.last, self.digest


def judge(trace: Trace, window: Window, reference: Reference, *, tolerance: float) -> Outcome:
    """The outcome of a window that is over.

    Noticed counts first: the job has ended by its own decision, a checkpoint was read, an update was left out. What
    nobody has noticed is gone if in the last step every component of every rank is that of the uninterrupted run, has
    faded if no loss of the window was off by more than `tolerance`, and is silent otherwise.
    """
    step, how = _noticed(trace, window, reference)
    worst, last = _off(trace, window, reference, until=step)
    digest = trace.digest(step, reference)
    if step is not None:
        return Outcome("detected", how, step, worst, last, digest, over=trace.end is not None or trace.displaced)
    if trace.end is not None:
        at = min((max(steps) for steps in trace.seen.values()), default=window.struck)
        becomes: Class = "hung" if trace.end.hung else "detected" if trace.end.noticed else "crashed"
        return Outcome(becomes, trace.end.words, at, worst, last, digest, over=True)
    if all(trace._same(reference, rank, window.closes) for rank in range(reference.world_size)):
        return Outcome("gone", "the state is that of the uninterrupted run again", None, worst, last, digest)
    if worst <= tolerance:
        return Outcome("faded", "the state is another, and no loss tells", None, worst, last, digest)
    told = "a loss was no number, and was trained on" if math.isinf(worst) else f"a loss was off by {worst:.2g}"
    return Outcome("silent", told, None, worst, last, digest)


def _noticed(trace: Trace, window: Window, reference: Reference) -> tuple[int | None, str]:
    """The first step at which it shows that the job has done something about it, and what."""
    for step in range(window.struck, window.closes + 1):
        for rank, seen in sorted(trace.seen.items()):
            now, due, before = seen.get(step), reference.step(rank, step), seen.get(step - 1)
            if now is None or due is None:
                continue
            if now.loaded and step > window.struck:
                return step, "it went back to a checkpoint"
            if len(now.losses) > len(due.losses):
                return step, "it left an update out"
            former = reference.step(rank, step - 1)
            if step > window.struck and _stood(before, now, former, due):
                return step, "it left an update out"
    return None, ""


def _stood(before: Seen | None, now: Seen, former: Step | None, due: Step) -> bool:
    """Whether nothing has moved that an update moves. What is not-a-number throughout does not move by any."""
    if before is None or former is None:
        return False
    moves = {n for n in ("model", "optimizer") if former.components.get(n) != due.components.get(n)}
    kept = all(before.state.get(name) == now.state.get(name) for name in moves)
    return "model" in moves and kept and not moves <= set(now.nonfinite)


def _off(trace: Trace, window: Window, reference: Reference, *, until: int | None) -> tuple[float, float]:
    """By how much a loss was off at most, and in the last step that was seen."""
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
