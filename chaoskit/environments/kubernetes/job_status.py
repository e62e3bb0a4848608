"""`JobStatus`: what the controller of Jobs says of one, and whether it will make pods again. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.errors import SupervisorGaveUp

#: The actions of a policy after which nothing is started again.
FINAL = ("FailJob", "FailIndex")
_BUDGETS = ("BackoffLimitExceeded", "FailedIndexes", "MaxFailedIndexesExceeded")


@dataclass(frozen=True)
class JobStatus:
    """`failing` is the reason and the message of a Job that fails, None of any other."""

    complete: bool
    failing: tuple[str, str] | None
    completed: frozenset[int]
    failed: frozenset[int]

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> JobStatus:
        """The status in a manifest."""
        status = job.get("status") or {}
        holding = {each["type"]: each for each in status.get("conditions") or () if each.get("status") == "True"}
        failing = holding.get("FailureTarget") or holding.get("Failed")
        return cls(
            "Complete" in holding,
            (str(failing.get("reason")), str(failing.get("message"))) if failing is not None else None,
            _indexes(status.get("completedIndexes")),
            _indexes(status.get("failedIndexes")),
        )

    def gave_up(self, manifest: Mapping[str, Any], codes: Mapping[int, int]) -> SupervisorGaveUp | None:
        """Why the controller starts nothing again; None if it does. `codes` are the last exit codes by index."""
        if self.failing is None and not self.failed:
            return None
        index = min(self.failed) if self.failed else None
        reason, message = self.failing or ("FailedIndexes", f"index {index} has failed for good")
        suspects = codes if index is None or index not in codes else {index: codes[index]}
        finals = {code: rule for code in suspects.values() if (rule := final_rule(manifest, code)) is not None}
        if reason == "PodFailurePolicy" or (reason not in _BUDGETS[:1] and finals):
            code, rule = next(iter(finals.items()), (None, None))
            what = f"exit code {code} (rule {rule})" if code is not None else message
            said = f"the podFailurePolicy of the Job takes {what} as final"
            return SupervisorGaveUp(f"{said}: {message}", reason=reason, code="failure-policy-final")
        spec = manifest["spec"]
        if reason in _BUDGETS:
            name = "backoffLimitPerIndex" if self.failed else "backoffLimit"
            limit = spec.get(name, 6)
            said = f"the Job had no restart left ({name}: {limit})"
            return SupervisorGaveUp(f"{said}: {message}", reason=reason, code="restart-budget-spent")
        return SupervisorGaveUp(f"the Job has failed ({reason}): {message}", reason=reason, code="crash-loop")


def final_rule(manifest: Mapping[str, Any], code: int) -> int | None:
    """The number of the rule of the policy for failed pods that takes an exit code as final; None if none does, or an
    earlier rule says otherwise."""
    for number, rule in enumerate((manifest["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        wanted = rule.get("onExitCodes")
        if wanted and code and (code in wanted["values"]) == (wanted["operator"] == "In"):
            return number if rule["action"] in FINAL else None
    return None


def _indexes(text: Any) -> frozenset[int]:
    """The numbers of `0,2-4`."""
    found: set[int] = set()
    for part in filter(None, str(text or "").split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
