"""`check`: whether the target of a fault can exist, as far as the reference shows, before anything is launched.

It refuses only what certainly does not exist. For the rest the rank decides: it refuses an order whose target it does
not find.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from chaoskit.analysis.reference.reference import Reference
from chaoskit.errors import UsageError
from chaoskit.faults import Fault
from chaoskit.faults.fault import check_step
from chaoskit.protocol import targets
from chaoskit.protocol.targets import InjectionTarget


def check(fault: Fault, reference: Reference) -> None:
    """Raises UsageError for a rank that the job does not have, a step that is too early, and a name that no tensor has;
    the message lists similar names."""
    victims = fault.action.victims(reference.world_size)
    check_step(fault)
    into = getattr(fault.action, "into", None)
    if not isinstance(into, InjectionTarget):
        return
    for rank in victims:
        if why := _missing(into, rank, reference):
            raise UsageError(f"{fault.action.name}: into {into}: {why}")


def _missing(into: InjectionTarget, rank: int, reference: Reference) -> str | None:
    """Why the target cannot exist; None where it does, or where the reference does not show it."""
    parameters = tuple(reference.tensors(rank, 1).get("model", ()))
    match into.kind:
        case "scaler":
            step = reference.step(rank, reference.steps)
            if step is not None and "scaler" not in step.components:
                return f"rank {rank} uses no gradient scaler"
        case "parameter" | "gradient" if parameters and not targets.matching(into.pattern, parameters):
            return f"rank {rank} has no parameter with that name; {targets.near(into.pattern, parameters)}"
        case "optimizer" if parameters and not _may_belong(into.pattern, parameters):
            names = [f"{name}.*" for name in parameters]
            return f"the optimizer of rank {rank} keeps no tensor with that name; {targets.near(into.pattern, names)}"
        case "activation" if into.pattern in parameters:
            module = into.pattern.rpartition(".")[0]
            return f"that is a parameter, not a module{f'; its module is {module}' if module else ''}"
    return None


def _may_belong(pattern: str, parameters: Sequence[str]) -> bool:
    """Whether the pattern can match `<parameter>.<key>` for some key. Before its first step the optimizer has none."""
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return any(f"{name}.".startswith(fixed) or fixed.startswith(f"{name}.") for name in parameters)
