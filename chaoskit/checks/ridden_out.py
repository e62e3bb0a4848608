"""`ridden_out`: the job waited until a fault was over and continued, with no restart and no step lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.checks.check import Check
from chaoskit.checks.registry import check
from chaoskit.errors import UsageError
from chaoskit.validation import check_whole, shown
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class RiddenOut:
    """See `ridden_out`."""

    faults: tuple[int, ...] | None = None
    name = "ridden_out"

    def __call__(self, case: Case) -> Verdict:
        measured = [one for one in case.recoveries if self.faults is None or one.fault in self.faults]
        if not measured:
            return inconclusive(self.name, "no fault was observed to take effect", "fault-not-observed")
        evidence = {"recoveries": [dict(one.__dict__) for one in measured]}
        ended = [one for one in measured if not one.ridden_out]
        if not ended:
            sentence = f"the job rode out {len(measured)} fault{'s' * (len(measured) > 1)} without a restart"
            return passed(self.name, sentence, **evidence)
        worst = ended[0]
        counts = [
            (worst.relaunches, "relaunch", "relaunches"),
            (worst.restarts, "restart", "restarts"),
            (worst.steps_lost, "step lost", "steps lost"),
        ]
        how = ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts if count)
        how = how or "it never took another step"
        return failed(self.name, f"the job did not ride out '{worst.name}': {how}", "needless-restart", **evidence)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name} | ({} if self.faults is None else {"faults": list(self.faults)})


@check("needless-restart")
def ridden_out(*, faults: Sequence[int] | None = None) -> Check:
    """The job waited out every observed fault and continued: no relaunch, no restart, no step lost.

    Use it for faults that are shorter than the job's own timeouts; with several faults in one run, `faults` selects
    some by number (from 0, in the order of the run). Fails with `needless-restart`. Raises UsageError if `faults` are
    not such numbers.
    """
    if faults is None:
        return RiddenOut()
    if not isinstance(faults, tuple | list) or not faults:
        raise UsageError(f"ridden_out: faults must be a tuple of whole numbers from 0, not {shown(faults)}")
    for one in faults:
        check_whole("ridden_out", "faults", one, least=0)
    return RiddenOut(tuple(faults))
