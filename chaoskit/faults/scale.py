"""`scale`: numbers of the training are so many times what they should be: a wrong divisor, a rank counted twice."""

from __future__ import annotations

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numbers import Elements, check_factor, corruption
from chaoskit.places import Place


def scale(
    factor: float,
    *,
    rank: RankSpec,
    into: Place | str | None = None,
    elements: Elements = "all",
    steps: int | None = 1,
    again: bool = False,
    seed: int = 0,
) -> Fault:
    """Multiply what is in a place (the loss) by `factor`, on `rank`; all elements, unless told otherwise.

    Observed once the rank has told what it has changed. The other arguments: see `nan`. Raises UsageError for
    arguments that cannot be.
    """
    times = check_factor("scale", factor)
    how = {"kind": "scale", "factor": times}
    return corruption(
        "scale",
        f"{times:g} times {{}}",
        rank=rank,
        into=into,
        how=how,
        elements=elements,
        steps=steps,
        again=again,
        seed=seed,
    )
