"""`Observer`: gathers what a rank's training does and writes one `step` event as each optimizer step is about to be
taken. It draws no random number, and on an accelerator it does not wait: what is computed there is read at the next
step and follows as a `late` event.
"""

from __future__ import annotations

import struct
import sys
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chaoskit.fingerprint import Fingerprint, is_tensor, settle
from chaoskit.probe import components
from chaoskit.probe.sources import sources
from chaoskit.probe.streams import streams

if TYPE_CHECKING:
    from chaoskit.probe.session import Session


class Observer:
    """One per rank. `steps` counts the steps recorded in this incarnation."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.steps = 0
        self.explicit = False
        self._losses: list[Any] = []
        self._batches: list[Fingerprint] = []
        self._moved = False
        self._optimizers: list[weakref.ref[Any]] = []
        self._scalers: list[weakref.ref[Any]] = []
        self._averages: list[weakref.ref[Any]] = []
        self._roots: list[weakref.ref[Any]] = []
        self._unscaled: dict[int, Any] = {}
        self._begun: set[int] = set()
        self._drawn = 0
        self._new_epoch = False
        self._late: Late | None = None
        self._sources: list[dict[str, Any]] = []

    # What the hooks tell.

    def knows(self, kind: str, thing: Any) -> None:
        """Remember an `optimizer`, `scaler`, `average` or `root` module, without keeping it alive."""
        known: list[weakref.ref[Any]] = getattr(self, f"_{kind}s")
        if all(ref() is not thing for ref in known):
            # A loss module made anew for every step must not make the list longer with every step.
            known[:] = [ref for ref in known if ref() is not None]
            known.append(weakref.ref(thing))

    def forward(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """The outermost forward pass of a module in training mode: its inputs are the batch."""
        self.knows("root", module)
        fingerprint = Fingerprint()
        # What carries a gradient was computed by the model (a loss module's input) and is no data.
        fingerprint.value([args, kwargs], skip=lambda tensor: tensor.requires_grad)
        self._batches.append(fingerprint)
        if self._drawn in self._begun:
            self._begun.discard(self._drawn)
            self._new_epoch = True

    def iterating(self, iterator: Any) -> None:
        """A data loader starts an iteration; an epoch, once a training forward follows on what is drawn from it."""
        self._begun.add(id(iterator))

    def drawn(self, iterator: Any) -> None:
        """A batch is drawn from a loader's iterator."""
        self._drawn = id(iterator)

    def scaled(self, loss: Any, product: Any) -> None:
        """The gradient scaler made `product` of `loss`: it is the loss that is to be recorded."""
        self._unscaled = {id(product): loss.detach()}

    def backward(self, loss: Any = None) -> None:
        """A backward pass begins from `loss` (None where it does not begin from one)."""
        self._moved = True
        if loss is not None:
            self._losses.append(_scalar(self._unscaled.pop(id(loss), loss)))

    @property
    def moved(self) -> bool:
        """Whether a backward pass was seen since the last step: only then is `optimizer.step` a training step."""
        return self._moved

    def before_step(self, optimizer: Any) -> BaseException | None:
        """The optimizer is about to step; the second optimizer of one step changes nothing."""
        self.knows("optimizer", optimizer)
        if self.explicit or not self._moved or not self.session.open():
            return None
        return self._record(self._state())

    def forget(self) -> None:
        """What was seen since the last step belongs to none."""
        self._losses, self._batches, self._moved = [], [], False

    def told(self, *, loss: Any, batch: Any, model: Any, optimizer: Any) -> BaseException | None:
        """The same, from a loop that says so itself (`chaoskit.probe.step`)."""
        if not self.session.open():
            return None
        self.explicit = True
        self._losses = [_scalar(loss)] if loss is not None else []
        state = self._state()
        for name, thing in (("batch", batch), ("model", model), ("optimizer", optimizer)):
            if thing is not None:
                state[name] = fingerprint = Fingerprint()
                fingerprint.value(thing.state_dict() if hasattr(thing, "state_dict") else thing)
        return self._record(state)

    # What is made of it.

    def _state(self) -> dict[str, Any]:
        """Every component: a string, or a Fingerprint that may still have parts on a device."""
        torch = sys.modules["torch"]
        optimizers = [found for ref in self._optimizers if (found := ref()) is not None]
        roots = [found for ref in self._roots if (found := ref()) is not None]
        scalers = [found for ref in self._scalers if (found := ref()) is not None]
        averages = [found for ref in self._averages if (found := ref()) is not None]
        # One by one: what cannot be read of one component must not cost the others.
        guard = self.session.guard
        state: dict[str, Any] = {
            "model": guard("model", components.model, optimizers, roots),
            "buffers": guard("buffers", components.buffers, roots),
            "optimizer": guard("optimizer", components.optimizer, optimizers),
            "lr": guard("lr", components.learning_rates, optimizers),
            "scaler": guard("scaler", components.scaler, scalers),
            "ema": guard("ema", components.averages, averages),
            "batch": guard("batch", self._batch),
            **(guard("rng", streams, torch) or {}),
        }
        return {name: value for name, value in state.items() if value is not None}

    def _batch(self) -> Fingerprint | None:
        if not self._batches:
            if self.steps == 0:
                self.session.write("blind", component="batch", reason="no forward pass in training mode was seen")
            return None
        whole = Fingerprint()
        for part in self._batches:
            whole.text(part.hexdigest())
            whole.reductions.extend(part.reductions)
        return whole

    def _record(self, state: dict[str, Any]) -> BaseException | None:
        """Stop at the gate with this step, then write it down. A rank that is killed at the gate has not taken it."""
        self.settle()
        if self._new_epoch:
            self._new_epoch = False
            self.session.write("epoch", n=self.steps)
        late = Late(self.steps + 1, self._losses, state)
        gate = self.session.gate
        if gate is not None and gate.open:
            late.wait()
            data = late.early | late.settled()
            order = gate.arrive("step", self.steps, record={"n": late.n, **data})
            if order is not None:
                return order
            self.session.write("step", n=late.n, **data)
        elif late.waiting:
            self.session.write("step", n=late.n, **late.early)
            self._late = late
        else:
            self.session.write("step", n=late.n, **(late.early | late.settled()))
        self.steps += 1
        self.forget()
        if self.steps == 1:
            self._say_sources()
        return None

    def settle(self) -> None:
        """Write what the device has computed since the last step."""
        if self._late is not None:
            late, self._late = self._late, None
            self.session.write("late", n=late.n, **late.settled())

    def _say_sources(self) -> None:
        found = sources()
        if found != self._sources:
            self._sources = found
            self.session.write("sources", files=found)

    def finish(self) -> None:
        """The process ends by itself."""
        self.settle()
        self._say_sources()
        if not self.steps:
            self.session.write("blind", component="step", reason="no optimizer step was seen")


