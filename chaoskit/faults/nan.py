"""`nan`: a number of the training is not a number, as a bad batch or a bad device would have it."""

from __future__ import annotations

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numbers import Elements, corruption
from chaoskit.places import Place


def nan(
    *,
    rank: RankSpec,
    into: Place | str | None = None,
    elements: Elements = 1,
    steps: int | None = 1,
    again: bool = False,
    seed: int = 0,
) -> Fault:
    """Put not-a-number `into` a place (the loss), on `rank` (a number, negative from the last; a tuple; 'all').

    `elements`: so many of a tensor, drawn by `seed`, or 'all'. `steps`: in so many steps in a row (None: until the
    process ends). With `again` it strikes whenever the job comes to that step again, after a rollback or a restart.
    Observed once the rank has told what it has changed. Raises UsageError for arguments that cannot be.
    """
    how = {"kind": "nan"}
    return corruption(
        "nan",
        "NaN in {}",
        rank=rank,
        into=into,
        how=how,
        elements=elements,
        steps=steps,
        again=again,
        seed=seed,
    )
