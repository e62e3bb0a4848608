"""What there is of Chaos Mesh: its version, its controller, and definitions that have the fields of our faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chaoskit.environments.kubernetes.admission_check import RUN, refusal
from chaoskit.environments.kubernetes.api_kinds import CHAOS_FAULTS, NETWORK_CHAOS
from chaoskit.environments.kubernetes.chaos import io_specs, network_specs, pod_specs
from chaoskit.environments.kubernetes.chaos.aim import Aim
from chaoskit.environments.kubernetes.chaos.chaos_fault import ChaosFault
from chaoskit.environments.kubernetes.chaos.chaos_spec import ChaosSpec
from chaoskit.environments.kubernetes.chaos.mesh_look import TAKEN_UP
from chaoskit.environments.kubernetes.chaos.refusals import LIST_PODS, of_creation
from chaoskit.environments.kubernetes.cluster_about import ClusterAbout
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.cluster_finding import ClusterFinding
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.dry_run import as_stored
from chaoskit.environments.kubernetes.objects import RunObjects, owned
from chaoskit.environments.kubernetes.selectors import RunIdentity, RunSelector

CONTROLLER = "controller of Chaos Mesh"
_DEPLOYMENT = "/apis/apps/v1/namespaces/chaos-mesh/deployments/chaos-controller-manager"


def examine(connection: ClusterConnection, namespace: str, about: ClusterAbout) -> Iterator[ClusterFinding]:
    """What can be seen without making anything. Raises ClusterError."""
    deployment = _deployment(connection) if about.chaos_versions else None
    yield _installed(about, deployment)
    if not about.chaos_kinds:
        return
    controller = _controller(deployment)
    is_down = controller is not None and not controller.good
    for found in _definitions(connection, namespace, about):
        if found.what == CONTROLLER and not is_down:
            controller = found
        elif found.what != CONTROLLER:
            yield found
    if controller is not None:
        yield controller


def takes_up(run: RunObjects, connection: ClusterConnection, *, limit: float = TAKEN_UP) -> ClusterFinding:
    """Whether the controller works: make a fault that matches no pod, see whether the controller looks at it, and
    remove it. Raises ClusterError."""
    nobody = Aim(RunSelector(run.identity, "nobody"), "one")
    try:
        spec = network_specs.delay(aim=nobody, latency=0.001, seconds=30.0)
        fault = ChaosFault.request(run, connection, spec, "chaoskit-check")
    except ClusterError as error:
        return ClusterFinding(CONTROLLER, error.sentence, False, error.remedy, needed=False)
    try:
        works = fault.is_looked_at(limit=limit)
    finally:
        fault.end(limit=limit)
    if works:
        return ClusterFinding(CONTROLLER, "works: it has looked at a fault that matches no pod")
    remedy = (
        f"it is paused or overloaded, or does not watch this namespace (clusterScoped, targetNamespace): {LIST_PODS}"
    )
    said = f"has not looked at a new fault within {limit:g} s"
    return ClusterFinding(CONTROLLER, said, False, remedy, needed=False)


def one_of_each(identity: RunIdentity) -> tuple[ChaosSpec, ...]:
    """A fault of each kind that runs make, with the fields that we use."""
    aim, target = Aim(RunSelector(identity, "node", 0)), Aim(RunSelector(identity, "node", 1))
    return (
        network_specs.partition(aim=aim, target=target, seconds=30.0),
        network_specs.poor_link(aim=aim, target=target, latency=0.1, rate=10**6, corrupt=1.0, seconds=30.0),
        network_specs.loss(aim=aim, target=target, percent=10.0, seconds=30.0),
        io_specs.io_fault(aim=aim, volume="/mnt", error="EIO", path="/mnt/**", methods=["write"], seconds=30.0),
        pod_specs.stress(aim=aim, memory_workers=1, memory=2**20, seconds=30.0),
        pod_specs.clock_offset(aim=aim, offset=-60.0, seconds=30.0),
        pod_specs.wrong_names(aim=aim, patterns=["minio.*"], seconds=30.0),
    )


def _installed(about: ClusterAbout, deployment: Mapping[str, Any] | None) -> ClusterFinding:
    wanted = NETWORK_CHAOS.version
    if not about.chaos_versions:
        remedy = "install it for faults of network, storage, clock and memory (https://chaos-mesh.org/docs)"
        return ClusterFinding("Chaos Mesh", "not installed", False, remedy, needed=False)
    served = ", ".join(about.chaos_versions)
    if wanted not in about.chaos_versions:
        remedy = f"install Chaos Mesh 2.x, which serves {wanted}"
        return ClusterFinding("Chaos Mesh", f"serves {served} only", False, remedy, needed=False)
    there = [kind.kind for kind in about.chaos_kinds]
    lacking = [kind.kind for kind in CHAOS_FAULTS if kind not in about.chaos_kinds]
    release = f"release {found}, " if (found := _release(deployment)) else ""
    said = f"{release}serves {served}: {', '.join(there) or 'no kind that chaoskit knows'}"
    remedy = f"install the missing kinds of Chaos Mesh: {', '.join(lacking)}"
    return ClusterFinding("Chaos Mesh", said, not lacking, remedy, needed=False)


def _deployment(connection: ClusterConnection) -> Mapping[str, Any] | None:
    """That of the controller where it usually is; None if it is elsewhere, or this user may not see it."""
    try:
        return connection.read(_DEPLOYMENT, what="look at the controller of Chaos Mesh")
    except ClusterError as error:
        if error.status not in (403, 404):
            raise
        return None


def _release(deployment: Mapping[str, Any] | None) -> str:
    if deployment is None:
        return ""
    containers = (((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}).get("containers") or ()
    image = str((containers[0] if containers else {}).get("image") or "")
    return image.rpartition("/")[2].partition("@")[0].partition(":")[2]


def _controller(deployment: Mapping[str, Any] | None) -> ClusterFinding | None:
    """As its deployment says; None if nobody knows."""
    if deployment is None:
        return None
    wanted = (deployment.get("spec") or {}).get("replicas", 1)
    ready = (deployment.get("status") or {}).get("readyReplicas") or 0
    if wanted == 0:
        remedy = "kubectl scale deployment chaos-controller-manager --namespace chaos-mesh --replicas 3"
        return ClusterFinding(CONTROLLER, "paused: its deployment is scaled to 0", False, remedy, needed=False)
    found = f"{ready} of {wanted} replicas are ready"
    return ClusterFinding(CONTROLLER, found, ready > 0, f"it is down: {LIST_PODS}", needed=False)


def _definitions(
    connection: ClusterConnection, namespace: str, about: ClusterAbout
) -> Iterator[ClusterFinding]:
    """What the server says to a fault of each kind that is there."""
    identity = RunIdentity(namespace, RUN, "uid-of-the-owner")
    bad: dict[str, ClusterFinding] = {}
    asked: list[str] = []
    for number, spec in enumerate(one_of_each(identity)):
        if spec.kind not in about.chaos_kinds:
            continue
        manifest = owned(spec.manifest(f"chaoskit-check-{number}"), identity, role=f"chaoskit-check-{number}")
        kind = spec.kind.kind
        try:
            as_stored(connection, namespace, spec.kind, manifest)
        except ClusterError as refused:
            error = of_creation(refused, spec.kind)
            if "failed calling webhook" in error.sentence:
                yield ClusterFinding(CONTROLLER, f"down: {error.sentence}", False, error.remedy, needed=False)
                return
            if (found := refusal(error, spec.kind, needed=False)) is None:
                continue
            bad.setdefault(kind, found)
        asked.append(kind)
    yield from bad.values()
    if good := [kind for kind in dict.fromkeys(asked) if kind not in bad]:
        yield ClusterFinding("admission of faults", f"the server would accept {', '.join(good)}", needed=False)
