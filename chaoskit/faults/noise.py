"""`noise`: numbers of the training are a little off, at random, as of a bad adder."""

from __future__ import annotations

from chaoskit.faults.fault import Fault, RankSpec, check_number
from chaoskit.faults.numbers import Elements, corruption
from chaoskit.places import Place


def noise(
    sigma: float,
    *,
    rank: RankSpec,
    into: Place | str | None = None,
    elements: Elements = "all",
    steps: int | None = 1,
    again: bool = False,
    seed: int = 0,
) -> Fault:
    """Add normal noise to what is in a place (the loss), on `rank`: `sigma` times the standard deviation of the tensor.

    All elements, unless told otherwise; of a single number, `sigma` times its size. Observed once the rank has
    told what it has changed. The other arguments: see `nan`. Raises UsageError for arguments that cannot be.
    """
    width = check_number("noise", "sigma", sigma)
    how = {"kind": "noise", "sigma": width}
    return corruption(
        "noise",
        f"noise of {width:g} sigma in {{}}",
        rank=rank,
        into=into,
        how=how,
        elements=elements,
        steps=steps,
        again=again,
        seed=seed,
    )
