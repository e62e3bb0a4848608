"""`ridden_out`: the job waited until a fault was over and went on, with no restart and no step lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.checks.check import Case, Check
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class RiddenOut:
    """See `ridden_out`."""

    name = "ridden_out"

    def __call__(self, case: Case) -> Verdict:
        measured = case.recoveries
        if not measured:
            return inconclusive(self.name, "no fault was seen to take effect", "fault-not-observed")
        evidence = {"recoveries": [dict(one.__dict__) for one in measured]}
        ended = [one for one in measured if not one.ridden_out]
        if not ended:
            return passed(self.name, f"{len(measured)} ridden out, with no restart", **evidence)
        worst = ended[0]
        lost = f", {worst.steps_lost} steps lost" if worst.steps_lost else ""
        how = f"{worst.relaunches} relaunches, {worst.restarts} restarts{lost}"
        return failed(self.name, f"'{worst.name}' was not ridden out: {how}", "needless-restart", **evidence)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def ridden_out() -> Check:
    """Every observed fault was over before the job gave up, and it went on: no relaunch, no restart, no step lost.

    For a fault that is shorter than the job's own patience. Fails with `needless-restart`.
    """
    return RiddenOut()
