"""Where jobs run, and the registry that `--env NAME` is looked up in."""

from __future__ import annotations

from typing import Protocol

from chaoskit.environments.environment import Environment, Place
from chaoskit.environments.local import LocalEnvironment
from chaoskit.environments.netns import NetnsEnvironment
from chaoskit.errors import MissingCapability, UsageError

__all__ = ["ENVIRONMENTS", "EnvironmentType", "LocalEnvironment", "NetnsEnvironment", "environment", "must_have"]


class EnvironmentType(Protocol):
    """What the registry holds: calling it with a place makes an environment there."""

    def __call__(self, place: Place) -> Environment: ...

    @staticmethod
    def available() -> str | None:
        """None where it can be used, else why not and what would help."""
        ...


ENVIRONMENTS: dict[str, EnvironmentType] = {"local": LocalEnvironment, "netns": NetnsEnvironment}


def environment(name: str) -> EnvironmentType:
    """The environment of that name; raises UsageError, listing what there is, if there is none."""
    if name not in ENVIRONMENTS:
        raise UsageError(f"there is no environment {name!r}; there are: {', '.join(ENVIRONMENTS)}")
    return ENVIRONMENTS[name]


def must_have(name: str) -> None:
    """Raises MissingCapability where the environment of that name cannot be used here."""
    if (why := environment(name).available()) is not None:
        message = f"environment {name!r} cannot be used here: {why}"
        raise MissingCapability(message, capability=name, remedy="chaoskit doctor says what there is")
