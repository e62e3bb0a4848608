"""`stuck`: numbers of the training are stuck at a value, as in a dead lane."""

from __future__ import annotations

from typing import Unpack

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numeric.numbers import CorruptNumber, NumberOptions, corrupt_number
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number


@fault("stuck", CorruptNumber)
def stuck(value: float, *, rank: RankSpec, **options: Unpack[NumberOptions]) -> Fault:
    """Set a target (the loss) to `value`, on `rank`.

    One element, unless `elements` says otherwise. Observed once the rank has reported the change; missed where the
    value was there already. `NumberOptions` lists the other arguments. Raises UsageError for arguments that are not
    valid.
    """
    stuck_at = check_number("stuck", "value", value)
    return corrupt_number(
        "stuck", f"{stuck_at:g} for {{}}", {"kind": "stuck", "value": stuck_at}, rank=rank, default=1, **options
    )
