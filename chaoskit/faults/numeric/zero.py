"""`zero`: numbers of the training are zero, as in a buffer that nobody filled."""

from __future__ import annotations

from typing import Unpack

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numeric.numbers import CorruptNumber, NumberOptions, corrupt_number
from chaoskit.faults.registry import fault


@fault("zero", CorruptNumber)
def zero(*, rank: RankSpec, **options: Unpack[NumberOptions]) -> Fault:
    """Set a target (the loss) to zero, on `rank`.

    All elements, unless `elements` says otherwise. Observed once the rank has reported the change; missed where all
    were zero already. `NumberOptions` lists the other arguments. Raises UsageError for arguments that are not
    valid.
    """
    return corrupt_number("zero", "zero for {}", {"kind": "zero"}, rank=rank, **options)
