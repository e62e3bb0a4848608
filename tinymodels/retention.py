"""Which checkpoints to keep: the newest, the last of each epoch, the best, and all that these are built on."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What retention wants to know of a checkpoint."""

    step: int
    epoch: int | None = None  # in which its last step was taken
    loss: float | None = None  # of an evaluation of just this state
    base: int | None = None  # the step of the one that it is a delta to


def to_keep(found: Sequence[Kept], *, newest: int, epochs: bool = False, best: bool = False) -> set[int]:
    """The steps of those to keep, of some that are all valid."""
    by_step = {one.step: one for one in sorted(found, key=lambda one: one.step)}
    keep = set(list(by_step)[-max(1, newest) :])
    if epochs:
        keep |= set({one.epoch: step for step, one in by_step.items() if one.epoch is not None}.values())
    if best:
        losses = [(one.loss, -step) for step, one in by_step.items() if one.loss is not None]
        keep |= {-min(losses)[1]} if losses else set()
    return keep | {base for step in keep for base in bases(step, by_step)}


def bases(step: int, by_step: dict[int, Kept]) -> set[int]:
    """All that a delta hangs on, down to the full checkpoint."""
    found: set[int] = set()
    while (own := by_step.get(step)) is not None and own.base is not None and own.base < step:
        step = own.base
        found.add(step)
    return found
