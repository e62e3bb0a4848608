"""`scale`: numbers of the training are too large by a factor: a wrong divisor, a rank that is counted twice."""

from __future__ import annotations

from typing import Unpack

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numeric.numbers import CorruptNumber, NumberOptions, check_factor, corrupt_number
from chaoskit.faults.registry import fault


@fault("scale", CorruptNumber)
def scale(factor: float, *, rank: RankSpec, **options: Unpack[NumberOptions]) -> Fault:
    """Multiply a target (the loss) by `factor`, on `rank`.

    All elements, unless `elements` says otherwise. Observed once the rank has reported the change. `NumberOptions`
    lists the other arguments. Raises UsageError for arguments that are not valid.
    """
    times = check_factor("scale", factor)
    return corrupt_number(
        "scale", f"{times:g} times {{}}", {"kind": "scale", "factor": times}, rank=rank, **options
    )
