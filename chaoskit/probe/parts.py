"""What the parts of the probe need of each other, as protocols: the session knows its parts by these alone, and each
part may know the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from chaoskit.probe.taking import Taking
from chaoskit.probe.training_state import TrainingState


class StepObserver(Protocol):
    """Records the steps; see `Observer`."""

    steps: int
    passes: int
    by_name: bool
    loaded: bool
    not_a_number: bool
    training: TrainingState
    begun: dict[str, dict[str, str]]
    taking: Taking

    def forward(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], /) -> None: ...
    def took(self, source: Any, index: Any, result: Any, /) -> None: ...
    def unscaled(self, loss: Any, /) -> Any: ...
    def told(self, *, loss: Any, batch: Any, model: Any, optimizer: Any) -> BaseException | None: ...
    def leave_out(self) -> BaseException | None: ...
    def hold(self) -> None: ...
    def settle(self) -> None: ...
    def finish(self) -> None: ...


class SaveRecorder(Protocol):
    """Records the saves and loads; see `Saves`."""

    @property
    def steps(self) -> int: ...
    def settle(self) -> None: ...


class NumberInjector(Protocol):
    """Carries out the orders to make numbers wrong; see `Injector`."""

    def corrupt(self, order: Mapping[str, Any], /) -> None: ...
    def forward(self, root: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], /) -> Any: ...
    def result(self, result: Any, /) -> Any: ...
    def backward(self, start: Any, /) -> None: ...
    def backward_ended(self) -> None: ...
    def step_ends(self) -> None: ...
    def update(self) -> None: ...


class StateOrders(Protocol):
    """Carries out the orders about the whole training state; see `Snapshots`."""

    handlers: dict[str, Callable[[Mapping[str, Any]], None]]
