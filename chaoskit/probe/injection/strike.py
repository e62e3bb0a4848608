"""`Strike`: one order to make numbers wrong, and how far it has come in the step that runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

from chaoskit.fingerprint import local_part
from chaoskit.places import Place, matching, near
from chaoskit.probe.injection.changes import Altered, Refused, alter

if TYPE_CHECKING:
    from chaoskit.probe.gate import Gate
    from chaoskit.probe.observer import Observer
    from chaoskit.probe.session import Session


class Strike:
    """It strikes once in each of so many `steps`. A stale tensor is kept in the step before the first.

    `open`: its step runs. `done`: nothing more is to happen in this step. `names`: what its pattern was held against
    in this step, `why`: what stood in its way.
    """

    def __init__(self, order: Mapping[str, Any], session: Session, gate: Gate, observer: Observer) -> None:
        self.id = int(order["id"])
        self.into = Place.from_json(order["into"])
        self.how: Mapping[str, Any] = order["how"]
        self.elements: int | str = order.get("elements", 1)
        self.steps: int | None = order.get("steps", 1)
        self.seed = int(order.get("seed", 0))
        self.open = self.done = False
        self.names: list[str] = []
        self.why = ""
        self._session, self._gate, self._observer = session, gate, observer
        self._handles: list[Callable[[], None]] = []
        self._struck = 0
        self._told = False
        self._kept: tuple[str, Any] | None = None
        gate.begin(self.id)

    @property
    def over(self) -> bool:
        """Whether it has struck for the last time."""
        return self.steps == 0

    def begin(self) -> None:
        """A step begins in which it may strike."""
        self.open, self.done, self.names, self.why = True, False, [], ""

    def end(self) -> None:
        """The step is at its end: what has not happened in it does not happen."""
        if not self.done:
            self.refuse(self.why or self._no_match())
        self.open = False
        if not self._is_to_keep() and self.steps is not None:
            self.steps -= 1

    def on_release(self, action: Callable[[], None]) -> None:
        """What is to be taken back once it has struck, or cannot in this step."""
        self._handles.append(action)

    @property
    def listens(self) -> bool:
        """Whether there is something to take back."""
        return bool(self._handles)

    def release(self) -> None:
        """Take it back."""
        handles, self._handles = self._handles, []
        for action in handles:
            self._session.guard("corrupt", action)

    def attempt(self, action: Callable[..., Any], *args: Any) -> Any:
        """Call `action`, which may refuse; None where it did. Nothing of it reaches the job."""
        try:
            return action(*args)
        except Refused as refused:
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
        """One of the tensors that the pattern matches, drawn so that each element is as likely; None: none matches."""
        named = dict(candidates)
        self.names += named
        found = [(name, named[name]) for name in matching(self.into.pattern, list(named))]
        if not found:
            return None
        if self._kept is not None:
            found = [(name, tensor) for name, tensor in found if name == self._kept[0]] or found
        sizes = [size(tensor) for _, tensor in found]
        if not any(sizes):
            raise Refused(f"this rank holds no element of {', '.join(name for name, _ in found[:5])}")
        return self._random().choices(found, weights=sizes)[0]

    def draw(self, among: Sequence[Any]) -> Any:
        """One of several, each as likely."""
        return self._random().choice(among)

    def _random(self) -> Random:
        """The same in every step, and not that which draws the elements: each of a tensor is to be as likely."""
        return Random(f"{self.seed} which")

    def alter(self, tensor: Any, name: str) -> Altered | None:
        """What is to be in the place of the part of `tensor` that this rank holds. None: it was but kept, for the next
        step. Raises Refused where there would be no change."""
        local = local_part(tensor)
        if self.how["kind"] != "stale":
            return self._altered(local, name)
        kept, self._kept = self._kept, (name, local.detach().clone())
        if kept is None:
            self.done = True
            return None
        if kept[0] != name or kept[1].shape != local.shape or kept[1].dtype != local.dtype:
            raise Refused(f"{name} is not what was there in the step before: {kept[0]}")
        return self._altered(local, name, kept[1])

    def alter_also(self, tensor: Any, name: str) -> Altered | None:
        """The same of a further tensor, which need not be one that would change: another has."""
        with suppress(Refused):
            return self.alter(tensor, name)
        return None

    def _altered(self, local: Any, name: str, old: Any = None) -> Altered:
        try:
            return alter(local, self.how, elements=self.elements, seed=self.seed, strike=self._struck, old=old)
        except Refused as refused:
            raise Refused(f"{name}: {refused}") from None

    def write(self, tensor: Any, name: str) -> None:
        """Put the change into a tensor, in place."""
        altered = self.alter(tensor, name)
        if altered is None:
            return
        import torch

        with torch.no_grad():
            local = local_part(tensor)
            local.detach().copy_(altered.tensor)
            if local.is_cuda:
                # Whoever waits for the stream of a collective must not read before this.
                torch.cuda.current_stream(local.device).synchronize()
        self.struck(altered, name, "" if local is tensor else " of this rank's part")

    def struck(self, altered: Altered, name: str, of: str = "") -> None:
        """Tell that the change is in its place."""
        self.done = True
        self._struck += 1
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
        """The number of the step that runs; of what is struck between steps, of the one whose update is about to be
        taken."""
        return self._observer.steps + (not self.into.held)

    def refuse(self, why: str) -> None:
        """Tell that nothing was changed in this step, and why."""
        if self.done:
            return
        self.done = True
        self._session.write("refused", id=self.id, n=self.n, why=why)
        self._tell({"refused": {"id": self.id, "why": why}})

    def _tell(self, message: Mapping[str, Any]) -> None:
        """The first strike, or that it failed, is news; the others are in the record."""
        if not self._told:
            self._told = True
            self._gate.tell(message)
            self._gate.end(self.id)

    def _is_to_keep(self) -> bool:
        """Whether this step was only there to keep a tensor."""
        return self.how["kind"] == "stale" and self._struck == 0 and self._kept is not None and not self._told

    def _no_match(self) -> str:
        what = self.into.phrase
        if self.names and not matching(self.into.pattern, self.names):
            return f"{what}: there is none of that name ({near(self.into.pattern, self.names)})"
        return f"the step did not come by {what}"
