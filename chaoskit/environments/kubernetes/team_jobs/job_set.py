"""`JobSet`: a JobSet of one Indexed Job, which its controller makes anew when that has failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from chaoskit.environments.kubernetes.api_kinds import JOB_SETS, JOBS, ApiKind
from chaoskit.environments.kubernetes.job_status import JobStatus
from chaoskit.environments.kubernetes.team_jobs.indexed_job import PodsByIndex, refused_spec, spec_with_pods
from chaoskit.environments.kubernetes.team_jobs.pod_shape import missing_mapping
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

#: Reasons of the condition Failed: the budget is used up, a rule says so, there is no policy that restarts anything.
_BUDGET, _RULE, _NO_POLICY = "ReachedMaxRestarts", "FailJobSetFailurePolicyAction", "FailedJobs"


@dataclass(frozen=True)
class JobSet(PodsByIndex):
    """See `TeamJob`. Its pods are those of the one Job."""

    manifest: Mapping[str, Any]
    api: ClassVar[ApiKind] = JOB_SETS
    makes: ClassVar[tuple[ApiKind, ...]] = (JOBS,)
    complete: ClassVar[str] = "Completed"

    def refusals(self) -> Iterator[str]:
        """See `TeamJob`."""
        spec = self.manifest["spec"]
        jobs = spec.get("replicatedJobs")
        if not isinstance(jobs, list) or len(jobs) != 1 or not isinstance(jobs[0], Mapping):
            yield "must have one entry in spec.replicatedJobs: chaoskit runs a JobSet of one Job"
        if not isinstance(self._job.get("name"), str):
            yield "has no spec.replicatedJobs[0].name"
        if self._job.get("replicas", 1) != 1:
            yield "must have replicas: 1 in spec.replicatedJobs: chaoskit runs a JobSet of one Job"
        for reason in missing_mapping(self._job, "template.spec.template.spec"):
            yield reason.replace("template", "spec.replicatedJobs[0].template", 1)
        yield from refused_spec(self._job["template"]["spec"])
        if spec.get("suspend"):
            yield SUSPENDED
        if part(spec, "network").get("subdomain"):
            yield "has spec.network.subdomain: leave it out; the pods have their names below the service of the run"

    @property
    def _job(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.manifest["spec"]["replicatedJobs"][0]
        return found

    @property
    def _policy(self) -> Mapping[str, Any]:
        return part(self.manifest, "spec.failurePolicy")

    @property
    def pods(self) -> tuple[PodTemplate, ...]:
        """See `TeamJob`."""
        path = "spec.replicatedJobs[0].template.spec.template"
        return (PodTemplate(path, self._job["template"]["spec"]["template"]),)

    @property
    def nodes(self) -> int:
        """See `TeamJob`."""
        return int(self._job["template"]["spec"]["completions"])

    def with_pods(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]], *, service: str) -> dict[str, Any]:
        """See `TeamJob`. The service has the name of the JobSet, whose controller then makes none itself."""
        template = self._job["template"]
        spec = spec_with_pods(template["spec"], change, service=service)
        job = {**self._job, "template": {**template, "spec": spec}}
        return {**self.manifest, "spec": {**self.manifest["spec"], "replicatedJobs": [job]}}

    def address(self, number: int, *, job: str = JOB, service: str = SERVICE) -> str:
        """See `TeamJob`."""
        return f"{job}-{self._job['name']}-0-{number}.{service}"

    def gave_up(self, report: ControllerReport) -> SupervisorGaveUp | None:
        """See `TeamJob`."""
        failed = condition(report.job, "Failed")
        return self._of_jobs(report) if failed is None else self._of_set(report, failed)

    def _of_jobs(self, report: ControllerReport) -> SupervisorGaveUp | None:
        """An index that has failed for good: its Job waits for the others, and nobody restarts it."""
        for job in report.made:
            waits = "deletionTimestamp" not in job["metadata"] and JobStatus.of(job).failing is None
            if waits and (over := self._of_job(job, report)) is not None:
                return over
        return None

    def _of_job(self, job: Mapping[str, Any], report: ControllerReport) -> SupervisorGaveUp | None:
        spec = self._job["template"]["spec"]
        return JobStatus.of(job).gave_up(spec, container=report.container, codes=report.codes)

    def _of_set(self, report: ControllerReport, failed: Mapping[str, Any]) -> SupervisorGaveUp:
        reason, message = str(failed.get("reason")), str(failed.get("message"))
        ended = [job for job in report.made if condition(job, "Failed") is not None]
        if reason == _BUDGET:
            restarts = part(report.job, "status").get("restartsCountTowardsMax", 0)
            limit = f"failurePolicy.maxRestarts: {self._policy.get('maxRestarts', 0)}, restarts: {restarts}"
            said, code = f"the JobSet had no restart left ({limit})", "restart-budget-spent"
        elif reason == _RULE:
            said, code = f"the failurePolicy of the JobSet takes {self._rule(ended)} as final", "failure-policy-final"
        elif reason == _NO_POLICY:
            why = self._of_job(ended[0], report) if ended else None
            said = f"the JobSet has no failurePolicy, so no failed Job is restarted; {why or 'its Job has failed'}"
            code = why.code if why is not None else "restart-budget-spent"
        else:
            said, code = f"the JobSet has failed ({reason})", "crash-loop"
        return SupervisorGaveUp(f"{said}: {message}", reason=reason, code=code)

    def _rule(self, ended: list[Mapping[str, Any]]) -> str:
        """The failure of a Job and the rule that takes it as final, in words."""
        for job in ended:
            failed = condition(job, "Failed") or {}
            for number, rule in enumerate(self._policy.get("rules") or ()):
                if _matches(rule, str(failed.get("reason")), str(failed.get("message")), str(self._job["name"])):
                    name = f" {rule['name']!r}" if rule.get("name") else ""
                    return f"a Job that failed by {failed.get('reason')} (rule {number}{name}, {rule['action']})"
        return "what happened"


def _matches(rule: Mapping[str, Any], reason: str, message: str, job: str) -> bool:
    """Whether a rule is for a Job that failed so."""
    patterns = rule.get("onJobFailureMessagePatterns") or [""]
    return (
        reason in (rule.get("onJobFailureReasons") or [reason])
        and any(re.search(pattern, message) for pattern in patterns)
        and job in (rule.get("targetReplicatedJobs") or [job])
    )
