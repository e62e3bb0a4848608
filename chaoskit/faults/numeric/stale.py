"""`stale`: numbers of the training are those of the step before, as in a buffer that was not written."""

from __future__ import annotations

from typing import Unpack

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numeric.numbers import CorruptNumber, NumberOptions, corrupt_number
from chaoskit.faults.registry import fault


@fault("stale", CorruptNumber)
def stale(*, rank: RankSpec, **options: Unpack[NumberOptions]) -> Fault:
    """Put the numbers that a target (the loss) had in the step before there again, on `rank`.

    All elements, unless `elements` says otherwise. It cannot strike in step 1, which has no step before it.
    Observed once the rank has reported the change; missed where the numbers were the same. `NumberOptions` lists
    the other arguments. Raises UsageError for arguments that are not valid.
    """
    return corrupt_number(
        "stale", "the step before's numbers again in {}", {"kind": "stale"}, rank=rank, **options
    )
