"""`straggler_noticed`: a rank was slow, and the job said so or acted in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.checks.check import Check
from chaoskit.checks.registry import check
from chaoskit.validation import check_number
from chaoskit.verdict import Verdict, failed, inconclusive, merge, passed

#: The faults that make a rank slow, by their kinds.
SLOW = ("throttle", "slow_disk")


@dataclass(frozen=True)
class StragglerNoticed:
    """See `straggler_noticed`."""

    within: float
    name = "straggler_noticed"

    def __call__(self, case: Case) -> Verdict:
        slow = [fault for fault in case.history.faults if fault.kind in SLOW and fault.observed is not None]
        if not slow:
            return inconclusive(self.name, "no fault was observed to make a rank slow", "fault-not-observed")
        every = [self._judged(case, fault) for fault in slow]
        worst = merge(verdict.outcome for verdict in every)
        return next(verdict for verdict in every if verdict.outcome is worst)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name, "within": self.within}

    def _judged(self, case: Case, fault: FaultRecord) -> Verdict:
        seen = fault.observed
        assert seen is not None
        begun = fault.applied if fault.applied is not None else seen
        said = next((one for one in case.history.notices if one.t >= begun), None)
        acted = next((one for one in case.recoveries if one.fault == fault.index and not one.ridden_out), None)
        times = {}
        if said is not None:
            times["said"] = said.t - begun
        if acted is not None and acted.detection_seconds is not None:
            times["acted"] = acted.detection_seconds + seen - begun
        evidence = {
            "fault": fault.index,
            "within": self.within,
            **{name: round(seconds, 3) for name, seconds in times.items()},
            **({"line": said.text} if said is not None else {}),
        }
        how, after = min(times.items(), key=lambda each: each[1], default=("", float("inf")))
        if how == "said" and said is not None:
            what = f"after {after:.1f} s the job printed: {said.text}"
        elif how == "acted":
            what = f"after {after:.1f} s the job ended or restarted its ranks"
        else:
            what = "the job printed nothing about it, and went on"
        if after <= self.within:
            return passed(self.name, f"'{fault.name}': {what}", **evidence)
        limit = f"; the limit is {self.within:g} s" if times else ""
        return failed(self.name, f"'{fault.name}': {what}{limit}", "straggler-unnoticed", **evidence)


@check("straggler-unnoticed")
def straggler_noticed(*, within: float = 30.0) -> Check:
    """The job noticed each slow rank in at most `within` seconds: it printed a line about it, or it ended its ranks.

    Use it with the faults `throttle` and `slow_disk`, for a job that looks for stragglers; for others `ridden_out` is
    the right claim. A line counts if it has the word straggler, or says that a rank, worker, node or GPU is slow;
    its time is that at which chaoskit read it, up to half a second later. Fails with `straggler-unnoticed`. Raises
    UsageError if `within` is not a positive number.
    """
    return StragglerNoticed(check_number("straggler_noticed", "within", within, over=0))
