"""`false_notice_ridden_out`: after a notice that nothing followed, the job went on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.recovery.emergency import Emergency
from chaoskit.checks.check import Check
from chaoskit.checks.completed import last_step
from chaoskit.checks.registry import check
from chaoskit.verdict import Verdict, failed, inconclusive, merge, passed

#: How a run ends that was stopped because the job did nothing, or did not finish.
_STUCK = ("hang", "deadline")


@dataclass(frozen=True)
class FalseNoticeRiddenOut:
    """See `false_notice_ridden_out`."""

    name = "false_notice_ridden_out"

    def __call__(self, case: Case) -> Verdict:
        false = [one for one in case.emergencies if one.is_false]
        if not false:
            return inconclusive(self.name, "no false notice was observed", "fault-not-observed")
        every = [self._judged(case, one) for one in false]
        worst = merge(verdict.outcome for verdict in every)
        return next(verdict for verdict in every if verdict.outcome is worst)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _judged(self, case: Case, one: Emergency) -> Verdict:
        name, facts, recovery = f"'{one.fault.name}'", one.facts(), one.recovery
        ended = [told["ended"] for told in one.nodes.values() if told["ended"] is not None]
        how = f"{name}: {min(ended):.2f} s after the notice the job ended by itself" if ended else name
        is_short = case.reference is not None and case.timeline.highest() < last_step(case)
        if case.history.end == "finished" and is_short:
            why = f"{how}, and exited with code 0 before step {last_step(case)}; nothing followed the notice"
            return failed(self.name, why, "exited-early", **facts)
        if recovery is None or not recovery.ridden_out:
            if case.history.end in _STUCK and not any(life.start > one.since for life in case.history.incarnations):
                why = f"{name}: nothing followed the notice, but the job stood still, and nothing started it again"
                return failed(self.name, why, "hang", **facts)
            return failed(self.name, f"{how}; nothing followed the notice", "needless-restart", **facts)
        saved = f"; it saved {one.settled.settled:.2f} s after the notice" if one.settled is not None else ""
        return passed(self.name, f"{name}: nothing followed the notice, and the job went on{saved}", **facts)


@check("needless-restart", "hang", "exited-early")
def false_notice_ridden_out() -> Check:
    """After a notice that nothing followed, the job went on without a restart.

    Use it with the fault `preempt(then="nothing")`. Fails with `needless-restart` if the job ended and was started
    again, `hang` if it stood still and nothing started it again, and `exited-early` if it exited with 0 before its
    last step.
    """
    return FalseNoticeRiddenOut()
