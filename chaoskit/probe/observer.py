"""`Observer`: watches the training of a rank and writes one `step` event when an optimizer step is about to be taken.

It draws no random number and does not wait for an accelerator: values that are computed there are read at the next step
and written as a `late` event.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from chaoskit.probe.captures import captures
from chaoskit.probe.consumed import Consumed
from chaoskit.probe.contents import leaves
from chaoskit.probe.deferred import DeferredEvent, exact
from chaoskit.probe.elastic import Elastic
from chaoskit.probe.followers import Followers
from chaoskit.probe.loading import Loading
from chaoskit.probe.naming import parameters
from chaoskit.probe.nonfinite import Masks, Nonfinite, flags
from chaoskit.probe.own_time import OwnTime
from chaoskit.probe.replicas import replicas, shards
from chaoskit.probe.samples import Samples
from chaoskit.probe.settings import settings
from chaoskit.probe.sources import installed, sources
from chaoskit.probe.streams import seed_of_no_worker, streams
from chaoskit.probe.taking import Taking
from chaoskit.probe.tensors import Named, named_parameters, tensors, told_tensors
from chaoskit.probe.training_state import TrainingState
from chaoskit.protocol.fingerprint import Fingerprint, is_tensor
from chaoskit.protocol.multilinear import together
from chaoskit.protocol.recording import Recording
from chaoskit.protocol.sharded_hash import Shards

if TYPE_CHECKING:
    from chaoskit.probe.captured_graph import CapturedGraph
    from chaoskit.probe.session import ProbeSession

#: After this many steps, training has imported what it needs.
_IMPORTED = 3


class Observer:
    """One per rank. `steps` counts the steps recorded in this incarnation.

    With `by_name`, the next step records its tensors one by one. Steps 1, 2, 4, 8 and so on record which components
    hold NaN or infinity; with `not_a_number`, once a loss was not finite, every step does. Both cost a pass over the
    state. `loaded`: a checkpoint was loaded since the last step, after training had begun. `passes`: the number of
    backward passes in the last step, 0 before the first. `recording` says which steps record their whole state.
    `capturing`: the CUDA graph that is being captured.
    """

    def __init__(self, session: ProbeSession) -> None:
        self.session = session
        self.steps = 0
        self.explicit = False
        self.by_name = True
        self.not_a_number = False
        self.loaded = False
        self.passes = 0
        self.recording = Recording.told(os.environ)
        self._learns = bool(os.environ.get("CHAOSKIT_LEARN"))
        self.capturing: CapturedGraph | None = None
        self.training = TrainingState(session.guard)
        self.elastic = Elastic(session.guard)
        self._followers = Followers()
        self._losses: list[Any] = []
        self.taking = Taking()
        self.loading = Loading(self.taking)
        self._consumed = Consumed(self.loading, self.taking)
        self._told_samples: Samples | None = None
        self._moved = False
        self._passes = 0
        self._wasteful = False
        self._unscaled: dict[int, Any] = {}
        self._masks = Masks()
        self._new_epoch = False
        self._late: list[tuple[str, int, DeferredEvent]] = []
        self.begun: dict[str, dict[str, str]] = {}
        self._sources: list[dict[str, Any]] = []
        self.own_time = OwnTime()

    # Called by the hooks.

    def forward(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """The outermost forward pass of a module in training mode begins: its inputs are the batch."""
        if self.capturing is not None:
            self.capturing.forwards.append((module, args, kwargs))
            return
        self.training.add("root", module)
        if self.session.saves is not None:
            self.session.saves.settle()
        self.training.note_groups()
        if "forward" not in self.begun:
            self._note_streams("forward")
        self._new_epoch |= self._consumed.add([args, kwargs])

    def forward_begins(self, module: Any) -> None:
        """The forward pass of a model itself begins, and will change its buffers."""
        self.training.forward_begins(module, wanted=self._is_whole())

    def draws(self, iterator: Any) -> None:
        """A batch is requested of a data loader."""
        self.loading.draws(iterator)
        self._note_streams("draw")

    def drew_for_nobody(self, before: Any) -> None:
        """A data loader without workers began to iterate, and torch's stream was in the state `before`. If only the
        seed that workers would have got was drawn since, record that."""
        if drawn := seed_of_no_worker(sys.modules["torch"], before):
            self.session.write("idle_draw", n=self.steps, stream="rng.torch", before=drawn[0], after=drawn[1])

    def took(self, source: Any, index: Any, result: Any) -> None:
        """Rows of a tensor or an array were taken, outside of the model."""
        if "draw" not in self.begun:
            self._note_streams("draw")
        self.taking.took(source, index, result)

    def _note_streams(self, at: str) -> None:
        """Remember the random streams at the beginning of a step that is recorded by name: when its last batch is
        drawn, and when its first forward pass begins. Both may draw more or fewer numbers if a batch has another shape.
        """
        if self.by_name:
            self.begun[at] = self.session.guard("begin", streams, sys.modules["torch"]) or {}

    def scaled(self, loss: Any, product: Any) -> None:
        """The gradient scaler made `product` of `loss`; record the loss."""
        self._unscaled = {id(product): loss.detach()}

    def unscaled(self, loss: Any) -> Any:
        """The loss before scaling, if the gradient scaler made this one."""
        return self._unscaled.get(id(loss), loss)

    def backward(self, loss: Any = None) -> None:
        """A backward pass begins, from `loss` if it begins from a loss."""
        if self.capturing is not None:
            self.capturing.losses.append(self.unscaled(loss))
            return
        self._moved = True
        self._passes += 1
        if loss is not None:
            self._losses.append(exact(self._unscaled.pop(id(loss), loss)))

    def replays(self, graph: CapturedGraph) -> None:
        """A CUDA graph is about to be replayed. If it takes the step as well, read the state of the step now."""
        for module, args, kwargs in graph.forwards:
            self.forward(module, args, kwargs)
        if graph.optimizer is not None and not self.explicit and graph.losses and self.session.open():
            self.training.add("optimizer", graph.optimizer)
            self._is_due()
            by_name = self.session.guard("tensors", self._by_name, {}) if self.by_name else None
            parts = self.elastic.parts(*self.training.owners())
            graph.before = self.training.read(self._batch), parts, by_name

    def replayed(self, graph: CapturedGraph) -> BaseException | None:
        """The graph was replayed: its losses and its random draws are known now, as when an eager step is taken."""
        for loss in graph.losses:
            self.backward(loss)
        if graph.before is None:
            return None
        (state, parts, by_name), graph.before = graph.before, None
        state |= self.session.guard("rng", streams, sys.modules["torch"]) or {}
        return self._record(state, {}, parts, whole=True, by_name=by_name)

    @property
    def moved(self) -> bool:
        """Whether there was a backward pass since the last step: only then is `optimizer.step` a training step."""
        return self._moved

    def before_step(self, optimizer: Any) -> BaseException | None:
        """The optimizer is about to step: record the step. A second optimizer in the same step records nothing."""
        if self.capturing is not None:
            self.capturing.optimizer = optimizer
            return None
        self.training.add("optimizer", optimizer)
        if self.explicit or not self._moved or not self.session.open():
            return None
        self._is_due()
        return self._record_seen()

    def leave_out(self) -> BaseException | None:
        """The job discards its gradients, or loads another state: record a step whose update is skipped. A job that
        discards gradients even before its first step always does so; in such a job this is no skipped step."""
        if self.explicit or not self._moved or self.capturing is not None:
            return None
        self._wasteful |= self.steps == 0
        if self._wasteful or not self.session.open():
            return None
        self._is_due()
        return self._record_seen(left_out=True)

    def forget(self) -> None:
        """Discard what was seen since the last step: it belongs to no step."""
        self._losses, self._told_samples, self._moved = [], None, False
        self._consumed = Consumed(self.loading, self.taking)
        self.training.step_ends()
        self._passes, self.begun = 0, {}

    def told(self, *, loss: Any, batch: Any, model: Any, optimizer: Any) -> BaseException | None:
        """Record a step that the training loop reports itself (`chaoskit.probe.step`)."""
        if not self.session.open():
            return None
        self.explicit = True
        self._is_due()
        self._losses = [exact(loss)] if loss is not None else []
        whole = self._is_whole()
        state = self.training.read(self._batch, whole=whole)
        parts = self.elastic.parts(*self.training.owners())
        by_name: dict[str, Named] = {}
        for name, thing in (("batch", batch), ("model", model), ("optimizer", optimizer)):
            if thing is not None and (whole or name == "batch"):
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
        return self._record(state, by_name, parts, whole=whole)

    def rows(self) -> str:
        """The rows of the data set that the step has consumed so far; empty where they are not known."""
        return self._consumed.samples.rows

    def kept_by_hand(self) -> dict[str, Any]:
        """The tensors that follow parameters, as an average that the job keeps by hand, as far as they are known."""
        return self._followers.tensors()

    def hold(self) -> None:
        """A checkpoint is about to be written: record the state of an elastic job."""
        # A loop that reports its steps itself has its own components.
        if not self.explicit and (data := self.elastic.held(self.steps, *self.training.owners())) is not None:
            self.session.write("held", n=self.steps, **data)

    # Recording.

    def _is_whole(self) -> bool:
        """Whether the current step records its whole state, as far as is known by now. It also does so if its tensors
        are recorded by name, if a loss was not finite, and if a fault may strike."""
        if self.recording.whole(self.steps + 1) or self.by_name or self.loaded or self.not_a_number:
            return True
        gate = self.session.gate
        return self.session.injector is not None or (gate is not None and gate.stops(self.steps, at_once=False))

    def _record_seen(self, *, left_out: bool = False) -> BaseException | None:
        """Record a step as the hooks have seen it."""
        whole = self._is_whole()
        state = self.training.read(self._batch, whole=whole)
        parts = self.elastic.parts(*self.training.owners())
        return self._record(state, {}, parts, whole=whole, left_out=left_out)

    def _is_due(self) -> None:
        """A step is about to be recorded: its state may have to be kept, or put back, before it is read."""
        self.session.guard("own time", self.own_time.ends)
        if self.session.moments is not None:
            self.session.guard("put back", self.session.moments.step)

    def _batch(self) -> Fingerprint | None:
        whole = self._consumed.batch()
        if whole is None and self.steps == 0:
            self.session.write("blind", component="batch", reason="no forward pass in training mode was seen")
        return whole

    def _fields(
        self, state: dict[str, Any], parts: dict[str, Shards], left_out: bool, whole: bool
    ) -> dict[str, Any]:
        """The fields of the `step` event."""
        fields: dict[str, Any] = {"losses": self._losses, "state": state}
        if (own := self.own_time.seconds) is not None:
            fields["own"] = round(own, 6)
        if left_out:
            fields["left_out"] = True
        if not whole or self.training.missed_buffers:
            fields["thin"] = True
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
        looks = self.not_a_number or self.steps & (self.steps + 1) == 0
        if looks and (found := self.session.guard("nonfinite", self._nonfinite)) is not None:
            fields["nonfinite"] = found
        return fields

    def _nonfinite(self) -> Nonfinite:
        optimizers = self.training.living("optimizer")
        kept = (leaf for each in optimizers for state in each.state.values() for _, leaf in leaves(state))
        held = parameters(optimizers, self.training.living("root"))
        if self.steps == 0:
            self._masks.learn(held)
        spoilt, masks = zip(*self._masks.look(held), strict=True) if held else ((), ())
        return Nonfinite({"model": spoilt, "masks": masks, "optimizer": flags(filter(is_tensor, kept))})

    def _look_at(self, losses: Iterable[str]) -> None:
        if not self.not_a_number:
            # A loss of several numbers has only a fingerprint.
            numbers = (float.fromhex(loss) for loss in losses if not loss.startswith("tensor:"))
            self.not_a_number = not all(map(math.isfinite, numbers))

    def _by_name(self, told: Mapping[str, Named]) -> DeferredEvent:
        with together():
            found: dict[str, Any] = {**tensors(*self.training.owners()), **told}
            copies = self._followers.fingerprints()
        # If one parameter has several copies, it is not known which is which.
        if average := {name: own[0] for name, own in copies.items() if len(own) == 1}:
            found["average"] = average
        return DeferredEvent({"tensors": found})

    def _look_at_followers(self, n: int) -> None:
        optimizers, roots, averages = self.training.owners()

        def known() -> Iterable[Any]:
            kept = (leaf for each in optimizers for state in each.state.values() for _, leaf in leaves(state))
            return (
                *filter(is_tensor, kept),
                *(p for each in averages for p in (*each.parameters(), *each.buffers())),
            )

        self._followers.step(n, lambda: named_parameters(optimizers, roots), known)

    def _record(
        self,
        state: dict[str, Any],
        told: Mapping[str, Named],
        parts: dict[str, Shards],
        *,
        whole: bool,
        left_out: bool = False,
        by_name: DeferredEvent | None = None,
    ) -> BaseException | None:
        """Stop at the gate if the rank has to, then record the step; return an exception that the job must raise."""
        if self.session.saves is not None:
            try:
                self.session.saves.settle()
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
        self.session.guard("average", self._look_at_followers, n)
        late = DeferredEvent(self._fields(state, parts, left_out, whole))
        if by_name is None and self.by_name:
            by_name = self.session.guard("tensors", self._by_name, told)
        gate = self.session.gate
        if gate is not None and gate.stops(self.steps, at_once=self.loaded):
            data = late.settled()
            # A rank killed here has not taken the step, but the others may have, with its gradients.
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
        if self.begun:
            self.session.write("begin", n=n, streams=self.begun)
        if by_name is not None:
            self._late.append(("tensors", n, by_name))
            if not by_name.waiting:
                self.settle()
        self.by_name, self.loaded = gate is not None and gate.wants_names(), False
        self.steps = n
        self.forget()
        if self.session.injector is not None:
            self.session.guard("corrupt", self.session.injector.update)
        if self._learns:
            saved = self.session.saves is not None and self.session.saves.made
            self._learns = not saved
            if saved or self.steps == _IMPORTED:
                self._say_modules()
        if self.steps == 1:
            self._say_sources()
            self.session.guard("replicas", self._say_replicas)
            self.session.guard("settings", self._say_settings)
        self.session.guard("own time", self.own_time.begins)
        return None

    def settle(self) -> None:
        """Write the deferred events that the device has computed since the last step."""
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

    def _say_modules(self) -> None:
        """Record what a warm parent needs: early, for a second control that begins while this one trains, again after
        the first save, and at the end."""
        threads = os.environ.get("OMP_NUM_THREADS")
        self.session.write("modules", names=installed(), captures=captures(), threads=threads)

    def _say_replicas(self) -> None:
        if ranks := replicas(self.training.living("root")):
            self.session.write("replicas", ranks=ranks)
        optimizers, roots, _ = self.training.owners()
        if count := shards(parameters(optimizers, roots)):
            self.session.write("shards", parameters=count)

    def _say_settings(self) -> None:
        self.session.write("settings", values=settings(sys.modules["torch"]))

    def finish(self) -> None:
        """Write the last events: the process ends by itself."""
        if self.session.saves is not None:
            self.session.guard("detours", self.session.saves.settle)
        self.settle()
        self._say_sources()
        if os.environ.get("CHAOSKIT_LEARN"):
            self._say_modules()
        if not self.steps:
            self.session.write("blind", component="step", reason="no optimizer step was seen")
