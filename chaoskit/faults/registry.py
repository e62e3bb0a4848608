"""`@fault` registers a fault where it is defined: the table of faults is never written by hand.

`scan` imports every module of the package once, when `chaoskit.faults` is imported. The ranks never import it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar

from chaoskit.errors import UsageError
from chaoskit.faults import triggers
from chaoskit.faults.fault import Action, Fault
from chaoskit.protocol.fault_kinds import kind_of
from chaoskit.protocol.targets import InjectionTarget

#: A function that makes a fault.
Make = TypeVar("Make", bound=Callable[..., Fault])

#: By the kind that a stored schedule keeps: the function that makes the fault from the other fields.
REGISTRY: dict[str, Callable[..., Fault]] = {}
#: By kind: the class of its action, which says what the fault needs of an environment.
ACTIONS: dict[str, type[Action]] = {}


def fault(kind: str, action: type[Action]) -> Callable[[Make], Make]:
    """Register the decorated function as the one that makes faults of this kind.

    `kind` is what `action.to_json` gives. Raises ValueError if another function has that kind or that name.
    """

    def register(make: Make) -> Make:
        for other, known in REGISTRY.items():
            same = (known.__module__, known.__name__) == (make.__module__, make.__name__)
            if (other == kind or known.__name__ == make.__name__) and not (other == kind and same):
                raise ValueError(
                    f"{make.__module__}: the fault {make.__name__!r} of kind {kind!r} clashes with "
                    f"{known.__module__}.{known.__name__} of kind {other!r}; choose another name"
                )
        REGISTRY[kind] = make
        ACTIONS[kind] = action
        return make

    return register


def scan(package: ModuleType) -> dict[str, Callable[..., Fault]]:
    """Import every module of the package, and return the functions that are registered, by their names."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return {make.__name__: make for _, make in sorted(REGISTRY.items())}


def group_of(make: Callable[..., Fault]) -> str:
    """The folder that the fault lies in: `process`, `network`, ..."""
    return make.__module__.rpartition(".")[0].rpartition(".")[2]


def from_json(data: Mapping[str, Any]) -> Fault:
    """The fault that `Fault.to_json` described, also by a kind's earlier name.

    Raises UsageError for a kind that does not exist, and for arguments that its fault does not have.
    """
    kind = kind_of(data.get("action"))
    if kind not in REGISTRY:
        raise UsageError(f"there is no fault {kind!r}; there are {', '.join(sorted(REGISTRY))}")
    try:
        return _made(kind, data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{kind}: the fault cannot be made of what is stored: {error!r}") from error


def _made(kind: str, data: Mapping[str, Any]) -> Fault:
    fields = {name: value for name, value in data["action"].items() if name != "kind"}
    fields = {name: _tuples(value) for name, value in fields.items()}
    if isinstance(fields.get("into"), Mapping):
        fields["into"] = InjectionTarget.from_json(fields["into"])
    if fields.pop("launcher", False):
        fields = {"launcher": True, "signal": fields["signal"]}
    made = REGISTRY[kind](**fields)
    return Fault(made.action, triggers.from_json(data["trigger"]))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
