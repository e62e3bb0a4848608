"""`noise`: numbers of the training are slightly wrong, at random, as from a bad adder."""

from __future__ import annotations

from typing import Unpack

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numeric.numbers import CorruptNumber, NumberOptions, corrupt_number
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number


@fault("noise", CorruptNumber)
def noise(sigma: float, *, rank: RankSpec, **options: Unpack[NumberOptions]) -> Fault:
    """Add normal noise to a target (the loss), on `rank`: `sigma` times the standard deviation of the tensor.

    A single number gets `sigma` times its size. All elements, unless `elements` says otherwise. Observed once the
    rank has reported the change. `NumberOptions` lists the other arguments. Raises UsageError for arguments that
    are not valid.
    """
    width = check_number("noise", "sigma", sigma, over=0)
    return corrupt_number(
        "noise", f"noise of {width:g} sigma in {{}}", {"kind": "noise", "sigma": width}, rank=rank, **options
    )
