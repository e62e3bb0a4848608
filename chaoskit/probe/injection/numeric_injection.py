"""`NumericInjection`: one order to make numbers wrong, and how far it has come in the step that runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

from chaoskit.probe.injection.changes import AlteredTensor, InjectionRefused, alter
from chaoskit.protocol.fingerprint import local_part
from chaoskit.protocol.targets import InjectionTarget, matching, near

if TYPE_CHECKING:
    from chaoskit.probe.gate import GateClient
    from chaoskit.probe.parts import StepObserver
    from chaoskit.probe.session import ProbeSession


class NumericInjection:
    """One order to change numbers, once in each of so many `steps`. For a stale value, the step before the first stores
    the tensor.

    `open`: its step runs. `done`: nothing more is to be done in this step. `names`: the names that its pattern was
    compared with in this step. `why`: what prevented it.
    """

    def __init__(
        self, order: Mapping[str, Any], session: ProbeSession, gate: GateClient, observer: StepObserver
    ) -> None:
        self.id = int(order["id"])
        self.into = InjectionTarget.from_json(order["into"])
        self.how: Mapping[str, Any] = order["how"]
        self.elements: int | str = order.get("elements", 1)
        self.steps: int | None = order.get("steps", 1)
        self.seed = int(order.get("seed", 0))
        self.open = self.done = False
        self.names: list[str] = []
        self.why = ""
        self._session, self._gate, self._observer = session, gate, observer
        self._handles: list[Callable[[], None]] = []
        self._made = 0
        self._told = False
        self._kept: tuple[str, Any] | None = None
        gate.begin(self.id)

    @property
    def over(self) -> bool:
        """Whether it was made for the last time."""
        return self.steps == 0

    def begin(self) -> None:
        """Begin a step in which it may be made."""
        self.open, self.done, self.names, self.why = True, False, [], ""

    def end(self) -> None:
        """End the step: an injection that was not made in it is refused."""
        if not self.done:
            self.refuse(self.why or self._no_match())
        self.open = False
        if not self._is_to_keep() and self.steps is not None:
            self.steps -= 1

    def on_release(self, action: Callable[[], None]) -> None:
        """Register an action that removes a hook, for when the injection was made or cannot be made in this step."""
        self._handles.append(action)

    @property
    def listens(self) -> bool:
        """Whether a hook is in place."""
        return bool(self._handles)

    def release(self) -> None:
        """Remove the hooks."""
        handles, self._handles = self._handles, []
        for action in handles:
            self._session.guard("corrupt", action)

    def attempt(self, action: Callable[..., Any], *args: Any) -> Any:
        """Call `action`, which may refuse; then the result is None. No exception reaches the job."""
        try:
            return action(*args)
        except InjectionRefused as refused:
            self.refuse(str(refused))
        except Exception as error:
            self._session.error("corrupt", error)
            self.refuse(f"the injection failed: {type(error).__name__}: {error}"[:500])
        return None

    def choose(
        self,
        candidates: Iterable[tuple[str, Any]],
        *,
        size: Callable[[Any], int] = lambda t: int(local_part(t).numel()),
    ) -> tuple[str, Any] | None:
        """One of the tensors that the pattern matches, drawn with equal chances for each element; None if none does."""
        named = dict(candidates)
        self.names += named
        found = [(name, named[name]) for name in matching(self.into.pattern, list(named))]
        if not found:
            return None
        if self._kept is not None:
            found = [(name, tensor) for name, tensor in found if name == self._kept[0]] or found
        sizes = [size(tensor) for _, tensor in found]
        if not any(sizes):
            raise InjectionRefused(f"this rank holds no element of {', '.join(name for name, _ in found[:5])}")
        return self._random().choices(found, weights=sizes)[0]

    def draw(self, among: Sequence[Any]) -> Any:
        """One of several, with equal chances."""
        return self._random().choice(among)

    def _random(self) -> Random:
        """The same generator in every step, independent of the one that draws the elements."""
        return Random(f"{self.seed} which")

    def alter(self, tensor: Any, name: str) -> AlteredTensor | None:
        """The changed copy of the part of `tensor` that this rank holds; None if this step only stores the value.

        Raises InjectionRefused where nothing would change.
        """
        local = local_part(tensor)
        if self.how["kind"] != "stale":
            return self._altered(local, name)
        kept, self._kept = self._kept, (name, local.detach().clone())
        if kept is None:
            self.done = True
            return None
        if kept[0] != name or kept[1].shape != local.shape or kept[1].dtype != local.dtype:
            raise InjectionRefused(f"{name} is another tensor than in the step before: {kept[0]}")
        return self._altered(local, name, kept[1])

    def alter_also(self, tensor: Any, name: str) -> AlteredTensor | None:
        """The same for a further tensor; None if it would not change."""
        with suppress(InjectionRefused):
            return self.alter(tensor, name)
        return None

    def _altered(self, local: Any, name: str, old: Any = None) -> AlteredTensor:
        try:
            return alter(local, self.how, elements=self.elements, seed=self.seed, repetition=self._made, old=old)
        except InjectionRefused as refused:
            raise InjectionRefused(f"{name}: {refused}") from None

    def write(self, tensor: Any, name: str) -> None:
        """Change a tensor in place."""
        altered = self.alter(tensor, name)
        if altered is None:
            return
        import torch

        with torch.no_grad():
            local = local_part(tensor)
            local.detach().copy_(altered.tensor)
            if local.is_cuda:
                # Code that waits for the stream of a collective must not read before this.
                torch.cuda.current_stream(local.device).synchronize()
        self.record_change(altered, name, "" if local is tensor else " of this rank's part")

    def record_change(self, altered: AlteredTensor, name: str, of: str = "") -> None:
        """Record that the change was made, and tell the harness."""
        self.done = True
        self._made += 1
        if not altered.finite:
            self._observer.not_a_number = True
        session = self._session
        told = {
            "id": self.id,
            "rank": session.rank,
            "launch": session.launch,
            "restart": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
            "n": self.n,
            "component": self.into.kind,
            "where": (f"{name}[{', '.join(map(str, altered.at))}]" if altered.at else name) + of,
            "dtype": altered.dtype,
            "before": altered.before,
            "after": altered.after,
            "changed": altered.changed,
            "of": altered.of,
        }
        session.write("corrupted", **told)
        self._tell({"corrupted": told})

    @property
    def n(self) -> int:
        """The number of the current step; for state between steps, of the step whose update is about to be taken."""
        return self._observer.steps + (not self.into.held)

    def refuse(self, why: str) -> None:
        """Record that nothing was changed in this step, and why."""
        if self.done:
            return
        self.done = True
        self._session.write("refused", id=self.id, n=self.n, why=why)
        self._tell({"refused": {"id": self.id, "why": why}})

    def _tell(self, message: Mapping[str, Any]) -> None:
        """Tell the harness about the first change or refusal; the others are in the record only."""
        if not self._told:
            self._told = True
            self._gate.tell(message)
            self._gate.end(self.id)

    def _is_to_keep(self) -> bool:
        """Whether this step only stored a tensor for a stale value."""
        return self.how["kind"] == "stale" and self._made == 0 and self._kept is not None and not self._told

    def _no_match(self) -> str:
        what = self.into.phrase
        if self.names and not matching(self.into.pattern, self.names):
            return f"{what}: there is none of that name ({near(self.into.pattern, self.names)})"
        return f"the step did not use {what}"
