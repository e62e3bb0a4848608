"""`Observer`: gathers what a rank's training does and writes one `step` event as each optimizer step is about to be
taken. It draws no random number, and on an accelerator it does not wait: what is computed there is read at the next
step and follows as a `late` event.
"""

from __future__ import annotations

import math
import os
import sys
import weakref
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from chaoskit.fingerprint import Fingerprint, is_tensor
from chaoskit.probe import components
from chaoskit.probe.captures import captures
from chaoskit.probe.consumed import Consumed
from chaoskit.probe.contents import leaves
from chaoskit.probe.elastic import Elastic
from chaoskit.probe.late import Late, exact
from chaoskit.probe.loading import Loading
from chaoskit.probe.nonfinite import Nonfinite
from chaoskit.probe.replicas import replicas
from chaoskit.probe.samples import Samples
from chaoskit.probe.settings import settings
from chaoskit.probe.sources import installed, sources
from chaoskit.probe.streams import streams
from chaoskit.probe.tensors import Named, tensors, told_tensors
from chaoskit.shards import Shards

if TYPE_CHECKING:
    from chaoskit.probe.session import Session


class Observer:
    """One per rank. `steps` counts the steps recorded in this incarnation.

    `by_name` asks for the tensors of the next step one by one; `not_a_number`, whether a number that is none has been
    seen, asks from then on for what holds such numbers. Both cost a pass over the state. `loaded`: since the last step
    a checkpoint was read in mid-life. `passes`: how many backward passes the last step had, 0 before the first.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.steps = 0
        self.explicit = False
        self.by_name = True
        self.not_a_number = False
        self.loaded = False
        self.passes = 0
        self.elastic = Elastic(session.guard)
        self._losses: list[Any] = []
        self.loading = Loading()
        self._consumed = Consumed(self.loading)
        self._told_samples: Samples | None = None
        self._moved = False
        self._passes = 0
        self._wasteful = False
        self._optimizers: list[weakref.ref[Any]] = []
        self._scalers: list[weakref.ref[Any]] = []
        self._averages: list[weakref.ref[Any]] = []
        self._roots: list[weakref.ref[Any]] = []
        self._unscaled: dict[int, Any] = {}
        self._groups: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        self._buffers: weakref.WeakKeyDictionary[Any, Fingerprint] = weakref.WeakKeyDictionary()
        self._new_epoch = False
        self._late: list[tuple[str, int, Late]] = []
        self._sources: list[dict[str, Any]] = []

    # What the hooks tell.

    def knows(self, kind: str, thing: Any) -> None:
        """Remember an `optimizer`, `scaler`, `average` or `root` module, without keeping it alive."""
        known: list[weakref.ref[Any]] = getattr(self, f"_{kind}s")
        if all(ref() is not thing for ref in known):
            # A loss module made anew for every step must not make the list longer with every step.
            known[:] = [ref for ref in known if ref() is not None]
            known.append(weakref.ref(thing))

    def begins(self, module: Any) -> None:
        """The forward pass of a model begins, which moves its buffers: what they were before the step is wanted."""
        if module not in self._buffers:
            self._buffers[module] = components.buffers([module]) or Fingerprint()

    def forward(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """The outermost forward pass of a module in training mode: its inputs are the batch."""
        self.knows("root", module)
        if self.session.saves is not None:
            self.session.saves.detours.settle()
        for optimizer in _living(self._optimizers):
            self._groups[optimizer] = list(optimizer.param_groups)
        self._new_epoch |= self._consumed.add([args, kwargs])

    def scaled(self, loss: Any, product: Any) -> None:
        """The gradient scaler made `product` of `loss`: it is the loss that is to be recorded."""
        self._unscaled = {id(product): loss.detach()}

    def unscaled(self, loss: Any) -> Any:
        """The loss that the gradient scaler has made this one of, or itself."""
        return self._unscaled.get(id(loss), loss)

    def living(self, kind: str) -> list[Any]:
        """Every `optimizer`, `scaler`, `average` or `root` module that is known and there."""
        return _living(getattr(self, f"_{kind}s"))

    def backward(self, loss: Any = None) -> None:
        """A backward pass begins from `loss` (None where it does not begin from one)."""
        self._moved = True
        self._passes += 1
        if loss is not None:
            self._losses.append(exact(self._unscaled.pop(id(loss), loss)))

    @property
    def moved(self) -> bool:
        """Whether a backward pass was seen since the last step: only then is `optimizer.step` a training step."""
        return self._moved

    def before_step(self, optimizer: Any) -> BaseException | None:
        """The optimizer is about to step; the second optimizer of one step changes nothing."""
        self.knows("optimizer", optimizer)
        if self.explicit or not self._moved or not self.session.open():
            return None
        return self._record(self._state(), {}, self.elastic.parts(*self._owners()))

    def leave_out(self) -> BaseException | None:
        """The gradients are thrown away, or the state that they are of: a step whose update is left out, and a step all
        the same. A job that throws some away even before its first step always does, and means nothing by it."""
        if self.explicit or not self._moved:
            return None
        self._wasteful |= self.steps == 0
        if self._wasteful or not self.session.open():
            return None
        return self._record(self._state(), {}, self.elastic.parts(*self._owners()), left_out=True)

    def forget(self) -> None:
        """What was seen since the last step belongs to none."""
        self._losses, self._consumed, self._told_samples, self._moved = [], Consumed(self.loading), None, False
        self._buffers.clear()
        self._passes = 0

    def told(self, *, loss: Any, batch: Any, model: Any, optimizer: Any) -> BaseException | None:
        """The same, from a loop that says so itself (`chaoskit.probe.step`)."""
        if not self.session.open():
            return None
        self.explicit = True
        self._losses = [exact(loss)] if loss is not None else []
        state, parts = self._state(), self.elastic.parts(*self._owners())
        by_name: dict[str, Named] = {}
        for name, thing in (("batch", batch), ("model", model), ("optimizer", optimizer)):
            if thing is not None:
                value = thing.state_dict() if hasattr(thing, "state_dict") else thing
                state[name] = fingerprint = Fingerprint()
                fingerprint.value(value)
                if name == "batch":
                    self._told_samples = Samples()
                    self._told_samples.add([leaf for _, leaf in leaves(value) if is_tensor(leaf)])
                elif self.by_name:
                    by_name[name] = told_tensors(leaves(value))
                if name != "batch":
                    parts.pop(name, None)
                    parts.update(self.elastic.part(name, value))
        return self._record(state, by_name, parts)

    def hold(self) -> None:
        """A checkpoint is about to be written."""
        # A loop that tells of itself has components of its own.
        if not self.explicit and (data := self.elastic.held(self.steps, *self._owners())) is not None:
            self.session.write("held", n=self.steps, **data)

    # What is made of it.

    def _state(self) -> dict[str, Any]:
        """Every component: a string, or a Fingerprint that may still have parts on a device."""
        torch = sys.modules["torch"]
        optimizers, roots = self._whole_optimizers(), _living(self._roots)
        # One by one: what cannot be read of one component must not cost the others.
        guard = self.session.guard
        state: dict[str, Any] = {
            "model": guard("model", lambda: components.model(components.parameters(optimizers, roots))),
            "buffers": guard("buffers", self._held_buffers, roots),
            "optimizer": guard("optimizer", components.optimizer, optimizers),
            "lr": guard("lr", components.learning_rates, optimizers),
            "options": guard("options", components.options, optimizers),
            "scaler": guard("scaler", components.scaler, _living(self._scalers)),
            "ema": guard("ema", components.averages, _living(self._averages)),
            "batch": guard("batch", self._batch),
            **(guard("rng", streams, torch) or {}),
        }
        return {name: value for name, value in state.items() if value is not None}

    def _owners(self) -> tuple[list[Any], list[Any], list[Any]]:
        """The optimizers, the outermost modules, the averaged copies."""
        return self._whole_optimizers(), _living(self._roots), _living(self._averages)

    def _whole_optimizers(self) -> list[Any]:
        """The optimizers with all of their groups: some libraries step one group after the other, and take the others
        away meanwhile."""
        found = []
        for optimizer in _living(self._optimizers):
            groups, now = self._groups.get(optimizer, []), optimizer.param_groups
            narrowed = len(now) < len(groups) and all(any(own is one for one in groups) for own in now)
            found.append(SimpleNamespace(param_groups=groups, state=optimizer.state) if narrowed else optimizer)
        return found

    def holders(self) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """The same, and the gradient scalers: whatever holds a part of the training state."""
        return (*self._owners(), _living(self._scalers))

    def _held_buffers(self, roots: list[Any]) -> Fingerprint | None:
        """The buffers of the modules as the step began; of one that had no forward pass, as they are."""
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

    def _batch(self) -> Fingerprint | None:
        whole = self._consumed.batch()
        if whole is None and self.steps == 0:
            self.session.write("blind", component="batch", reason="no forward pass in training mode was seen")
        return whole

    def _fields(self, state: dict[str, Any], parts: dict[str, Shards], left_out: bool) -> dict[str, Any]:
        """What a step's record holds."""
        fields: dict[str, Any] = {"losses": self._losses, "state": state}
        if left_out:
            fields["left_out"] = True
        if self.loaded:
            fields["loaded"] = True
        if parts:
            fields["parts"] = parts
        samples = self._told_samples or self._consumed.samples
        if samples.told:
            fields["samples"] = samples
            if rows := samples.rows:
                fields["rows"] = rows
        self._look_at([loss for loss in self._losses if isinstance(loss, str)])
        if self.not_a_number and (found := self.session.guard("nonfinite", self._nonfinite)) is not None:
            fields["nonfinite"] = found
        return fields

    def _nonfinite(self) -> Nonfinite:
        optimizers = _living(self._optimizers)
        kept = (leaf for each in optimizers for state in each.state.values() for _, leaf in leaves(state))
        parameters = components.parameters(optimizers, _living(self._roots))
        return Nonfinite({"model": parameters, "optimizer": filter(is_tensor, kept)})

    def _look_at(self, losses: Iterable[str]) -> None:
        if not self.not_a_number:
            # Of a loss of several numbers there is but a fingerprint.
            numbers = (float.fromhex(loss) for loss in losses if not loss.startswith("tensor:"))
            self.not_a_number = not all(map(math.isfinite, numbers))

    def _by_name(self, told: Mapping[str, Named]) -> Late:
        return Late({"tensors": {**tensors(*self._owners()), **told}})

    def _record(
        self, state: dict[str, Any], told: Mapping[str, Named], parts: dict[str, Shards], *, left_out: bool = False
    ) -> BaseException | None:
        """Stop at the gate with this step, then write it down."""
        if self.session.saves is not None:
            try:
                self.session.saves.detours.settle()
            except BaseException as ordered:
                return ordered
        self.settle()
        self.passes = self._passes
        if self.session.injector is not None:
            self.session.guard("corrupt", self.session.injector.step_ends)
        if self._new_epoch:
            self._new_epoch = False
            self.session.write("epoch", n=self.steps)
        n = self.steps + 1
        late = Late(self._fields(state, parts, left_out))
        by_name = self.session.guard("tensors", self._by_name, told) if self.by_name else None
        gate = self.session.gate
        if gate is not None and gate.stops(self.steps, at_once=self.loaded):
            data = late.settled()
            # Killed here, it has not taken the step; but it may have given its part to others, which have.
            self.session.write("halt", n=n, **data)
            order = gate.arrive("step", self.steps, record={"n": n, **data})
            if order is not None:
                return order
            self.session.write("step", n=n, **data)
            self._look_at(data["losses"])
        elif late.waiting:
            self.session.write("step", n=n, **late.early)
            self._late.append(("late", n, late))
        else:
            self.session.write("step", n=n, **late.settled())
        if by_name is not None:
            self._late.append(("tensors", n, by_name))
            if not by_name.waiting:
                self.settle()
        self.by_name, self.loaded = gate is not None and gate.wants_names(), False
        self.steps = n
        self.forget()
        if self.session.injector is not None:
            self.session.guard("corrupt", self.session.injector.update)
        if self.steps == 1:
            self._say_sources()
            self.session.guard("replicas", self._say_replicas)
            self.session.guard("settings", self._say_settings)
        return None

    def settle(self) -> None:
        """Write what the device has computed since the last step."""
        owed, self._late = self._late, []
        for kind, n, late in owed:
            data = late.settled()
            self.session.write(kind, n=n, **data)
            self._look_at(data.get("losses", ()))

    def _say_sources(self) -> None:
        found = sources()
        if found != self._sources:
            self._sources = found
            self.session.write("sources", files=found)

    def _say_replicas(self) -> None:
        if ranks := replicas(_living(self._roots)):
            self.session.write("replicas", ranks=ranks)

    def _say_settings(self) -> None:
        self.session.write("settings", values=settings(sys.modules["torch"]))

    def finish(self) -> None:
        """The process ends by itself."""
        if self.session.saves is not None:
            self.session.guard("detours", self.session.saves.detours.settle)
        self.settle()
        self._say_sources()
        if os.environ.get("CHAOSKIT_LEARN"):
            threads = os.environ.get("OMP_NUM_THREADS")
            self.session.write("modules", names=installed(), captures=captures(), threads=threads)
        if not self.steps:
            self.session.write("blind", component="step", reason="no optimizer step was seen")


def _living(references: Iterable[weakref.ref[Any]]) -> list[Any]:
    return [found for reference in references if (found := reference()) is not None]
