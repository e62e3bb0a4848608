"""`zero`: numbers of the training are zero, as of a buffer that nobody filled."""

from __future__ import annotations

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numbers import Elements, corruption
from chaoskit.places import Place


def zero(
    *,
    rank: RankSpec,
    into: Place | str | None = None,
    elements: Elements = "all",
    steps: int | None = 1,
    again: bool = False,
    seed: int = 0,
) -> Fault:
    """Set what is in a place (the loss) to zero, on `rank`; all elements, unless told otherwise.

    Observed once the rank has told what it has changed: not if all was zero already. The other arguments: see
    `nan`. Raises UsageError for arguments that cannot be.
    """
    how = {"kind": "zero"}
    return corruption(
        "zero",
        "zero for {}",
        rank=rank,
        into=into,
        how=how,
        elements=elements,
        steps=steps,
        again=again,
        seed=seed,
    )
