"""Why a cluster does not take a fault, or does not inject it: one sentence each, with the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chaoskit.environments.kubernetes.api_kinds import ApiKind
from chaoskit.environments.kubernetes.chaos.chaos_spec import ChaosSpec
from chaoskit.environments.kubernetes.chaos.fault_state import FaultState
from chaoskit.environments.kubernetes.cluster_error import ClusterError

#: Shows the pods of Chaos Mesh.
LIST_PODS = "kubectl get pods --namespace chaos-mesh"
_LOOK = f"check that its pods run: {LIST_PODS}"


class FaultNotInjected(ClusterError):
    """Chaos Mesh has not made a fault. The object is removed again, unless `left` says that it may still be there."""

    def __init__(self, sentence: str, *, remedy: str, left: str = "") -> None:
        super().__init__(sentence, remedy=remedy + (f"; {left}" if left else ""))
        self.left = left


@contextmanager
def without_target() -> Iterator[None]:
    """If a fault is not injected, and nothing of it is left, it had no target: LookupError."""
    try:
        yield
    except FaultNotInjected as error:
        if error.left:
            raise
        raise LookupError(str(error)) from error


def of_creation(error: ClusterError, kind: ApiKind) -> ClusterError:
    """The error of a request that was to make a fault, in words that suit Chaos Mesh."""
    sentence, remedy = error.sentence, error.remedy
    if error.status == 404 and "namespaces" not in sentence:
        sentence = f"{sentence}: this cluster does not serve {kind.kind} {kind.api_version}"
        remedy = "install Chaos Mesh 2.x (https://chaos-mesh.org/docs); `chaoskit kubernetes check` shows what is there"
    elif "unknown field" in sentence or error.status == 422:
        remedy = f"its definition of {kind.kind} is of another version: update Chaos Mesh to 2.8 or newer"
    elif "failed calling webhook" in sentence:
        remedy = f"the controller of Chaos Mesh is down, so no fault can be made or changed: {_LOOK}"
    elif "denied the request" in sentence:
        remedy = "a webhook of the cluster does not admit this fault: change what it names, or its rules"
    else:
        return error
    return ClusterError(
        sentence, status=error.status, reason=error.reason, remedy=remedy, rule=error.rule, passing=error.passing,
        retry_after=error.retry_after,
    )  # fmt: skip


def of_injection(spec: ChaosSpec, name: str, state: FaultState | None, limit: float, left: str) -> FaultNotInjected:
    """Why a fault is not injected after `limit` seconds, as far as its last state tells."""
    what = f"{spec.kind.kind} {name} was not injected within {limit:g} s"
    if state is None:
        sentence, remedy = f"{spec.kind.kind} {name} was removed by somebody before it was injected", "run this again"
    elif not state.is_taken_up:
        sentence = f"{what}: the controller of Chaos Mesh has not looked at it"
        remedy = f"it is down, or does not watch this namespace (clusterScoped, targetNamespace): {_LOOK}"
    elif not state.has_targets:
        sentence = f"{what}: its selector matches no running pod"
        remedy = "is the job running, and is the namespace one in which Chaos Mesh may inject (enableFilterNamespace)?"
    elif state.desired == "Stop":
        sentence = f"{what}: its duration of {spec.seconds:g} s was over before"
        remedy = "make it longer: Chaos Mesh counts from the creation"
    elif state.complaints:
        sentence = f"{what}: {'; '.join(state.complaints)}"
        remedy = "look at the log of chaos-daemon on the machine of that pod"
    else:
        waiting = sorted({one.pod for one in state.records if one.phase != "Injected"})
        sentence = f"{what}: {', '.join(waiting)} still wait for it"
        remedy = "look at the log of chaos-daemon on the machines of these pods"
    return FaultNotInjected(sentence, remedy=remedy, left=left)
