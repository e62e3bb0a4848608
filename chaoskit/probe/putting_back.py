"""`StateKeeper` and `StatePutter`: keep the state of a rank at some positions, and put components of it back after a
resume, before the first step.

The hooks report five moments: a checkpoint is saved, a checkpoint was loaded, a batch is drawn, a forward pass begins,
a step is about to be taken. A component is kept and put back at the same moment: the schedule from the first batch on,
model, buffers, scaler, averages and random streams as the forward pass begins, the optimizer as the step is taken.
Nothing here draws a random number. An error is recorded and leaves the component as it is.
"""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.probe import kept_state
from chaoskit.probe.rates import Rates, RatesWriter, as_text
from chaoskit.probe.row_order import RowKeeper, RowOrder, kind_of
from chaoskit.probe.streams import streams
from chaoskit.protocol import putting_back
from chaoskit.protocol.putting_back import Keep, PutBack, Resumed

if TYPE_CHECKING:
    from chaoskit.probe.parts import StateMoments, StepObserver
    from chaoskit.probe.session import ProbeSession


def begin(session: ProbeSession, observer: StepObserver) -> StateMoments | None:
    """What the run's directory asks of this rank; None in an ordinary run. Raises ValueError for an invalid file."""
    match putting_back.read(session.run):
        case Keep() as order:
            return StateKeeper(session, observer, order)
        case PutBack() as order:
            restart = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
            if (resumed := order.of(session.launch, restart)) is not None:
                return StatePutter(session, observer, order, resumed)
    return None


class StateKeeper:
    """Writes one file for each position, when the step after it is about to be taken."""

    def __init__(self, session: ProbeSession, observer: StepObserver, order: Keep) -> None:
        self._session, self._observer, self._order = session, observer, order
        self._position = -1
        self._kept: dict[str, Any] = {}
        self._rates: RatesWriter | None = None
        self._rows: RowKeeper | None = None

    def saved(self) -> None:
        """A checkpoint is about to be written."""
        if self._due():
            self._kept["streams"]["load"] = self._streams()

    def loaded(self) -> None:
        """A checkpoint was loaded: nothing is kept then."""

    def draws(self) -> None:
        """A batch is about to be drawn."""
        if self._due() and "draw" not in self._kept["streams"]:
            self._kept["streams"]["draw"] = self._streams()
            self._keep_schedule("draw")

    def begins(self, iterator: Any) -> None:
        """A data loader's iterator begins anew."""
        if self._rows is not None:
            self._rows.begins(iterator)

    def asks(self, iterator: Any, ask: Callable[[], Any]) -> Any:
        """A data loader asks its sampler."""
        return ask()

    def asked(self, iterator: Any, index: Any) -> None:
        """The sampler has answered."""
        if self._wanted("batch"):
            if self._rows is None:
                self._rows = RowKeeper(Path(self._order.directory, putting_back.rows_file(self._rank)))
            self._rows.asked(iterator, index)

    def forward(self, root: Any) -> None:
        """The forward pass of an outermost module in training mode is about to begin."""
        if not self._due():
            return
        kept, training = self._kept, self._observer.training
        if "forward" not in kept["streams"]:
            kept["streams"]["forward"] = self._streams()
            if self._wanted("scaler"):
                kept["scaler"] = kept_state.packed(kept_state.scalers_of(training.living("scaler")))
            if self._wanted("ema"):
                kept["ema"] = kept_state.packed(kept_state.averages_of(training.living("average")))
            self._keep_schedule("forward")
        if all(seen is not root for seen in self._roots):
            self._roots.append(root)
            kept["roots"].append(
                {
                    "model": kept_state.packed(kept_state.parameters_of(root)) if self._wanted("model") else {},
                    "buffers": kept_state.packed(kept_state.buffers_of(root)) if self._wanted("buffers") else {},
                }
            )

    def step(self) -> None:
        """An optimizer step is about to be recorded."""
        optimizers, roots, _ = self._observer.training.owners()
        if self._wanted("lr") or self._wanted("options"):
            if self._rates is None:
                self._rates = RatesWriter(Path(self._order.directory, putting_back.rates_file(self._rank)))
            self._rates.write(self._observer.steps + 1, optimizers, roots)
        if self._rows is not None and (rows := self._observer.rows()):
            self._rows.trained(rows, self._observer.steps)
        if self._due():
            if self._wanted("optimizer"):
                self._kept["optimizer"] = kept_state.packed(kept_state.states_of(optimizers, roots))
            self._write(putting_back.state_file(self._position, self._rank), self._kept, position=self._position)
            self._kept, self._position = {}, -1
        step = self._observer.steps + 1
        if self._wanted("average") and any(0 < step - at <= putting_back.AVERAGED for at in self._order.positions):
            kept = kept_state.packed(self._observer.kept_by_hand())
            self._write(putting_back.average_file(step, self._rank), kept)

    @property
    def _rank(self) -> int:
        return self._session.rank or 0

    def _due(self) -> bool:
        """Whether the state at the present position is to be kept; begins with it if so."""
        position = self._observer.steps
        if position not in self._order.positions:
            return False
        if self._position != position:
            self._position = position
            self._kept = {"streams": {}, "schedules": {}, "roots": []}
            self._roots: list[Any] = []
        return True

    def _wanted(self, component: str) -> bool:
        return component in self._order.components

    def _keep_schedule(self, moment: str) -> None:
        if self._wanted("lr"):
            optimizers = self._observer.training.living("optimizer")
            self._kept["schedules"][moment] = kept_state.schedule_of(optimizers)

    def _streams(self) -> dict[str, Any]:
        return kept_state.random_streams(sys.modules["torch"])

    def _write(self, name: str, kept: Mapping[str, Any], **about: int) -> None:
        buffer = io.BytesIO()
        # Past what records the job's own saves.
        inspect.unwrap(sys.modules["torch"].save)(kept, buffer)
        content = buffer.getvalue()
        draft = Path(self._order.directory, f".{name}.{os.getpid()}")
        draft.write_bytes(content)
        os.replace(draft, Path(self._order.directory, name))
        self._session.write("state.kept", file=name, digest=putting_back.digest_of(content), **about)


