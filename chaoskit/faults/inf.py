"""`inf`: a number of the training is infinite, as an overflow leaves it."""

from __future__ import annotations

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numbers import Elements, corruption
from chaoskit.places import Place


def inf(
    *,
    rank: RankSpec,
    into: Place | str | None = None,
    elements: Elements = 1,
    steps: int | None = 1,
    again: bool = False,
    seed: int = 0,
) -> Fault:
    """Put infinity `into` a place (the loss), on `rank`.

    Observed once the rank has told what it has changed. The other arguments: see `nan`. Raises UsageError for
    arguments that cannot be.
    """
    how = {"kind": "inf"}
    return corruption(
        "inf",
        "infinity in {}",
        rank=rank,
        into=into,
        how=how,
        elements=elements,
        steps=steps,
        again=again,
        seed=seed,
    )
