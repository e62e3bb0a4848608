"""`ChaosFault`: the life of one fault of Chaos Mesh, from the request to the moment when it is taken back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from chaoskit.environments.kubernetes.chaos import fault_state, refusals
from chaoskit.environments.kubernetes.chaos.chaos_spec import ChaosSpec
from chaoskit.environments.kubernetes.chaos.fault_state import FaultState
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.intents import Intent
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.removal import force, remove
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.environments.kubernetes.watching import ObjectWatch

#: Seconds that an injection may take, and a recovery; each takes a few.
INJECTION_LIMIT, RECOVERY_LIMIT = 60.0, 60.0
_LOOK_EVERY = 10.0


@dataclass(frozen=True)
class FaultEnd:
    """How a fault has ended. `recovered`: Chaos Mesh has taken it back. `forced`: it would not, so its object was
    removed without that; the `pods` keep what was done to them until they are removed, and the run proves nothing.
    `left`: not even that was possible."""

    how: Literal["recovered", "forced", "left"]
    fault: str
    pods: tuple[str, ...] = ()
    removal: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether nothing of it is left."""
        return self.how == "recovered"

    @property
    def sentences(self) -> tuple[str, ...]:
        """What somebody must know or do, in words."""
        pods = f"remove its pods ({', '.join(self.pods)})" if self.pods else "remove the pods of the job"
        if self.how == "forced":
            return (f"{self.fault} was removed by force, because Chaos Mesh did not take it back: {pods}",)
        if self.how == "left":
            why = "its controller may be down: then it refuses even to be forced"
            return (f"{self.fault} is left, and its fault may last ({why}): {pods}, then {self.removal}",)
        return ()


