"""`bad_batch`: a batch without meaning, as from a damaged file or a wrong decoder."""

from __future__ import annotations

from typing import Unpack

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numeric.numbers import CorruptNumber, NumberOptions, corrupt_number
from chaoskit.faults.registry import fault


@fault("bad_batch", CorruptNumber)
def bad_batch(*, rank: RankSpec, **options: Unpack[NumberOptions]) -> Fault:
    """Replace the batch of `rank` by random values (drawn by `seed`) between its smallest and its largest value.

    Observed once the rank has reported the change. `into` can only be the batch. `NumberOptions` lists the other
    arguments. Raises UsageError for arguments that are not valid.
    """
    return corrupt_number("bad_batch", "nonsense for {}", {"kind": "bad"}, rank=rank, only="batch", **options)
