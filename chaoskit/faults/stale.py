"""`stale`: numbers of the training are those of the step before, as of a buffer that was not written."""

from __future__ import annotations

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numbers import Elements, corruption
from chaoskit.places import Place


def stale(
    *,
    rank: RankSpec,
    into: Place | str | None = None,
    elements: Elements = "all",
    steps: int | None = 1,
    again: bool = False,
    seed: int = 0,
) -> Fault:
    """Put what was in a place (the loss) in the step before there again, on `rank`.

    All elements, unless told otherwise. Observed once the rank has told what it has changed: not if it was the
    same. It cannot strike in step 1, which has none before it. The other arguments: see `nan`. Raises UsageError
    for arguments that cannot be.
    """
    how = {"kind": "stale"}
    return corruption(
        "stale",
        "the step before's numbers again in {}",
        rank=rank,
        into=into,
        how=how,
        elements=elements,
        steps=steps,
        again=again,
        seed=seed,
    )
