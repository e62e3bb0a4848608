"""`@check` registers a check where it is defined: nobody writes the table of checks by hand."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar

from chaoskit.checks.check import Check
from chaoskit.errors import UsageError

#: A function that makes a check.
Make = TypeVar("Make", bound=Callable[..., Check])

#: By the name that `Check.to_json` gives: the function that makes the check from the other fields.
REGISTRY: dict[str, Callable[..., Check]] = {}
#: By the same name: the codes that its verdict may have.
CODES_OF: dict[str, tuple[str, ...]] = {}


def check(*codes: str) -> Callable[[Make], Make]:
    """Register the decorated function under its own name.

    `codes` are those that its verdict may have: codes of the diagnosis, families of codes, or other checks whose
    codes it passes on. Raises ValueError if another check has that name.
    """

    def register(make: Make) -> Make:
        known = REGISTRY.setdefault(make.__name__, make)
        if known.__module__ != make.__module__:
            raise ValueError(f"{make.__module__}: the check {make.__name__!r} is also in {known.__module__}")
        REGISTRY[make.__name__] = make
        CODES_OF[make.__name__] = codes
        return make

    return register


def scan(package: ModuleType) -> dict[str, Callable[..., Check]]:
    """Import every module of the package, and return the functions that are registered, by their names."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(REGISTRY.items()))


def from_json(data: Mapping[str, Any]) -> Check:
    """The check that `to_json` described; raises UsageError for one that does not exist, or has no such arguments."""
    fields = dict(data)
    name = fields.pop("name", None)
    if not isinstance(name, str) or name not in REGISTRY:
        raise UsageError(f"there is no check {name!r}; there are {', '.join(sorted(REGISTRY))}")
    try:
        return REGISTRY[name](**fields)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: the check cannot be made of what is stored: {error}") from error