class Late:
    """A step whose numbers may still be on their way from the device. `early` is what is known at once."""

    def __init__(self, n: int, losses: list[Any], state: dict[str, Any]) -> None:
        self.n = n
        self._losses = losses
        self._state = {
            name: (value, "", 0) if isinstance(value, str) else ("", value.hexdigest(), len(value.reductions))
            for name, value in state.items()
        }
        numbers = [r for value in state.values() if not isinstance(value, str) for r in value.reductions]
        device_losses = [loss for loss in losses if is_tensor(loss)]
        self.waiting = bool(numbers or device_losses)
        self._ready: Any = None
        if self.waiting:
            self._fetch(numbers, device_losses)
        self.early: dict[str, Any] = {
            "losses": [loss for loss in losses if isinstance(loss, str)] if not device_losses else [],
            "state": {
                name: text or settle(digest, ())
                for name, (text, digest, count) in self._state.items()
                if not count
            },
        }

    def _fetch(self, numbers: list[Any], losses: list[Any]) -> None:
        """Start one copy of everything to page-locked memory, behind the work that is already queued."""
        torch = sys.modules["torch"]
        device = (numbers or losses)[0].device
        bits = [loss.to(device=device, dtype=torch.float64).view(torch.int64) for loss in losses]
        vector = torch.stack([number.to(device) for number in numbers] + bits)
        if device.type == "cuda":
            self._numbers = torch.empty(len(vector), dtype=torch.int64, device="cpu", pin_memory=True)
            self._numbers.copy_(vector, non_blocking=True)
            self._ready = torch.cuda.Event()
            self._ready.record()
        else:
            self._numbers = vector.cpu()

    def wait(self) -> None:
        """Until the device has delivered."""
        if self._ready is not None:
            self._ready.synchronize()

    def settled(self) -> dict[str, Any]:
        """The fields that were missing in `early`: state and losses."""
        if not self.waiting:
            return {}
        self.wait()
        numbers = self._numbers.tolist()
        state = dict(self.early["state"])
        for name, (_, digest, count) in self._state.items():
            if count:
                state[name] = settle(digest, numbers[:count])
                del numbers[:count]
        losses = [loss if isinstance(loss, str) else _hex(numbers.pop(0)) for loss in self._losses]
        return {"losses": losses, "state": state}


def _hex(bits: int) -> str:
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value.hex()


def _scalar(loss: Any) -> Any:
    """A loss as exact text, or as a tensor of its own where reading it would stall the device."""
    if not is_tensor(loss):
        return float(loss).hex()
    loss = getattr(loss, "_local_tensor", loss).detach()
    if loss.numel() != 1:
        fingerprint = Fingerprint()
        fingerprint.tensor(loss)
        return f"tensor:{fingerprint.hexdigest()}"
    if loss.device.type == "cpu":
        return float(loss.item()).hex()
    return loss.reshape(()).clone()
