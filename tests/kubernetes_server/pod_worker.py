"""`PodWorker`: the life of one pod on its node, from its volumes to its end. It has a thread of its own."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kubernetes_server.container_runs import LOOKS, ContainerRuns, Runtime, name_of
from tests.kubernetes_server.containers import Containers, Ended, Sandbox
from tests.kubernetes_server.control_plane import ControlPlane
from tests.kubernetes_server.lifecycle import now
from tests.kubernetes_server.names import DOMAIN, Names
from tests.kubernetes_server.pod_status import ENDED, INITIALIZING, ContainerRecord, conditions, phase_of
from tests.kubernetes_server.pod_values import Missing, PodValues
from tests.kubernetes_server.service_accounts import ServiceAccounts
from tests.kubernetes_server.volumes import PodVolumes

Json = dict[str, Any]
DEADLINE = "Pod was active on the node longer than the specified deadline"


@dataclass(frozen=True)
class Node:
    """What a pod finds on its node: where its files are, its claims by their names, and whom it asks for `names`.
    Without a `dns`, it has the names for good that it has as it starts."""

    runtime: Runtime
    directory: Path
    claims: Callable[[Json, str], Path]
    names: Names
    dns: str | None
    accounts: ServiceAccounts

    @property
    def containers(self) -> Containers:
        return self.runtime.containers

    @property
    def plane(self) -> ControlPlane:
        return self.runtime.plane


class _Stop(Exception):
    """The pod is to end; `reason` is empty where it is deleted."""

    def __init__(self, reason: str = "", message: str = "") -> None:
        super().__init__(reason)
        self.reason, self.message = reason, message


class PodWorker:
    """One pod. `look` tells it that its object has changed or gone, `close` that the kubelet stops."""

    def __init__(self, pod: Json, node: Node) -> None:
        self.uid = str(pod["metadata"]["uid"])
        self._pod, self._node = pod, node
        spec = pod["spec"]
        self.main = [ContainerRecord(one) for one in spec["containers"]]
        self.initial = [ContainerRecord(one) for one in spec.get("initContainers") or ()]
        if self.initial:
            for record in self.main:
                record.state = dict(INITIALIZING)
        self._directory = node.directory / self.uid
        self._directory.mkdir(parents=True, exist_ok=True)
        self._access = node.accounts.of(pod)
        self._volumes = PodVolumes(
            pod, directory=self._directory, containers=node.containers, claims=lambda claim: node.claims(pod, claim)
        )
        self._sandbox: Sandbox | None = None
        self._news: queue.SimpleQueue[Ended | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._began, self._start_time = time.monotonic(), now()
        self.thread = threading.Thread(target=self._run, name=f"kubelet-{pod['metadata']['name']}", daemon=True)
        self.errors: list[Exception] = []

    def look(self) -> None:
        self._news.put(None)

    def close(self) -> None:
        self._closed.set()
        self._news.put(None)

    def record(self, container: str) -> ContainerRecord:
        """What is known of a container. Raises KeyError."""
        return {one.name: one for one in (*self.initial, *self.main)}[container]

    def log(self, container: str, *, previous: bool = False) -> Path:
        """The file of a container's output."""
        return self._directory / f"{container}.{self.record(container).attempt - previous}.log"

    def _run(self) -> None:
        try:
            self._live()
        except Exception as error:
            if not self._closed.is_set():
                self.errors.append(error)

    def _live(self) -> None:
        stop = None
        try:
            self._prepare()
            if self._run_initial():
                self._run_all(self.main, self._pod["spec"]["restartPolicy"])
        except _Stop as why:
            stop = why
            self._terminate(stop)
        if self._closed.is_set():
            return
        self._report(over=True, why=stop)
        self._clean()
        current = self._node.plane.current(self._pod, "pods")
        if current is not None and "deletionTimestamp" in current["metadata"]:
            self._node.plane.delete("pods", self._pod, grace=0)

    def _prepare(self) -> None:
        """Make what all containers need: volumes, and the sandbox."""
        said = ""
        while True:
            self._check()
            try:
                self._volumes.prepare(self._values(""))
                break
            except Missing as error:
                if said != str(error):
                    said = str(error)
                    self._event("FailedMount", said, warning=True)
                    self._report()
                self._next(LOOKS)
        metadata, spec = self._pod["metadata"], self._pod["spec"]
        hosts = {name: one["ip"] for one in spec.get("hostAliases") or () for name in one.get("hostnames") or ()}
        self._sandbox = self._node.containers.sandbox(
            self.uid, name_of(self._pod, "POD", 0), hostname=(spec.get("hostname") or metadata["name"])[:63],
            aliases=[] if self._node.dns else self._node.names.aliases(self._pod), dns=self._node.dns,
            search=[f"{metadata['namespace']}.{DOMAIN}", DOMAIN, DOMAIN.removeprefix("svc.")],
            hosts=hosts, mounts=self._volumes.memory_mounts(),
        )  # fmt: skip
        self._report()

    def _run_initial(self) -> bool:
        """Run the containers that come first, one by one; whether the others may start."""
        policy = "Never" if self._pod["spec"]["restartPolicy"] == "Never" else "OnFailure"
        return all(self._run_all([record], policy) for record in self.initial)

    def _run_all(self, records: Sequence[ContainerRecord], policy: str) -> bool:
        """Run containers until none of them runs or restarts; whether all ended well."""
        sandbox = self._sandbox
        assert sandbox is not None
        values = self._values(sandbox.address)
        own = [self._access.mount] if self._access is not None else []

        def mounts(container: Json, env: Mapping[str, str]) -> list[Json]:
            return [*self._volumes.mounts(container, env), *own]

        runs = ContainerRuns(self._node.runtime, sandbox, values, mounts=mounts, news=self._news.put, log=self.log,
                             policy=policy)  # fmt: skip
        for record in records:
            runs.start(record)
        while any(one.runs or one.name in runs.due for one in records):
            self._report()
            ended = self._next(runs.next_due())
            for record in records:
                if ended is not None and record.id == ended.container and record.runs:
                    runs.ended(record, ended)
                if runs.is_due(record):
                    runs.start(record)
        return all(one.code == 0 for one in records)

    def _terminate(self, stop: _Stop) -> None:
        """Ask what runs to end, and kill it when its time is over."""
        running = [] if self._closed.is_set() else [one for one in (*self.initial, *self.main) if one.runs]
        for record in running:
            self._event("Killing", f"Stopping container {record.name}")
            self._node.containers.kill(record.id, "" if self._grace(stop) else "SIGKILL")
        begun, killed = time.monotonic(), not self._grace(stop)
        while running and not self._closed.is_set():
            left = begun + self._grace(stop) - time.monotonic()
            if left <= 0 and not killed:
                killed = True
                for record in running:
                    self._node.containers.kill(record.id, "SIGKILL")
            ended = self._news_within(None if killed else left)
            for record in [one for one in running if ended is not None and one.id == ended.container]:
                assert ended is not None
                record.end(ended)
                running.remove(record)

    def _grace(self, stop: _Stop) -> float:
        """Seconds from its beginning that an end may take: as many as the object says now, none where it is gone."""
        current = self._node.plane.current(self._pod, "pods")
        if current is None:
            return 0.0
        if stop.reason:
            return float(current["spec"]["terminationGracePeriodSeconds"])
        return float(current["metadata"].get("deletionGracePeriodSeconds", 0))

    def _clean(self) -> None:
        for record in (*self.initial, *self.main):
            if record.id:
                self._node.containers.remove(record.id)
        if self._sandbox is not None:
            self._node.containers.remove(self._sandbox.id)
        self._volumes.remove()

    def _next(self, timeout: float | None) -> Ended | None:
        """Wait for a container to end, or for a while; raises _Stop as soon as the pod is to end."""
        self._check()
        deadline = self._deadline()
        waits = [one for one in (timeout, deadline) if one is not None]
        ended = self._news_within(max(0.0, min(waits)) if waits else None)
        if ended is None:
            self._check()
        return ended

    def _news_within(self, timeout: float | None) -> Ended | None:
        try:
            return self._news.get(timeout=timeout)
        except queue.Empty:
            return None

    def _deadline(self) -> float | None:
        """Seconds that the pod may still be active."""
        longest = self._pod["spec"].get("activeDeadlineSeconds")
        return None if longest is None else self._began + longest - time.monotonic()

    def _check(self) -> None:
        current = self._node.plane.current(self._pod, "pods")
        if self._closed.is_set() or current is None or "deletionTimestamp" in current["metadata"]:
            raise _Stop()
        self._pod = current
        deadline = self._deadline()
        if deadline is not None and deadline <= 0:
            self._event("DeadlineExceeded", DEADLINE)
            raise _Stop("DeadlineExceeded", DEADLINE)

    def _report(self, *, over: bool = False, why: _Stop | None = None) -> None:
        """Write the status of the pod, where it has changed."""
        current = self._node.plane.current(self._pod, "pods")
        if current is None:
            return
        before = current.get("status") or {}
        failed = why is not None and why.reason
        phase = "Failed" if failed else phase_of(self.main, self.initial, over=over)
        if before.get("phase") in ENDED:
            return
        status: Json = {
            "phase": phase, "hostIP": self._node.containers.gateway, "startTime": self._start_time,
            "conditions": conditions(before.get("conditions") or (), self.main, self.initial, phase=phase,
                                     sandbox=self._sandbox is not None and not over, time=now()),
            "containerStatuses": [one.status() for one in self.main],
        }  # fmt: skip
        if self.initial:
            status["initContainerStatuses"] = [one.status(initial=True) for one in self.initial]
        if self._sandbox is not None:
            status |= {"podIP": self._sandbox.address, "podIPs": [{"ip": self._sandbox.address}]}
        if why is not None and failed:
            status |= {"reason": why.reason, "message": why.message}
        self._node.plane.patch("pods", self._pod, {"status": status}, status=True)

    def _values(self, address: str) -> PodValues:
        given = self._access.variables if self._access is not None else {}
        return PodValues(self._pod, address, self._node.containers.gateway, self._node.plane, given)

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self._node.plane.event(self._pod, reason, message, warning=warning)