class ChaosFault:
    """A fault that Chaos Mesh says it injects into pods of the run. `inject` makes it."""

    def __init__(
        self, run: RunObjects, connection: ClusterConnection, spec: ChaosSpec, made: Mapping[str, Any]
    ) -> None:
        metadata = made["metadata"]
        self.spec = spec
        self.name = str(metadata["name"])
        self._uid = str(metadata["uid"])
        self._namespace = run.identity.namespace
        self._connection = connection
        # Its role is its name: no other object is watched.
        self._watch = ObjectWatch(connection, spec.kind, RunSelector(run.identity, self.name))
        self._state: FaultState | None = fault_state.read(made)
        self._last = self._state
        self.created = str(metadata.get("creationTimestamp") or "")

    def __str__(self) -> str:
        return f"{self.spec.kind.kind} {self.name}"

    @classmethod
    def request(cls, run: RunObjects, connection: ClusterConnection, spec: ChaosSpec, name: str) -> ChaosFault:
        """Make the object of a fault; `settle` waits for the injection. Raises ClusterError if the cluster does not
        take it, UsageError for a schedule, which is no fault by itself, and ForeignTarget."""
        try:
            made = run.create(spec.kind, spec.manifest(name), role=name)
        except ClusterError as error:
            raise refusals.of_creation(error, spec.kind) from error
        return cls(run, connection, spec, made)

    @classmethod
    def inject(
        cls,
        run: RunObjects,
        connection: ClusterConnection,
        spec: ChaosSpec,
        name: str,
        *,
        limit: float = INJECTION_LIMIT,
        recovery: float = RECOVERY_LIMIT,
    ) -> ChaosFault:
        """`request` and `settle`."""
        fault = cls.request(run, connection, spec, name)
        fault.settle(limit=limit, recovery=recovery)
        return fault

    def settle(self, *, limit: float = INJECTION_LIMIT, recovery: float = RECOVERY_LIMIT) -> None:
        """Wait until it is injected into every pod, or was: a short one may be over by then.

        Raises FaultNotInjected if that takes longer than `limit` seconds; the fault is then taken back, within
        `recovery` seconds. Raises ClusterError if the server fails.
        """
        try:
            there = self._wait(lambda state: state is None or state.is_injected or state.is_over, limit)
        except BaseException:
            self.end(limit=recovery)
            raise
        if there and self._state is not None:
            return
        seen = self._state
        ended = self.end(limit=recovery)
        raise refusals.of_injection(self.spec, self.name, seen, limit, " ".join(ended.sentences))

    def is_looked_at(self, *, limit: float) -> bool:
        """Whether a controller looks at it within `limit` seconds. Raises ClusterError."""
        there = self._wait(lambda state: state is None or state.is_taken_up, limit)
        return there and not self.is_gone

    @property
    def state(self) -> FaultState:
        """What Chaos Mesh said last; of a fault that is gone, what it said before."""
        assert self._last is not None
        return self._last

    @property
    def is_gone(self) -> bool:
        """Whether the object is known to be gone."""
        return self._state is None

    def pods(self) -> tuple[str, ...]:
        """The names of the pods that have it or have had it, on both sides."""
        return tuple(sorted({one.pod for one in self.state.records if one.injected or one.phase != "Not Injected"}))

    def refresh(self) -> FaultState:
        """Ask what Chaos Mesh says now. Raises ClusterError."""
        self._take(self._found())
        return self.state

    def begin_end(self) -> None:
        """Begin what `end` waits for. Raises ClusterError."""
        remove(self._connection, self.spec.kind, self._namespace, self.name, uid=self._uid)

    def end(self, *, limit: float = RECOVERY_LIMIT) -> FaultEnd:
        """Remove it, and wait until Chaos Mesh has taken it back. If it has not after `limit` seconds, remove it by
        force. Raises ClusterError if the API server fails."""
        pods = self.pods()
        if self.is_gone:
            return FaultEnd("recovered", str(self))
        self.begin_end()
        if self._wait(lambda state: state is None, limit):
            return FaultEnd("recovered", str(self))
        if force(self._connection, self.spec.kind, self._namespace, self.name):
            if self._wait(lambda state: state is None, limit):
                return FaultEnd("forced", str(self), pods)
        elif self._wait(lambda state: state is None, 1.0):  # it has just gone by itself
            return FaultEnd("recovered", str(self))
        removal = Intent(self.spec.kind.in_commands, self._namespace, self.name).removal
        return FaultEnd("left", str(self), pods, removal)

    def evidence(self) -> dict[str, Any]:
        """What Chaos Mesh says of it, as JSON. Whether the job felt it, only the job's pods can tell."""
        said = {"kind": self.spec.kind.kind, "name": self.name, "uid": self._uid, "created": self.created}
        return {**said, "action": self.spec.action, "seconds": self.spec.seconds, **self.state.evidence()}

    def _wait(self, holds: Callable[[FaultState | None], bool], limit: float) -> bool:
        """Whether it came to hold within `limit` seconds; None is the state of an object that is gone."""
        if holds(self._state):
            return True
        deadline = time.monotonic() + limit
        while (left := deadline - time.monotonic()) > 0:
            # A watch tells nothing of an object that went before it began.
            self._take(self._found())
            if holds(self._state):
                return True
            for change in self._watch.changes(limit=min(left, _LOOK_EVERY)):
                # What a watch tells may be older than what we have seen.
                if change.uid == self._uid:
                    self._take(self._found())
                    if holds(self._state):
                        return True
        self._take(self._found())
        return holds(self._state)

    def _found(self) -> Mapping[str, Any] | None:
        """The object as the server has it now; None if it is gone."""
        try:
            found = self._connection.get(ApiTarget(self.spec.kind, self._namespace, self.name))
        except ClusterError as error:
            if error.status != 404:
                raise
            return None
        return found if found["metadata"]["uid"] == self._uid else None

    def _take(self, manifest: Mapping[str, Any] | None) -> None:
        self._state = None if manifest is None else fault_state.read(manifest)
        self._last = self._state or self._last
