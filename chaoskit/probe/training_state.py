"""`TrainingState`: the objects that hold a rank's training state, and the fingerprint of each of its components."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from chaoskit.probe import components
from chaoskit.probe.naming import in_order, parameters
from chaoskit.probe.streams import streams
from chaoskit.protocol.fingerprint import Fingerprint
from chaoskit.protocol.multilinear import together

#: `ProbeSession.guard`: an error in one component must not cost the others.
Guard = Callable[..., Any]


class TrainingState:
    """The objects of one rank, which are not kept alive. `guard` calls a function and records its exceptions.
    `missed_buffers`: nobody wanted the buffers from before the step as its forward pass began, so that they are not
    known any more."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._known: dict[str, list[weakref.ref[Any]]] = {
            "optimizer": [],
            "scaler": [],
            "average": [],
            "root": [],
        }
        self._groups: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        self._buffers: weakref.WeakKeyDictionary[Any, Fingerprint] = weakref.WeakKeyDictionary()
        self.missed_buffers = False

    def add(self, kind: str, thing: Any) -> None:
        """Remember an `optimizer`, `scaler`, `average` (an averaged model) or `root` (an outermost module)."""
        known = self._known[kind]
        if all(ref() is not thing for ref in known):
            # A loss module made anew for every step must not make the list longer with every step.
            known[:] = [ref for ref in known if ref() is not None]
            known.append(weakref.ref(thing))

    def living(self, kind: str) -> list[Any]:
        """Every object of that kind that was added and still exists."""
        return [found for reference in self._known[kind] if (found := reference()) is not None]

    def forward_begins(self, module: Any, *, wanted: bool = True) -> None:
        """The forward pass of a model begins, and will change its buffers: fingerprint them as they are before, if they
        are `wanted`."""
        if not wanted:
            self.missed_buffers = True
        elif module not in self._buffers:
            self._buffers[module] = components.buffers([module]) or Fingerprint()

    def note_groups(self) -> None:
        """Remember the parameter groups of the optimizers. Some libraries step one group after the other, and remove
        the others meanwhile."""
        for optimizer in self.living("optimizer"):
            self._groups[optimizer] = list(optimizer.param_groups)

    def step_ends(self) -> None:
        """Forget the buffers from before the step."""
        self._buffers.clear()
        self.missed_buffers = False

    def owners(self) -> tuple[list[Any], list[Any], list[Any]]:
        """The optimizers with all of their groups, the outermost modules, the averaged models."""
        return self._complete_optimizers(), in_order(self.living("root")), self.living("average")

    def holders(self) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """The owners, and the gradient scalers: every object that holds a part of the training state."""
        return (*self.owners(), self.living("scaler"))

    def read(self, batch: Callable[[], Any], *, whole: bool = True) -> dict[str, Any]:
        """Every component: a string, or a Fingerprint of which parts may still be computed on a device. Unless it is to
        be `whole`, only those of `recording.AT_EVERY_STEP`."""
        with together():
            return self._read(batch, whole)

    def _read(self, batch: Callable[[], Any], whole: bool) -> dict[str, Any]:
        optimizers, roots, averages = self.owners()
        guard = self._guard
        if not whole:
            known = {"lr": guard("lr", components.learning_rates, optimizers, roots), "batch": guard("batch", batch)}
            return {name: value for name, value in known.items() if value is not None}
        state: dict[str, Any] = {
            "model": guard("model", lambda: components.model(parameters(optimizers, roots))),
            "buffers": None if self.missed_buffers else guard("buffers", self._read_buffers, roots),
            "optimizer": guard("optimizer", components.optimizer, optimizers, roots),
            "lr": guard("lr", components.learning_rates, optimizers, roots),
            "options": guard("options", components.options, optimizers, roots),
            "scaler": guard("scaler", components.scaler, self.living("scaler")),
            "ema": guard("ema", components.averages, averages),
            "batch": guard("batch", batch),
            **(guard("rng", streams, sys.modules["torch"]) or {}),
        }
        return {name: value for name, value in state.items() if value is not None}

    def _complete_optimizers(self) -> list[Any]:
        found = []
        for optimizer in self.living("optimizer"):
            groups, now = self._groups.get(optimizer, []), optimizer.param_groups
            narrowed = len(now) < len(groups) and all(any(own is one for one in groups) for own in now)
            found.append(SimpleNamespace(param_groups=groups, state=optimizer.state) if narrowed else optimizer)
        return found

    def _read_buffers(self, roots: Iterable[Any]) -> Fingerprint | None:
        """The buffers of the modules from before the step; of a module without a forward pass, as they are now."""
        roots = list(roots)
        if not any(True for _ in components.held_buffers(roots)):
            return None
        whole = Fingerprint()
        for root in roots:
            inner = components.unwrapped(root)
            part = self._buffers.get(inner) if inner is not None else None
            part = part or components.buffers([root]) or Fingerprint()
            whole.text(part.hexdigest())
            whole.reductions.extend(part.reductions)
        return whole
