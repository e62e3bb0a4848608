"""`stopped_cleanly`: a job that was given notice left in time, or was ready to be killed: no rank hung, and no exit
code says that it was done."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.harness_record import LaunchRecord
from chaoskit.analysis.recovery.emergency import Emergency
from chaoskit.checks.check import Check
from chaoskit.checks.completed import last_step
from chaoskit.checks.emergency_checkpoint import TOO_EARLY, unheard
from chaoskit.checks.registry import check
from chaoskit.verdict import Outcome, Verdict, failed, inconclusive, merge, passed

#: A rank that has shown no sign of life for so many seconds hangs, if it never took that long without a fault.
QUIET = 2.0
#: Steps that may pass until a job that gets SIGTERM stops: its launcher passes the signal on.
LAST_STEPS = 3


@dataclass(frozen=True)
class StoppedCleanly:
    """See `stopped_cleanly`."""

    name = "stopped_cleanly"

    def __call__(self, case: Case) -> Verdict:
        real = [one for one in case.emergencies if not one.is_false]
        if not real:
            return inconclusive(self.name, "no node was observed to be preempted", "fault-not-observed")
        every = [self._judged(case, one) for one in real if not one.came_too_early]
        if not every:
            return inconclusive(self.name, f"'{real[0].fault.name}': {TOO_EARLY}", "nothing-to-resume")
        worst = merge(verdict.outcome for verdict in every)
        found = next(verdict for verdict in every if verdict.outcome is worst)
        if worst is not Outcome.PASS or len(real) == 1:
            return found
        early = f"; {len(real) - len(every)} more came before a step was taken" if len(every) < len(real) else ""
        why = f"after each of {len(every)} notices the job left in its grace, or had begun to save at the end{early}"
        return passed(self.name, why, notices=[one.facts() for one in real])

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _judged(self, case: Case, one: Emergency) -> Verdict:
        name, facts = f"'{one.fault.name}'", one.facts()
        if one.struck is None or case.reference is None:
            return inconclusive(self.name, f"{name}: what the ranks did is not known", "probe-blind")
        launch = next((each for each in case.history.launches if each.index == one.struck.launch), None)
        if launch is not None and (why := _not_started_again(case, one, launch)):
            return failed(self.name, f"{name}: {why}", "exited-early", code=launch.code, **facts)
        if not one.killed:
            code = f" with code {launch.code}" if launch is not None and launch.code is not None else ""
            if launch is not None and launch.requeued:
                code = ", back in the queue of its scheduler"
            how = f"the job ended by itself{code}, {one.over:.2f} s after the notice"
            why = f"{name}: {how}; its grace is {one.grace:g} s"
            return passed(self.name, why, **facts)
        quiet = self._quiet(case, one)
        if one.settled is None and quiet > max(QUIET, _longest_pause(case)):
            why = (
                f"{name}: the job was killed at the end of its grace of {one.grace:g} s; no rank had shown a sign of "
                f"life for {quiet:.1f} s, and nothing was saved"
            )
            return failed(self.name, why, "hang", quiet=round(quiet, 3), **facts)
        if not one.was_received:
            return failed(self.name, f"{name}: {unheard(one)}, and was killed", "notice-ignored", **facts)
        if not one.attempts or _steps_after_sigterm(one) > LAST_STEPS:
            what = "SIGTERM" if one.attempts else "the notice"
            why = f"{name}: the job went on after {what} as if nothing were, and was killed at {one.over:.2f} s"
            return failed(self.name, why, "notice-ignored", **facts)
        how = "had saved" if one.settled is not None else "had begun to save"
        why = f"{name}: the job was killed at the end of its grace of {one.grace:g} s, and {how} before"
        return passed(self.name, why, **facts)

    def _quiet(self, case: Case, one: Emergency) -> float:
        """For how long no rank had stepped, saved or ended a save when it was killed."""
        assert one.struck is not None
        signs = [one.since]
        for own in one.struck.ranks.values():
            signs += own.steps.times[-1:]
            for save in own.saves:
                signs += [save.begun] + ([save.ended] if save.ended is not None else [])
        return max(0.0, one.since + one.over - max(signs))


def _not_started_again(case: Case, one: Emergency, launch: LaunchRecord) -> str:
    """Why no scheduler would start the job again after this launch, by the exit code that it left with; "" if one
    would, or if the job was done."""
    last, needed = last_step(case), launch.stops_with
    if launch.code is None or launch.requeued or _is_done(one, launch, last, case):
        return ""
    if launch.code == 0 and needed != 0:
        more = f"; after {needed} it would (--stops-with)" if needed is not None else ""
        return (
            f"the job exited with code 0 before step {last}; a scheduler takes that for a job that is done, and starts "
            f"it no more{more}"
        )
    if needed is None or launch.code == needed or one.killed:
        return ""
    return (
        f"the job left with code {launch.code} before step {last}; its scheduler starts it again after code {needed} "
        "alone (--stops-with)"
    )


def _is_done(one: Emergency, launch: LaunchRecord, last: int, case: Case) -> bool:
    """Whether nothing was left to do when the launch ended."""
    later = any(inc.launch > launch.index for inc in case.history.incarnations)
    return launch.code == 0 and case.timeline.highest() >= last and not later


def _steps_after_sigterm(one: Emergency) -> int:
    """How many steps the ranks took after SIGTERM, which asks a process to end; 0 if none was sent."""
    assert one.struck is not None
    told = [float(one.nodes[node]["shutdown"] or 0.0) for node in one.killed]
    if one.cloud != "kubernetes" and not any(told):
        return 0
    since = one.since + max(told)
    return max((len(own.steps) - own.steps.until(since) for own in one.struck.ranks.values()), default=0)


def _longest_pause(case: Case) -> float:
    """The longest time between two signs of life of a rank of the uninterrupted run."""
    assert case.reference is not None
    longest = 0.0
    for control in case.reference.controls:
        for inc in control.incarnations:
            for own in inc.ranks.values():
                times = sorted([*own.steps.times, *(save.begun for save in own.saves)])
                gaps = (after - before for before, after in itertools.pairwise(times))
                longest = max(longest, max(gaps, default=0.0))
    return longest


@check("hang", "notice-ignored", "exited-early")
def stopped_cleanly() -> Check:
    """A job that was given notice left in time, or was saving when it was killed; no exit code says that it was done.

    Use it with the fault `preempt`. Fails with `exited-early` if the job left before its last step with an exit code
    after which its scheduler does not start it again (0, unless `stops_with` of the job says otherwise), `hang` if no
    rank had shown a sign of life for long when it was killed and nothing was saved, and `notice-ignored` if it went on
    as before, also after SIGTERM.
    """
    return StoppedCleanly()
