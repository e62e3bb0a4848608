"""`stuck`: numbers of the training are stuck at a value, as in a dead lane."""

from __future__ import annotations

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numbers import Elements, check_finite, corruption
from chaoskit.places import Place


def stuck(
    value: float,
    *,
    rank: RankSpec,
    into: Place | str | None = None,
    elements: Elements = 1,
    steps: int | None = 1,
    again: bool = False,
    seed: int = 0,
) -> Fault:
    """Set what is in a place (the loss) to `value`, on `rank`.

    Observed once the rank has told what it has changed: not if that was there already. The other arguments: see
    `nan`. Raises UsageError for arguments that cannot be.
    """
    at = check_finite("stuck", "value", value)
    how = {"kind": "stuck", "value": at}
    return corruption(
        "stuck",
        f"{at:g} for {{}}",
        rank=rank,
        into=into,
        how=how,
        elements=elements,
        steps=steps,
        again=again,
        seed=seed,
    )
