"""`lr_spike`: the learning rate of a step is many times what it should be: a wrong schedule, a wrong unit."""

from __future__ import annotations

from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numbers import Elements, check_factor, corruption
from chaoskit.places import Place


def lr_spike(
    factor: float,
    *,
    rank: RankSpec = "all",
    into: Place | str | None = None,
    elements: Elements = "all",
    steps: int | None = 1,
    again: bool = False,
    seed: int = 0,
) -> Fault:
    """Multiply the learning rates by `factor` for one step (or `steps`), on all ranks unless told otherwise.

    The scheduler goes on as if nothing had been. Observed once the ranks have told what they have changed. `into`
    can only be the learning rate. The other arguments: see `nan`. Raises UsageError for arguments that cannot be.
    """
    times = check_factor("lr_spike", factor)
    how = {"kind": "scale", "factor": times}
    return corruption(
        "lr_spike",
        f"{times:g} times {{}}",
        rank=rank,
        into=into,
        how=how,
        elements=elements,
        steps=steps,
        again=again,
        seed=seed,
        only="lr",
    )
