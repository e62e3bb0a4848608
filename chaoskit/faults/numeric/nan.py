"""`nan`: a number of the training is not a number, as after a bad batch or on a bad device."""

from __future__ import annotations

from typing import Unpack

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numeric.numbers import CorruptNumber, NumberOptions, corrupt_number
from chaoskit.faults.registry import fault


@fault("nan", CorruptNumber)
def nan(*, rank: RankSpec, **options: Unpack[NumberOptions]) -> Fault:
    """Put not-a-number into a target (the loss), on `rank` (a number, negative from the last; a tuple; 'all').

    One element, unless `elements` says otherwise. Observed once the rank has reported the change. `NumberOptions`
    lists the other arguments. Raises UsageError for arguments that are not valid.
    """
    return corrupt_number("nan", "NaN in {}", {"kind": "nan"}, rank=rank, default=1, **options)
