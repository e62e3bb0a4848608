"""`inf`: a number of the training is infinite, as after an overflow."""

from __future__ import annotations

from typing import Unpack

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numeric.numbers import CorruptNumber, NumberOptions, corrupt_number
from chaoskit.faults.registry import fault


@fault("inf", CorruptNumber)
def inf(*, rank: RankSpec, **options: Unpack[NumberOptions]) -> Fault:
    """Put infinity into a target (the loss), on `rank`.

    One element, unless `elements` says otherwise. Observed once the rank has reported the change. `NumberOptions`
    lists the other arguments. Raises UsageError for arguments that are not valid.
    """
    return corrupt_number("inf", "infinity in {}", {"kind": "inf"}, rank=rank, default=1, **options)
