"""`IndexedJob`: an Indexed Job of Kubernetes itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from chaoskit.environments.kubernetes.api_kinds import JOBS, ApiKind
from chaoskit.environments.kubernetes.job_status import JobStatus
from chaoskit.environments.kubernetes.selectors import INDEX, RunIdentity, RunSelector
from chaoskit.environments.kubernetes.team_jobs.pod_shape import NEVER, missing_mapping
from chaoskit.environments.kubernetes.team_jobs.team_job import (
    JOB,
    SERVICE,
    SUSPENDED,
    ControllerReport,
    PodTemplate,
)
from chaoskit.errors import SupervisorGaveUp


class PodsByIndex:
    """What jobs have in common whose pods are those of an Indexed Job: a pod has the number of its completion index."""

    @property
    def variables(self) -> Mapping[str, str]:
        """See `TeamJob`."""
        return {}

    def number(self, pod: Mapping[str, Any]) -> int:
        """See `TeamJob`."""
        metadata = pod["metadata"]
        found = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
        return int(found.get(INDEX, 0))

    def selector(self, identity: RunIdentity, role: str, number: int) -> RunSelector:
        """See `TeamJob`."""
        return RunSelector(identity, role, index=number)

    def suspension(self, suspended: bool) -> dict[str, Any]:
        """See `TeamJob`."""
        return {"spec": {"suspend": suspended}}


@dataclass(frozen=True)
class IndexedJob(PodsByIndex):
    """See `TeamJob`."""

    manifest: Mapping[str, Any]
    api: ClassVar[ApiKind] = JOBS
    makes: ClassVar[tuple[ApiKind, ...]] = ()
    complete: ClassVar[str] = "Complete"

    def refusals(self) -> Iterator[str]:
        """See `TeamJob`."""
        yield from missing_mapping(self.manifest, "spec.template.spec")
        yield from refused_spec(self.manifest["spec"])

    @property
    def pods(self) -> tuple[PodTemplate, ...]:
        """See `TeamJob`."""
        return (PodTemplate("spec.template", self.manifest["spec"]["template"]),)

    @property
    def nodes(self) -> int:
        """See `TeamJob`."""
        return int(self.manifest["spec"]["completions"])

    def with_pods(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]], *, service: str) -> dict[str, Any]:
        """See `TeamJob`."""
        return {**self.manifest, "spec": spec_with_pods(self.manifest["spec"], change, service=service)}

    def address(self, number: int, *, job: str = JOB, service: str = SERVICE) -> str:
        """See `TeamJob`."""
        return f"{job}-{number}.{service}"

    def gave_up(self, report: ControllerReport) -> SupervisorGaveUp | None:
        """See `TeamJob`."""
        status = JobStatus.of(report.job)
        return status.gave_up(self.manifest["spec"], container=report.container, codes=report.codes)


def refused_spec(spec: Mapping[str, Any]) -> Iterator[str]:
    """Why chaoskit cannot run a Job with this specification, which has a template."""
    if spec.get("completionMode") != "Indexed":
        yield "has no completionMode: Indexed, without which its pods have no stable names"
    count = spec.get("completions")
    if not isinstance(count, int) or count < 1 or spec.get("parallelism") != count:
        yield "must have the same number of completions and parallelism, since all nodes of the job run at a time"
    if spec.get("suspend"):
        yield SUSPENDED
    if spec["template"]["spec"].get("restartPolicy") != "Never":
        yield NEVER


def spec_with_pods(
    spec: Mapping[str, Any], change: Callable[[Mapping[str, Any]], Mapping[str, Any]], *, service: str
) -> dict[str, Any]:
    """The specification of a Job with its pods changed, which have names below a service."""
    changed = change(spec["template"])
    return {**spec, "template": {**changed, "spec": {**changed["spec"], "subdomain": service}}}
