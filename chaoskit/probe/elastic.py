"""What is recorded besides in a job that may go on with another number of ranks (`CHAOSKIT_ELASTIC=1`): this rank's
part of each component that is sharded, and what was held as a checkpoint was written."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from chaoskit.probe import components
from chaoskit.probe.late import Late
from chaoskit.shards import Shards, is_sharded

T = TypeVar("T")
#: `Session.guard`: what cannot be read of one component must not cost the others.
Guard = Callable[..., Any]


class Elastic:
    """One per rank; of a job that is not elastic there is nothing to tell."""

    def __init__(self, guard: Guard) -> None:
        self.asked = os.environ.get("CHAOSKIT_ELASTIC") == "1"
        self._guard = guard
        self._held = 0

    def parts(self, optimizers: Sequence[Any], roots: Sequence[Any], averages: Sequence[Any]) -> dict[str, Shards]:
        """The parts of the components that have a sharded tensor."""
        return (self._guard("parts", self._parts, optimizers, roots, averages) or {}) if self.asked else {}

    def _parts(
        self, optimizers: Sequence[Any], roots: Sequence[Any], averages: Sequence[Any]
    ) -> dict[str, Shards]:
        parameters = components.parameters(optimizers, roots)
        if not any(map(is_sharded, (*parameters, *(p for each in averages for p in each.parameters())))):
            return {}
        found = {
            "model": self._fed("model", components.model, parameters),
            "buffers": self._fed("buffers", components.buffers, roots),
            "optimizer": self._fed("optimizer", components.optimizer, optimizers),
            "ema": self._fed("ema", components.averages, averages),
        }
        # Before its first step an optimizer holds nothing that could be sharded; it will.
        return {n: part for n, part in found.items() if part is not None and (part.count or n == "optimizer")}

    def part(self, name: str, value: Any) -> dict[str, Shards]:
        """The same of a component that the job tells of itself."""
        part = self._fed(name, _feed, value) if self.asked else None
        return {name: part} if part is not None and part.count else {}

    def held(
        self, n: int, optimizers: Sequence[Any], roots: Sequence[Any], averages: Sequence[Any]
    ) -> dict[str, Any] | None:
        """What is held after step `n`, of that which no forward pass moves; None where it has been told.

        The next step may be taken by other ranks: then this is all that tells what they should begin with.
        """
        if not self.asked or not n or n == self._held:
            return None
        self._held = n
        state = {
            "model": self._guard("model", components.model, components.parameters(optimizers, roots)),
            "optimizer": self._guard("optimizer", components.optimizer, optimizers),
            "ema": self._guard("ema", components.averages, averages),
        }
        parts = {name: part for name, part in self.parts(optimizers, roots, averages).items() if name in state}
        known = {name: value for name, value in state.items() if value is not None}
        return Late({"state": known, "parts": parts}).settled()

    def _fed(self, name: str, feed: Callable[[T, Shards], Any], value: T) -> Shards | None:
        part = Shards()
        return part if self._guard(name, feed, value, part) is not None else None


def _feed(value: Any, part: Shards) -> Shards:
    part.value(value)
    return part
