"""`JobStatus`: what the controller of Jobs says of one, and why it starts nothing again. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.environments.kubernetes.team_jobs.team_job import condition
from chaoskit.errors import SupervisorGaveUp

#: The actions of a rule after which nothing is started again.
_FINAL = ("FailJob", "FailIndex")
_POLICY = "PodFailurePolicy"
_BUDGETS = ("BackoffLimitExceeded", "FailedIndexes", "MaxFailedIndexesExceeded")
#: The controller's own default of `backoffLimit`.
_BACKOFF_LIMIT = 6


@dataclass(frozen=True)
class JobStatus:
    """`failing` is the reason and the message of a Job that fails, None of any other. `failed` are indexes; `failures`
    is how many of its pods have failed."""

    failing: tuple[str, str] | None = None
    failed: frozenset[int] = frozenset()
    failures: int = 0

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> JobStatus:
        """The status in a manifest."""
        status = job.get("status") or {}
        failing = condition(job, "FailureTarget") or condition(job, "Failed")
        return cls(
            (str(failing.get("reason")), str(failing.get("message"))) if failing is not None else None,
            _indexes(status.get("failedIndexes")),
            int(status.get("failed") or 0),
        )

    def gave_up(
        self, spec: Mapping[str, Any], *, container: str, codes: Mapping[int, int]
    ) -> SupervisorGaveUp | None:
        """Why the controller starts nothing again of the Job with this specification, or of one of its indexes; None if
        it does. `codes` are the last exit codes of the `container` by index."""
        if self.failing is None and not self.failed:
            return None
        reason, message = self.failing or (_BUDGETS[1], f"index {min(self.failed)} has failed for good")
        suspects = [code for index, code in codes.items() if not self.failed or index in self.failed]
        rules = [found for code in suspects if (found := final_rule(spec, container, code))]
        if reason == _POLICY or (rules and reason != _BUDGETS[0]):
            what = rules[0] if rules else "what happened"
            said = f"the podFailurePolicy of the Job takes {what} as final"
            return SupervisorGaveUp(f"{said}: {message}", reason=reason, code="failure-policy-final")
        if reason in _BUDGETS:
            limit = f"backoffLimitPerIndex: {spec.get('backoffLimitPerIndex')}, indexes failed: {len(self.failed)}"
            if not self.failed:
                limit = f"backoffLimit: {spec.get('backoffLimit', _BACKOFF_LIMIT)}, pods failed: {self.failures}"
            said = f"the Job had no restart left ({limit})"
            return SupervisorGaveUp(f"{said}: {message}", reason=reason, code="restart-budget-spent")
        return SupervisorGaveUp(f"the Job has failed ({reason}): {message}", reason=reason, code="crash-loop")


def final_rule(spec: Mapping[str, Any], container: str, code: int) -> str:
    """The exit code of a container and the rule of the policy for failed pods that takes it as final, in words; "" if
    none does, or if an earlier rule says otherwise."""
    for number, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        wanted = rule.get("onExitCodes")
        if not wanted or wanted.get("containerName") not in (None, container):
            continue
        if code and (code in wanted["values"]) == (wanted["operator"] == "In"):
            action = rule["action"]
            return f"exit code {code} (rule {number}, {action})" if action in _FINAL else ""
    return ""


def _indexes(text: Any) -> frozenset[int]:
    """The numbers of `0,2-4`."""
    found: set[int] = set()
    for part in filter(None, str(text or "").split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
