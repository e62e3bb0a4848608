"""`Elastic`: additional records of a job that may continue with another number of ranks (`CHAOSKIT_ELASTIC=1`).

They are this rank's part of each sharded component, and the state when a checkpoint is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from chaoskit.probe import components
from chaoskit.probe.deferred import DeferredEvent
from chaoskit.probe.naming import parameters
from chaoskit.protocol.sharded_hash import Shards, is_sharded

#: `ProbeSession.guard`: an error in one component must not cost the others.
Guard = Callable[..., Any]


class Elastic:
    """One per rank; for a job that is not elastic it returns nothing."""

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
        held = parameters(optimizers, roots)
        if not any(map(is_sharded, (*held, *(p for each in averages for p in each.parameters())))):
            return {}
        found = {
            "model": self._fed("model", components.model, held),
            "buffers": self._fed("buffers", components.buffers, roots),
            "optimizer": self._fed("optimizer", components.optimizer, optimizers, roots),
            "ema": self._fed("ema", components.averages, averages),
        }
        # Before its first step an optimizer holds no state that could be sharded; later it does.
        return {n: part for n, part in found.items() if part is not None and (part.count or n == "optimizer")}

    def part(self, name: str, value: Any) -> dict[str, Shards]:
        """The part of a component that the job reports itself."""
        part = self._fed(name, _feed, value) if self.asked else None
        return {name: part} if part is not None and part.count else {}

    def held(
        self, n: int, optimizers: Sequence[Any], roots: Sequence[Any], averages: Sequence[Any]
    ) -> dict[str, Any] | None:
        """The state after step `n`, without what a forward pass changes; None if it was recorded already.

        Other ranks may take the next step: then only this shows what they should begin with.
        """
        if not self.asked or not n or n == self._held:
            return None
        self._held = n
        state = {
            "model": self._guard("model", components.model, parameters(optimizers, roots)),
            "optimizer": self._guard("optimizer", components.optimizer, optimizers, roots),
            "ema": self._guard("ema", components.averages, averages),
        }
        parts = {name: part for name, part in self.parts(optimizers, roots, averages).items() if name in state}
        known = {name: value for name, value in state.items() if value is not None}
        return DeferredEvent({"state": known, "parts": parts}).settled()

    def _fed(self, name: str, feed: Callable[..., Any], *values: Any) -> Shards | None:
        part = Shards()
        return part if self._guard(name, feed, *values, part) is not None else None


def _feed(value: Any, part: Shards) -> Shards:
    part.value(value)
    return part
