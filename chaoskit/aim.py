"""`check`: whether what a fault aims at can be there, as far as the reference tells, before anything is launched.

Only what is certain is refused here; the rest is left to the rank, which refuses what it does not find.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from chaoskit import places
from chaoskit.errors import UsageError
from chaoskit.faults import Fault
from chaoskit.faults.fault import check_step
from chaoskit.places import Place
from chaoskit.reference import Reference


def check(fault: Fault, reference: Reference) -> None:
    """Raises UsageError for a rank that the job does not have, a step that cannot be struck, and a name of a place that
    no tensor has, with those that come near it."""
    victims = fault.action.victims(reference.world_size)
    check_step(fault)
    into = getattr(fault.action, "into", None)
    if not isinstance(into, Place):
        return
    for rank in victims:
        if why := _missing(into, rank, reference):
            raise UsageError(f"{fault.action.name}: into {into}: {why}")


def _missing(into: Place, rank: int, reference: Reference) -> str | None:
    """Why the place cannot be there; None where it is, or nobody knows."""
    told = reference.tensors(rank, 1)
    parameters = tuple(told.get("model", ()))
    match into.kind:
        case "scaler":
            step = reference.step(rank, reference.steps)
            if step is not None and "scaler" not in step.components:
                return f"rank {rank} uses no gradient scaler"
        case "parameter" | "gradient" if parameters and not places.matching(into.pattern, parameters):
            return f"rank {rank} has no parameter of that name; {places.near(into.pattern, parameters)}"
        case "optimizer" if parameters and not _may_belong(into.pattern, parameters):
            names = [f"{name}.*" for name in parameters]
            return f"the optimizer of rank {rank} keeps nothing of that name; {places.near(into.pattern, names)}"
        case "activation" if into.pattern in parameters:
            module = into.pattern.rpartition(".")[0]
            return f"that is a parameter and no module{f'; its module is {module}' if module else ''}"
    return None


def _may_belong(pattern: str, parameters: Sequence[str]) -> bool:
    """Whether the pattern may match `<parameter>.<key>`, whatever the key: the optimizer has none before its first
    step."""
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return any(f"{name}.".startswith(fixed) or fixed.startswith(f"{name}.") for name in parameters)
