"""`Injector`: the injections that are ordered, and the moments of a step at which each can be made.

A step begins with its outermost training forward and ends when its update is about to be taken. State that lives
between steps (parameters, optimizer state) is changed just after that, once the step has been recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chaoskit.probe.injection import activation, batch, between_steps, collectives, gradient, loss
from chaoskit.probe.injection.numeric_injection import NumericInjection
from chaoskit.probe.tensors import named_parameters

if TYPE_CHECKING:
    from chaoskit.probe.gate import GateClient
    from chaoskit.probe.parts import StepObserver
    from chaoskit.probe.session import ProbeSession


class Injector:
    """Exists while an order is not finished: else `ProbeSession.injector` is None."""

    def __init__(self, session: ProbeSession, gate: GateClient, observer: StepObserver) -> None:
        self._session, self._gate, self._observer = session, gate, observer
        self._injections: list[NumericInjection] = []
        self._passes = 0
        self._passes_before = observer.passes

    def corrupt(self, order: Mapping[str, Any]) -> None:
        """Accept an order."""
        try:
            self._injections.append(NumericInjection(order, self._session, self._gate, self._observer))
        except Exception as error:
            self._session.error("corrupt", error)
            self._gate.tell(
                {"refused": {"id": order.get("id", 0), "why": f"the order is not valid: {error}"[:500]}}
            )
            self._forget()

    def _waiting(self, *kinds: str) -> list[NumericInjection]:
        return [each for each in self._injections if each.open and not each.done and each.into.kind in kinds]

    def forward(self, root: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The outermost training forward is about to be called; return the arguments to call it with."""
        self._begin()
        for injection in self._waiting("activation"):
            injection.release()
            injection.attempt(activation.listen, injection, root)
        for injection in self._waiting("gradient"):
            if not (injection.into.reduced or injection.listens):
                injection.attempt(gradient.listen, injection, root)
        for injection in self._waiting("batch"):
            args, kwargs = injection.attempt(batch.change, injection, args, kwargs) or (args, kwargs)
        return args, kwargs

    def _begin(self) -> None:
        """Begin the step for the injections that have not begun it."""
        begun = []
        for injection in self._injections:
            if injection.into.held:
                injection.release()  # of an update that was left out
            elif not injection.open:
                injection.begin()
                begun.append(injection)
        if taps := [injection for injection in begun if injection.into.kind == "collective"]:
            collectives.listen(taps)

    def result(self, result: Any) -> Any:
        """The forward has returned; give the result that the job is to get."""
        for injection in self._waiting("loss"):
            changed = injection.attempt(loss.in_result, injection, result)
            result = result if changed is None else changed
        for injection in self._waiting("activation"):
            injection.release()
        self._tidy()
        return result

    def backward(self, start: Any) -> None:
        """A backward pass is about to begin, from that tensor if there is one. Not every job calls a module before."""
        self._begin()
        for injection in self._waiting("loss"):
            if start is not None:
                injection.attempt(loss.at_backward, injection, start, self._observer.unscaled(start))

    def backward_ended(self) -> None:
        """A backward pass has ended. After the last one of a step the gradients of the ranks have been reduced."""
        self._passes += 1
        if self._was_last():
            self._reduced()
        self._tidy()

    def _was_last(self) -> bool:
        """Whether it was the last of the step: by the count of the step before. In a first step, by whether it reduced
        the gradients."""
        if self._passes_before:
            return self._passes == self._passes_before
        return all(
            getattr(root, "require_backward_grad_sync", True) for root in self._observer.training.living("root")
        )

    def _reduced(self) -> None:
        for injection in self._waiting("gradient"):
            if injection.into.reduced:
                observer = self._observer
                named = named_parameters(observer.training.living("optimizer"), observer.training.living("root"))
                injection.attempt(gradient.reduced, injection, named)

    def step_ends(self) -> None:
        """An update is about to be taken: an injection that was not made in this step is refused."""
        self._reduced()
        for injection in self._injections:
            if injection.open:
                injection.end()
                injection.release()
        self._passes, self._passes_before = 0, self._observer.passes
        self._forget()

    def update(self) -> None:
        """An update is about to be taken, and the step is recorded: change the state that lives between steps."""
        observer = self._observer
        living = (
            observer.training.living("optimizer"),
            observer.training.living("root"),
            observer.training.living("scaler"),
        )
        for injection in self._injections:
            if injection.into.held:
                injection.release()
                if not injection.over:
                    injection.begin()
                    injection.attempt(between_steps.change, injection, *living)
                    injection.end()
        self._forget()

    def _tidy(self) -> None:
        """Remove the hooks of injections that were made."""
        for injection in self._injections:
            if injection.done and not injection.into.held:
                injection.release()

    def _forget(self) -> None:
        self._injections = [each for each in self._injections if not each.over or each.listens]
        if not self._injections:
            self._session.injector = None
