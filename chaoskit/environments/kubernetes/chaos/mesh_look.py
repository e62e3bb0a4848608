"""`why_not`: whether Chaos Mesh can make a kind of fault in a namespace: it is there, we may ask it, and it answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from uuid import uuid4

from chaoskit.environments.kubernetes import cluster_about, permissions
from chaoskit.environments.kubernetes.api_kinds import (
    DNS_CHAOS,
    IO_CHAOS,
    NETWORK_CHAOS,
    STRESS_CHAOS,
    TIME_CHAOS,
    ApiKind,
)
from chaoskit.environments.kubernetes.chaos import io_specs, network_specs, pod_specs
from chaoskit.environments.kubernetes.chaos.aim import Aim
from chaoskit.environments.kubernetes.chaos.chaos_fault import ChaosFault
from chaoskit.environments.kubernetes.chaos.chaos_spec import ChaosSpec
from chaoskit.environments.kubernetes.chaos.refusals import LIST_PODS
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.environments.machine import scratch

#: Seconds within which a controller that works looks at a new fault.
TAKEN_UP = 20.0
_INSTALL = "install Chaos Mesh 2.x (https://chaos-mesh.org/docs)"
#: A fault of each kind that runs make, for pods that are not there.
_HARMLESS: dict[ApiKind, Callable[[Aim], ChaosSpec]] = {
    NETWORK_CHAOS: lambda aim: network_specs.delay(aim=aim, latency=0.001, seconds=30.0),
    IO_CHAOS: lambda aim: io_specs.io_latency(aim=aim, volume="/nowhere", delay=0.001, seconds=30.0),
    DNS_CHAOS: lambda aim: pod_specs.wrong_names(aim=aim, patterns=["nobody.invalid"], seconds=30.0),
    STRESS_CHAOS: lambda aim: pod_specs.stress(aim=aim, cpu_workers=1, seconds=30.0),
    TIME_CHAOS: lambda aim: pod_specs.clock_offset(aim=aim, offset=0.001, seconds=30.0),
}


@cache
def why_not(connection: ClusterConnection, namespace: str, kind: ApiKind) -> str | None:
    """None if faults of this kind can be made there, else the reason and the remedy; looked at once in a process.
    Raises ClusterError if the API server fails."""
    if kind not in cluster_about.ask(connection).kinds:
        return f"it needs {kind.kind} of Chaos Mesh, which this cluster does not have: {_INSTALL}"
    rules = permissions.for_chaos([kind])
    if lacking := [one for rule in rules for one in permissions.missing(connection, namespace, rule)]:
        return (
            f"it needs Chaos Mesh, and permissions are missing in namespace {namespace}: add to a Role of the "
            f"namespace: {', '.join(map(str, lacking))}"
        )
    return _idle(connection, namespace, kind)


@cache
def _idle(connection: ClusterConnection, namespace: str, kind: ApiKind) -> str | None:
    """Why the controller does nothing; None if it looks at a fault that matches no pod."""
    run_id = f"mesh-{os.getpid()}-{uuid4().hex[:8]}"
    try:
        run = RunObjects(connection, namespace=namespace, run_id=run_id, run_dir=scratch.make(run_id))
        try:
            return _idle_in(run, connection, kind)
        finally:
            run.close(limit=TAKEN_UP)
    finally:
        scratch.remove(run_id)


def _idle_in(run: RunObjects, connection: ClusterConnection, kind: ApiKind) -> str | None:
    aim = Aim(RunSelector(run.identity, "nobody"), "one")
    name = f"look-{run.identity.uid.lower()[:8]}"
    try:
        fault = ChaosFault.request(run, connection, _HARMLESS[kind](aim), name)
    except ClusterError as error:
        if "webhook" not in error.sentence and error.status not in (404, 422):
            raise
        return f"it needs Chaos Mesh, which takes no {kind.kind}: {error.sentence}: {error.remedy}"
    if not fault.is_looked_at(limit=TAKEN_UP):
        return (
            f"it needs Chaos Mesh, whose controller has not looked at a new {kind.kind} within {TAKEN_UP:g} s: it "
            f"is down, or does not watch this namespace (clusterScoped, targetNamespace): {LIST_PODS}"
        )
    fault.end(limit=TAKEN_UP)
    return None
