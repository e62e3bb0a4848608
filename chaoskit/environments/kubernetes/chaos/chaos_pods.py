"""`ChaosPods`: what the faults of Chaos Mesh need of an environment; and several of these faults at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from chaoskit.environments.kubernetes.chaos.chaos_fault import (
    INJECTION_LIMIT,
    RECOVERY_LIMIT,
    ChaosFault,
    FaultEnd,
)
from chaoskit.environments.kubernetes.chaos.chaos_spec import ChaosSpec
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.guards import LONGEST_FAULT
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.errors import ChaoskitError


class ChaosPods(Protocol):
    """The pods of a run, one for each node, by the names of the nodes."""

    @property
    def objects(self) -> RunObjects:
        """The objects of the run."""
        ...

    @property
    def connection(self) -> ClusterConnection:
        """The connection to its cluster."""
        ...

    @property
    def container(self) -> str:
        """The name of the container in which the job runs, in each pod."""
        ...

    def nodes(self) -> tuple[str, ...]:
        """The nodes that are up, in order."""
        ...

    def selector(self, node: str) -> RunSelector:
        """Selects the pod of a node, and no other of the run: by its number, and by a role that helpers have not."""
        ...

    def address(self, node: str) -> str:
        """The IP of the pod that a node has now. Raises LookupError if it has none."""
        ...

    def names(self, node: str) -> Sequence[str]:
        """The names by which other pods look this node up, as the job writes them."""
        ...

    def end_of(self, node: str) -> str:
        """How the container of a node's pod has ended, as the cluster says; "" while it does not."""
        ...

    def ask(self, node: str, request: str, **given: Any) -> Any:
        """Ask the agent in the pod of a node: `network_felt` and `round_trips` (see
        `chaoskit.environments.machine.tcp_retransmissions`), `listen`, `ping`, `heard`, `resolves`,
        `error_of_write`, `resources`, `processor_use`, `entered`, `kill_first`. Raises ChaoskitError if the pod is gone
        or cannot do it."""
        ...


@dataclass(frozen=True)
class ChaosLimits:
    """Seconds: each fault lasts `longest` at most, also if chaoskit dies; Chaos Mesh may take as long as `injection` to
    make it, and `recovery` to take it back."""

    longest: float = LONGEST_FAULT
    injection: float = INJECTION_LIMIT
    recovery: float = RECOVERY_LIMIT


USUAL = ChaosLimits()


class ChaosFaults:
    """The faults of one run, in numbered groups that begin and end together."""

    def __init__(self, pods: ChaosPods, limits: ChaosLimits) -> None:
        self._pods, self._limits = pods, limits
        self._groups: dict[int, dict[Any, ChaosFault]] = {}
        self._made = self._named = 0
        #: Those that Chaos Mesh did not take back: the run proves nothing.
        self.unclean: list[FaultEnd] = []

    def begin(self, word: str, specs: Mapping[Any, ChaosSpec]) -> int:
        """Inject all of them; returns the number of the group. If one fails, all are taken back. Raises ClusterError,
        FaultNotInjected."""
        self._made += 1
        number = self._made
        self._groups[number] = {}
        try:
            self._inject(number, word, specs)
        except BaseException:
            with suppress(ChaoskitError):  # the first error is the one to tell; `unclean` has this one
                self.end(number)
            raise
        return number

    def renew(self, number: int, word: str, specs: Mapping[Any, ChaosSpec]) -> None:
        """Take these faults of a group back, and make them again: their pods were chosen once, and there are others by
        now. Raises ChaoskitError."""
        group = self._groups[number]
        self._take_back([group.pop(key) for key in specs if key in group])
        self._inject(number, word, specs)

    def _inject(self, number: int, word: str, specs: Mapping[Any, ChaosSpec]) -> None:
        group = self._groups[number]
        unique = self._pods.objects.identity.uid.lower()[:8]
        for key, spec in specs.items():
            self._named += 1
            name = f"{word}-{unique}-{number}-{self._named}"
            group[key] = ChaosFault.request(self._pods.objects, self._pods.connection, spec, name)
        for key in specs:
            group[key].settle(limit=self._limits.injection, recovery=self._limits.recovery)

    def of(self, number: int) -> Mapping[Any, ChaosFault]:
        """The faults of a group; none for an unknown number."""
        return self._groups.get(number, {})

    def claims(self) -> list[dict[str, Any]]:
        """What Chaos Mesh says now of each fault that is there. Raises ClusterError."""
        return [claim for number in self._groups for claim in self.evidence(number)]

    def evidence(self, number: int) -> list[dict[str, Any]]:
        """What Chaos Mesh says of each now. Raises ClusterError."""
        for fault in self.of(number).values():
            fault.refresh()
        return [fault.evidence() for fault in self.of(number).values()]

    def begin_end(self, number: int) -> None:
        """Ask for what `end` waits for. An unknown number is no error. Raises ClusterError."""
        for fault in self.of(number).values():
            fault.begin_end()

    def end(self, number: int) -> None:
        """Take a group back. An unknown number is no error. Raises ChaoskitError with what somebody must do if Chaos
        Mesh did not take one back."""
        self._take_back(list(self._groups.get(number, {}).values()))
        self._groups.pop(number, None)

    def close(self) -> None:
        """Take everything back that is left. Raises as `end` does."""
        self._take_back([fault for group in self._groups.values() for fault in group.values()])
        self._groups.clear()

    def _take_back(self, faults: Sequence[ChaosFault]) -> None:
        for fault in faults:
            fault.begin_end()
        unclean = [end for end in [fault.end(limit=self._limits.recovery) for fault in faults] if not end.is_clean]
        self.unclean += unclean
        if unclean:
            raise ChaoskitError("; ".join(sentence for end in unclean for sentence in end.sentences))