class StatePutter:
    """Puts the components of one rank back, in one incarnation. It records each with its fingerprint before and after,
    when the first step is about to be taken, and again at the first later step at which a rate was another one."""

    def __init__(self, session: ProbeSession, observer: StepObserver, order: PutBack, resumed: Resumed) -> None:
        self._session, self._observer, self._order, self._resumed = session, observer, order, resumed
        self._state: Mapping[str, Any] | None = None
        self._rates: Rates | None = None
        self._rows: RowOrder | None = None
        self._drawn = self._told = self._held = self._averaged = False
        self._roots: list[Any] = []
        #: By component and by what of it was put back at once: the fingerprint before and after.
        self._before: dict[str, dict[str, str]] = {}
        self._after: dict[str, dict[str, str]] = {}

    def saved(self) -> None:
        """A checkpoint is about to be written: that is no moment to put something back."""

    def loaded(self) -> None:
        """A checkpoint was loaded."""
        if self._due:
            self._drawn = False
            if self._order.moment == "load":
                self._put_streams("load")

    def draws(self) -> None:
        """A batch is about to be drawn."""
        if self._due and not self._drawn:
            self._drawn = True
            if self._order.moment == "draw" and "draw" in self._kept["streams"]:
                self._put_streams("draw")
            self._put_schedule("draw")

    def begins(self, iterator: Any) -> None:
        """A data loader's iterator begins anew."""
        if self._rows is not None:
            self._rows.begins(iterator)

    def asks(self, iterator: Any, ask: Callable[[], Any]) -> Any:
        """A data loader asks its sampler: it gets the rows of the reference instead."""
        order = self._session.guard("put back", self._order_for, iterator)
        if order is None:
            return ask()
        return order.of_epoch(iterator, ask) if self._order.way == "epoch" else order.flowing(ask)

    def asked(self, iterator: Any, index: Any) -> None:
        """The sampler has answered, or was not asked."""

    def _order_for(self, iterator: Any) -> RowOrder | None:
        """The rows that this iterator must ask for; None for one of another loader."""
        if not self._wanted("batch"):
            return None
        if self._rows is None:
            content = self._read(putting_back.rows_file(self._session.rank or 0))
            self._rows = RowOrder.read(content, self._resumed.position)
        if kind_of(iterator) != self._rows.kind:
            return None
        self._note("batch", "", f"step {self._resumed.position + 1}")
        return self._rows

    def forward(self, root: Any) -> None:
        """The forward pass of an outermost module in training mode is about to begin."""
        if not self._due or any(seen is root for seen in self._roots):
            return
        training, kept = self._observer.training, self._kept
        if not self._roots:
            if self._order.moment != "load":
                self._put_streams("forward")
            self._put_schedule("forward")
            if self._wanted("scaler"):
                scalers = training.living("scaler")
                self._put("scaler", lambda: kept_state.scales_of(scalers),
                          lambda: kept_state.put_scalers(scalers, kept["scaler"]))  # fmt: skip
            if self._wanted("ema"):
                self._put_averages(training.living("average"), kept["ema"])
        self._roots.append(root)
        for name, live_of in (("model", kept_state.parameters_of), ("buffers", kept_state.buffers_of)):
            if self._wanted(name):
                self._put_root(name, len(self._roots) - 1, live_of(root))

    def step(self) -> None:
        """An optimizer step is about to be recorded."""
        if not self._components:
            return
        optimizers, roots, _ = self._observer.training.owners()
        if self._due and self._wanted("optimizer"):
            self._put("optimizer", lambda: kept_state.states_of(optimizers, roots),
                      lambda: kept_state.put_states(optimizers, roots, self._kept["optimizer"]))  # fmt: skip
        self._hold(optimizers, roots)
        if self._due:
            self._tell()
        elif self._wanted("average") and not self._averaged:
            self._put_kept_by_hand()

    # What is put back.

    @property
    def _due(self) -> bool:
        """Whether the first step of the incarnation is still to come, and this rank has something to put back."""
        return not self._observer.steps and bool(self._components)

    @property
    def _components(self) -> tuple[str, ...]:
        return self._resumed.ranks.get(self._session.rank or 0, ())

    def _wanted(self, component: str) -> bool:
        return component in self._components

    @property
    def _kept(self) -> Mapping[str, Any]:
        """The state of the reference, read once."""
        if self._state is None:
            self._state = self._load(putting_back.state_file(self._resumed.position, self._session.rank or 0))
        return self._state

    def _load(self, name: str) -> Mapping[str, Any]:
        load = inspect.unwrap(sys.modules["torch"].load)
        kept: Mapping[str, Any] = load(io.BytesIO(self._read(name)), map_location="cpu", weights_only=True)
        return kept

    def _read(self, name: str) -> bytes:
        """A file of the reference. Raises ValueError if it is not the one that was kept."""
        content = Path(self._order.directory, name).read_bytes()
        if putting_back.digest_of(content) != self._order.digests.get(name):
            raise ValueError(f"{name} is not the file that was kept")
        return content

    def _put(self, component: str, live: Callable[[], Any], put: Callable[[], None], part: str = "") -> None:
        with sys.modules["torch"].no_grad():
            before = kept_state.fingerprint(live())
            put()
            self._note(component, before, kept_state.fingerprint(live()), part)

    def _note(self, component: str, before: str, after: str, part: str = "") -> None:
        """What a component, or a part of it, was the first time, and what it is now."""
        self._before.setdefault(component, {}).setdefault(part, before)
        self._after.setdefault(component, {})[part] = after

    def _put_root(self, name: str, place: int, live: Mapping[str, Any]) -> None:
        roots = self._kept["roots"]
        if place >= len(roots):
            raise ValueError(f"the job calls more models in this step than the {len(roots)} of the reference")
        kept = roots[place][name]
        self._put(name, lambda: live, lambda: kept_state.put_tensors(live, kept, name), part=str(place))

    def _put_averages(self, models: list[Any], kept: list[Mapping[str, Any]]) -> None:
        live = kept_state.averages_of(models)
        if len(live) != len(kept) or not live:
            raise ValueError(f"the job has {len(live)} averaged models, and {len(kept)} in the reference")

        def put() -> None:
            for own, other in zip(live, kept, strict=True):
                kept_state.put_tensors(own, other, "averaged model")

        self._put("ema", lambda: live, put)

    def _put_kept_by_hand(self) -> None:
        """The average that the job keeps by hand, as soon as it is known which tensors it is made of."""
        live = self._observer.kept_by_hand()
        if not live:
            return
        self._averaged = True
        n = self._observer.steps + 1
        kept = self._load(putting_back.average_file(self._resumed.position + n, self._session.rank or 0))
        self._put("average", lambda: live, lambda: kept_state.put_tensors(live, kept, "average"))
        self._write(n, ["average"])

    def _put_streams(self, moment: str) -> None:
        torch = sys.modules["torch"]
        named = [name for name in self._components if name == "rng" or name.startswith("rng.")]
        if not named:
            return
        kept = self._kept["streams"].get(moment)
        if kept is None:
            raise ValueError(f"the random streams of the reference were not seen then ({moment})")
        chosen = kept if "rng" in named else {name: kept[name] for name in named if name in kept}
        if missing := [name for name in named if name != "rng" and name not in kept]:
            raise ValueError(f"the reference has no {missing[0]}")
        before = streams(torch)
        kept_state.set_random_streams(chosen, torch)
        after = streams(torch)
        for name in chosen:
            self._note(name, before.get(name, ""), after[name])

    def _put_schedule(self, moment: str) -> None:
        """What torch's schedulers know, for what the job does with it before the step."""
        kept = self._kept["schedules"].get(moment, {}) if self._wanted("lr") else {}
        if not kept.get("schedulers"):
            return
        optimizers = self._observer.training.living("optimizer")
        before = kept_state.fingerprint(kept_state.schedule_of(optimizers))
        kept_state.put_schedule(optimizers, kept)
        self._note("lr", before, kept_state.fingerprint(kept_state.schedule_of(optimizers)), part=moment)

    def _hold(self, optimizers: list[Any], roots: list[Any]) -> None:
        """Give the step the learning rates and options that it has in the reference."""
        wanted = [name for name in ("lr", "options") if self._wanted(name)]
        if not wanted:
            return
        if self._rates is None:
            self._rates = Rates(self._read(putting_back.rates_file(self._session.rank or 0)))
        before = {name: as_text(optimizers, lr=name == "lr") for name in wanted}
        step = self._resumed.position + self._observer.steps + 1
        with sys.modules["torch"].no_grad():
            self._rates.hold(step, optimizers, roots, lr="lr" in wanted, options="options" in wanted)
        after = {name: as_text(optimizers, lr=name == "lr") for name in wanted}
        for name in wanted:
            if self._due:
                self._note(name, before[name], after[name])
            elif not self._held and before[name] != after[name]:
                self._held = True
                self._before.setdefault(name, {})[""], self._after.setdefault(name, {})[""] = (
                    before[name],
                    after[name],
                )
                self._write(self._observer.steps + 1, [name])

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self._write(1, list(self._before))

    def _write(self, n: int, names: list[str]) -> None:
        found = {name: [_whole(self._before[name]), _whole(self._after[name])] for name in names}
        about = {"position": self._resumed.position, "moment": self._order.moment}
        self._session.write("state.put", n=n, components=found, **about)


def _whole(parts: Mapping[str, str]) -> str:
    """One text for the fingerprints of all parts."""
    return " ".join(parts[name] for name in sorted(parts))
