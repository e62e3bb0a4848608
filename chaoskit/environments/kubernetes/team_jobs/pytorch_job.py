"""`PyTorchJob`: a job of the training operator, whose pods a Master and Workers are, or Workers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from chaoskit.environments.kubernetes.api_kinds import PYTORCH_JOBS, ApiKind
from chaoskit.environments.kubernetes.selectors import REPLICA_INDEX, REPLICA_TYPE, RunIdentity, RunSelector
from chaoskit.environments.kubernetes.team_jobs.pod_shape import missing_mapping, names_out
from chaoskit.environments.kubernetes.team_jobs.team_job import (
    JOB,
    SERVICE,
    SUSPENDED,
    ControllerReport,
    PodTemplate,
    condition,
    part,
)
from chaoskit.errors import SupervisorGaveUp

#: Kinds of replicas in the order of the nodes.
_MASTER, _WORKER = "Master", "Worker"
#: The container to which the operator gives its port, and whose exit code it reads.
_CONTAINER = "pytorch"
_POLICIES = ("OnFailure", "ExitCode", "Never")
#: Exit codes below this one are final under `restartPolicy: ExitCode`.
_RETRYABLE = 128
#: What the operator says of the two budgets, in its message: all its failures have one reason.
_BACKOFF, _DEADLINE = "backoff limit", "deadline"


@dataclass(frozen=True)
class PyTorchJob:
    """See `TeamJob`. Pod 0 is the Master, or the first Worker where there is none. The operator makes a service for
    each pod, which has its name."""

    manifest: Mapping[str, Any]
    api: ClassVar[ApiKind] = PYTORCH_JOBS
    makes: ClassVar[tuple[ApiKind, ...]] = ()
    complete: ClassVar[str] = "Succeeded"

    def refusals(self) -> Iterator[str]:
        """See `TeamJob`."""
        yield from missing_mapping(self.manifest, "spec.pytorchReplicaSpecs")
        if not self._replicas or not set(self._replicas) <= {_MASTER, _WORKER}:
            yield f"must have {_WORKER}, {_MASTER} or both in spec.pytorchReplicaSpecs, and nothing else"
        for name in self._replicas:
            yield from missing_mapping(self.manifest, f"spec.pytorchReplicaSpecs.{name}.template.spec")
            yield from self._refused_replicas(name)
        yield from self._refused_elasticity()
        if part(self.manifest, "spec.runPolicy").get("suspend"):
            yield SUSPENDED

    def _refused_replicas(self, name: str) -> Iterator[str]:
        replicas = self._replicas[name]
        count = replicas.get("replicas", 1)
        if not isinstance(count, int) or count < 1 or (name == _MASTER and count != 1):
            yield f"must have {'1' if name == _MASTER else 'a number of'} replicas of the {name}"
        policy = replicas.get("restartPolicy", _POLICIES[0])
        if policy not in _POLICIES:
            yield (
                f"has restartPolicy: {policy} for the {name}: write {', '.join(_POLICIES[:-1])} or {_POLICIES[-1]}, "
                "since a command that has ended well must not start again"
            )
        containers = replicas["template"]["spec"].get("containers")
        for each in containers if isinstance(containers, list) else ():
            if isinstance(each, Mapping) and each.get("name") != _CONTAINER and _trains(each):
                yield f"trains in the container {each.get('name')!r}: the operator needs it to be called {_CONTAINER!r}"

    def _refused_elasticity(self) -> Iterator[str]:
        elastic = self._elastic
        if not elastic:
            return
        if _MASTER in self._replicas:
            yield "has elasticPolicy beside a Master: the operator then tells torchrun of the Workers alone"
        for name in ("rdzvHost", "standalone"):
            if elastic.get(name):
                yield f"has elasticPolicy.{name}: leave it out; the nodes meet at the first Worker of the run"
        for name in ("minReplicas", "maxReplicas"):
            if elastic.get(name, self.nodes) != self.nodes:
                yield (
                    f"must have elasticPolicy.{name}: {self.nodes}, or none, since all nodes of the job run at a time"
                )

    @property
    def _replicas(self) -> Mapping[str, Any]:
        found = self.manifest["spec"]["pytorchReplicaSpecs"]
        return {name: found[name] for name in (_MASTER, _WORKER, *found) if name in found}

    @property
    def _elastic(self) -> Mapping[str, Any]:
        return part(self.manifest, "spec.elasticPolicy")

    @property
    def _places(self) -> list[tuple[str, int]]:
        """Of each pod, by its number, the type of its replica and the index within that."""
        return [(name, index) for name, each in self._replicas.items() for index in range(each.get("replicas", 1))]

    @property
    def pods(self) -> tuple[PodTemplate, ...]:
        """See `TeamJob`."""
        return tuple(
            PodTemplate(f"spec.pytorchReplicaSpecs.{name}.template", each["template"])
            for name, each in self._replicas.items()
        )

    @property
    def nodes(self) -> int:
        """See `TeamJob`."""
        return len(self._places)

    @property
    def variables(self) -> Mapping[str, str]:
        """See `TeamJob`."""
        restarts = self._elastic.get("maxRestarts")
        return {} if restarts is None else {"PET_MAX_RESTARTS": str(restarts)}

    def with_pods(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]], *, service: str) -> dict[str, Any]:
        """See `TeamJob`. The names of its pods are those of its own services."""
        replicas = {name: {**each, "template": change(each["template"])} for name, each in self._replicas.items()}
        return {**self.manifest, "spec": {**self.manifest["spec"], "pytorchReplicaSpecs": replicas}}

    def address(self, number: int, *, job: str = JOB, service: str = SERVICE) -> str:
        """See `TeamJob`."""
        name, index = self._places[number]
        return f"{job}-{name.lower()}-{index}"

    def number(self, pod: Mapping[str, Any]) -> int:
        """See `TeamJob`."""
        labels = pod["metadata"].get("labels") or {}
        wanted = (labels.get(REPLICA_TYPE), labels.get(REPLICA_INDEX))
        places = [(name.lower(), str(index)) for name, index in self._places]
        return places.index(wanted) if wanted in places else 0

    def selector(self, identity: RunIdentity, role: str, number: int) -> RunSelector:
        """See `TeamJob`."""
        name, index = self._places[number]
        return RunSelector(identity, role, index=index, replica=name.lower())

    def suspension(self, suspended: bool) -> dict[str, Any]:
        """See `TeamJob`."""
        return {"spec": {"runPolicy": {"suspend": suspended}}}

    def gave_up(self, report: ControllerReport) -> SupervisorGaveUp | None:
        """See `TeamJob`."""
        failed = condition(report.job, "Failed")
        if failed is None:
            return None
        reason, message = str(failed.get("reason")), str(failed.get("message"))
        policies = {number: self._policy(name) for number, (name, _) in enumerate(self._places)}
        final = [code for number, code in report.codes.items() if policies.get(number) == "ExitCode"]
        final = [code for code in final if 0 < code < _RETRYABLE]
        if _BACKOFF in message:
            limit = part(self.manifest, "spec.runPolicy").get("backoffLimit")
            said, code = f"the PyTorchJob had no restart left (runPolicy.backoffLimit: {limit})", "restart-budget-spent"
        elif final and _DEADLINE not in message:
            said = f"restartPolicy: ExitCode takes exit code {final[0]} as final, as all from 1 to {_RETRYABLE - 1}"
            code = "failure-policy-final"
        elif "Never" in policies.values() and _DEADLINE not in message:
            said, code = "the PyTorchJob had no restart left (restartPolicy: Never)", "restart-budget-spent"
        else:
            said, code = f"the PyTorchJob has failed ({reason})", "crash-loop"
        return SupervisorGaveUp(f"{said}: {message}", reason=reason, code=code)

    def _policy(self, name: str) -> str:
        return str(self._replicas[name].get("restartPolicy", _POLICIES[0]))


def _trains(container: Mapping[str, Any]) -> bool:
    """Whether a container, of which nothing is known yet, names `{out}`."""
    try:
        return names_out(container)
    except (TypeError, AttributeError):
        return False
