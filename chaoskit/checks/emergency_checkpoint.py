"""`emergency_checkpoint`: between the notice and the end of its node, the job saved, and then resumed from that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.finding import show_ranks
from chaoskit.analysis.recovery.emergency import Emergency
from chaoskit.checks.check import Check
from chaoskit.checks.completed import last_step
from chaoskit.checks.registry import check
from chaoskit.validation import check_number
from chaoskit.verdict import Outcome, Verdict, failed, inconclusive, merge, passed

#: Why a notice shows nothing.
TOO_EARLY = "when notice came, the job had taken no step since its launch, so there was nothing to save"
#: A step that was under way when the node was killed is lost, and no other.
STEPS_LOST = 1


@dataclass(frozen=True)
class EmergencyCheckpoint:
    """See `emergency_checkpoint`."""

    within: float | None = None
    name = "emergency_checkpoint"

    def __call__(self, case: Case) -> Verdict:
        real = [one for one in case.emergencies if not one.is_false]
        if not real:
            return inconclusive(self.name, "no node was observed to be preempted", "fault-not-observed")
        told = [one.facts() for one in real]
        untested = [why for one in real if (why := _untested(case, one)) is not None]
        tested = [one for one in real if _untested(case, one) is None]
        if not tested:
            return inconclusive(self.name, untested[0], "nothing-to-resume", notices=told)
        every = [self._judged(case, one) for one in tested]
        worst = merge(verdict.outcome for verdict in every)
        found = next(verdict for verdict in every if verdict.outcome is worst)
        sentence = found.sentence
        if worst is Outcome.PASS and len(real) > 1:
            slowest = max(one.saved_seconds or 0.0 for one in tested)
            sentence = (
                f"after each of {len(tested)} notices a checkpoint was settled on every rank before the end of its "
                f"grace, at most {slowest:.2f} s after the notice, and every resume was from such a one"
            )
            sentence += f"; {len(untested)} more called for no checkpoint ({untested[0]})" if untested else ""
        return Verdict(found.check, found.outcome, sentence, found.codes, {**found.evidence, "notices": told})

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name} | ({} if self.within is None else {"within": self.within})

    def _judged(self, case: Case, one: Emergency) -> Verdict:
        name = f"'{one.fault.name}'"
        if not (case.reference and case.reference.saves):
            why = f"{name}: whether the job saved is not known: the probe saw no save in the reference"
            return inconclusive(self.name, why, "probe-blind")
        if not one.was_received:
            return failed(self.name, f"{name}: {unheard(one)}", "notice-ignored")
        settled = one.settled
        if settled is None:
            return self._unsettled(one, name)
        after = settled.settled or 0.0
        what = f"a checkpoint of step {settled.position} was settled on every rank"
        how = f"{name}: {what} {after:.2f} s after the notice"
        if self.within is not None and after > self.within:
            late = f"{how}, and {self.within:g} s are allowed"
            return failed(self.name, late, "emergency-too-late")
        recovery = one.recovery
        if recovery is None or recovery.incarnation is None:
            return passed(self.name, f"{how}; its grace is {one.grace:g} s")
        resumed, lost = recovery.resumed_from, recovery.steps_lost
        if resumed is None or lost is None:
            why = f"{how}; which step the job resumed from is not known"
            return inconclusive(self.name, why, "probe-blind")
        if resumed < settled.position:
            why = f"{how}, but the job resumed from step {resumed}"
            return failed(self.name, why, "stale-checkpoint" if resumed else "restarted-from-scratch")
        if lost > STEPS_LOST:
            if one.attempts and {each.position for each in one.attempts} <= set(case.reference.saves):
                why = (
                    f"{name}: the job began no save because of the notice. The checkpoint of step {settled.position} "
                    f"is one that it makes without a notice, too; it went on, and lost {lost} steps"
                )
                return failed(self.name, why, "no-emergency-checkpoint")
            why = f"{how}, but the job went on without another one, and lost {lost} steps"
            return failed(self.name, why, "slow-recovery")
        why = f"{how} (of {one.grace:g} s), and the job resumed from step {resumed}: {lost} steps lost"
        return passed(self.name, why)

    def _unsettled(self, one: Emergency, name: str) -> Verdict:
        """No checkpoint was settled between the notice and the end."""
        end = f"its end {one.over:.2f} s after the notice"
        if not one.attempts:
            why = f"{name}: the job learnt of the notice{_when(one)} and began no save before {end}"
            return failed(self.name, why, "no-emergency-checkpoint")
        newest = one.attempts[-1]
        if newest.missing:
            why = (
                f"{name}: {show_ranks(newest.ranks)} began to save after step {newest.position}, {newest.begun:.2f} s "
                f"after the notice, and {show_ranks(newest.missing)} did not, before {end}: the ranks did not agree "
                "when to save"
            )
            return failed(self.name, why, "emergency-torn")
        if newest.open_on:
            enough = one.sufficient_grace
            need = f"; {enough:.1f} s of grace might have sufficed" if enough is not None else ""
            why = (
                f"{name}: {show_ranks(newest.open_on)} began to save after step {newest.position}, {newest.begun:.2f} "
                f"s after the notice, and had not finished at {end}{need}"
            )
            return failed(self.name, why, "emergency-too-late")
        why = (
            f"{name}: the job saved after step {newest.position}, {newest.begun:.2f} s after the notice, but it never "
            f"became a checkpoint that the job resumed from before {end}"
        )
        return failed(self.name, why, "emergency-too-late")


def unheard(one: Emergency) -> str:
    """A clause: nobody learnt of the notice, and why."""
    facts = one.facts()
    if one.cloud not in ("aws", "gcp", "azure"):
        return "no process of the job took the signal"
    if not facts["asked"]:
        return "the job never asked the metadata service of its node"
    if facts["refused"] == facts["asked"]:
        return f"the metadata service refused all {facts['asked']} requests of the job (no token, or no header)"
    return f"the job asked the metadata service {facts['asked']} times, and never for the notice"


def _untested(case: Case, one: Emergency) -> str | None:
    """A sentence: why nothing was to be saved after this notice; None if something was."""
    name = f"'{one.fault.name}'"
    if one.came_too_early:
        return f"{name}: {TOO_EARLY}"
    is_last = one.recovery is None or one.recovery.incarnation is None
    if case.reference is None or not is_last or case.history.end != "finished" or one.killed or one.attempts:
        return None
    if case.timeline.highest() < last_step(case):
        return None
    return f"{name}: the job came to its end {one.over:.2f} s after the notice, within its grace of {one.grace:g} s"


def _when(one: Emergency) -> str:
    return f" {one.received:.2f} s after it was given" if one.received is not None else ""


@check(
    "no-emergency-checkpoint", "emergency-too-late", "emergency-torn", "notice-ignored", "slow-recovery",
    "stale-checkpoint", "restarted-from-scratch",
)  # fmt: skip
def emergency_checkpoint(*, within: float | None = None) -> Check:
    """Between the notice and the end of its node, the job settled a checkpoint on every rank, and resumed from it.

    Use it with the fault `preempt`. The checkpoint is of one step that every rank had taken, and at most one step was
    lost. `within` limits the seconds from the notice to the settled checkpoint (default: the grace does). The evidence
    has one row for each notice, with that time, and the grace that would just have sufficed.

    Fails with `notice-ignored` if no process learnt of the notice, `no-emergency-checkpoint` if none was begun other
    than those that the job makes anyway, `emergency-torn` if some ranks saved and others did not,
    `emergency-too-late` if it was not settled in time, `stale-checkpoint` or `restarted-from-scratch` if the job
    resumed from another one, and `slow-recovery` if it lost more than one step. Raises UsageError if `within` is not a
    positive number.
    """
    if within is None:
        return EmergencyCheckpoint()
    return EmergencyCheckpoint(check_number("emergency_checkpoint", "within", within, over=0))
