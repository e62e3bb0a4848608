"""`bad_batch`: a batch that means nothing, as from a damaged file or a wrong decoder."""

from __future__ import annotations

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numbers import Elements, corruption
from chaoskit.places import Place


def bad_batch(
    *,
    rank: RankSpec,
    into: Place | str | None = None,
    elements: Elements = "all",
    steps: int | None = 1,
    again: bool = False,
    seed: int = 0,
) -> Fault:
    """Replace the batch of `rank` by values drawn at random (by `seed`) from between its smallest and its largest.

    Observed once the rank has told what it has changed. `into` can only be the batch. The other arguments: see
    `nan`. Raises UsageError for arguments that cannot be.
    """
    how = {"kind": "bad"}
    return corruption(
        "bad_batch",
        "nonsense for {}",
        rank=rank,
        into=into,
        how=how,
        elements=elements,
        steps=steps,
        again=again,
        seed=seed,
        only="batch",
    )
