"""`lr_spike`: the learning rate of a step is many times too large: a wrong schedule, a wrong unit."""

from __future__ import annotations

from typing import Unpack

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numeric.numbers import CorruptNumber, NumberOptions, check_factor, corrupt_number
from chaoskit.faults.registry import fault


@fault("lr_spike", CorruptNumber)
def lr_spike(factor: float, *, rank: RankSpec = "all", **options: Unpack[NumberOptions]) -> Fault:
    """Multiply the learning rates by `factor` for one step (or `steps`), on all ranks unless `rank` says otherwise.

    The scheduler goes on as if nothing had happened. Observed once the ranks have reported the change. `into` can
    only be the learning rate. `NumberOptions` lists the other arguments. Raises UsageError for arguments that are
    not valid.
    """
    times = check_factor("lr_spike", factor)
    return corrupt_number(
        "lr_spike", f"{times:g} times {{}}", {"kind": "scale", "factor": times}, rank=rank, only="lr", **options
    )
