"""`Injector`: the orders under way, and the moments of a step at which they can be carried out.

A step begins with its outermost training forward and ends as its update is about to be taken. What lies between steps
is struck just after that, once the step's record has been made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chaoskit.probe.injection import activation, batch, collectives, gradient, held, loss
from chaoskit.probe.injection.strike import Strike
from chaoskit.probe.tensors import named_parameters

if TYPE_CHECKING:
    from chaoskit.probe.gate import Gate
    from chaoskit.probe.observer import Observer
    from chaoskit.probe.session import Session


class Injector:
    """There while an order is under way: `Session.injector` is None otherwise."""

    def __init__(self, session: Session, gate: Gate, observer: Observer) -> None:
        self._session, self._gate, self._observer = session, gate, observer
        self._strikes: list[Strike] = []
        self._passes = 0
        self._passes_before = observer.passes

    def corrupt(self, order: Mapping[str, Any]) -> None:
        """Take an order."""
        try:
            self._strikes.append(Strike(order, self._session, self._gate, self._observer))
        except Exception as error:
            self._session.error("corrupt", error)
            self._gate.tell(
                {"refused": {"id": order.get("id", 0), "why": f"an order that is none: {error}"[:500]}}
            )
            self._forget()

    def _waiting(self, *kinds: str) -> list[Strike]:
        return [each for each in self._strikes if each.open and not each.done and each.into.kind in kinds]

    def forward(self, root: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The outermost training forward is about to be called: the arguments that it is to be given."""
        self._begin()
        for strike in self._waiting("activation"):
            strike.release()
            strike.attempt(activation.listen, strike, root)
        for strike in self._waiting("gradient"):
            if not (strike.into.reduced or strike.listens):
                strike.attempt(gradient.listen, strike, root)
        for strike in self._waiting("batch"):
            args, kwargs = strike.attempt(batch.change, strike, args, kwargs) or (args, kwargs)
        return args, kwargs

    def _begin(self) -> None:
        """A step begins for those that have not begun it."""
        begun = []
        for strike in self._strikes:
            if strike.into.held:
                strike.release()  # of an update that was left out
            elif not strike.open:
                strike.begin()
                begun.append(strike)
        if taps := [strike for strike in begun if strike.into.kind == "collective"]:
            collectives.listen(taps)

    def result(self, result: Any) -> Any:
        """What it returned, as it is to be."""
        for strike in self._waiting("loss"):
            changed = strike.attempt(loss.in_result, strike, result)
            result = result if changed is None else changed
        for strike in self._waiting("activation"):
            strike.release()
        self._tidy()
        return result

    def backward(self, start: Any) -> None:
        """A backward pass is about to begin, from that tensor if it is one. Not every job calls a module before."""
        self._begin()
        for strike in self._waiting("loss"):
            if start is not None:
                strike.attempt(loss.at_backward, strike, start, self._observer.unscaled(start))

    def backward_ended(self) -> None:
        """It has ended; after the last one of a step the gradients are what the ranks have made of theirs."""
        self._passes += 1
        if self._was_last():
            self._reduced()
        self._tidy()

    def _was_last(self) -> bool:
        """By the step before; in a first step, by whether this pass brought the ranks' gradients together."""
        if self._passes_before:
            return self._passes == self._passes_before
        return all(getattr(root, "require_backward_grad_sync", True) for root in self._observer.living("root"))

    def _reduced(self) -> None:
        for strike in self._waiting("gradient"):
            if strike.into.reduced:
                observer = self._observer
                named = named_parameters(observer.living("optimizer"), observer.living("root"))
                strike.attempt(gradient.reduced, strike, named)

    def step_ends(self) -> None:
        """An update is about to be taken: what has not happened in its step does not happen."""
        self._reduced()
        for strike in self._strikes:
            if strike.open:
                strike.end()
                strike.release()
        self._passes, self._passes_before = 0, self._observer.passes
        self._forget()

    def update(self) -> None:
        """The same, and the step is in the record."""
        observer = self._observer
        living = observer.living("optimizer"), observer.living("root"), observer.living("scaler")
        for strike in self._strikes:
            if strike.into.held:
                strike.release()
                if not strike.over:
                    strike.begin()
                    strike.attempt(held.strike_held, strike, *living)
                    strike.end()
        self._forget()

    def _tidy(self) -> None:
        """Take away the hooks of what has struck."""
        for strike in self._strikes:
            if strike.done and not strike.into.held:
                strike.release()

    def _forget(self) -> None:
        self._strikes = [each for each in self._strikes if not each.over or each.listens]
        if not self._strikes:
            self._session.injector = None
