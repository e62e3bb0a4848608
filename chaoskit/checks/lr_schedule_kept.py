"""`lr_schedule_kept`: each step had the learning rates of the same step of an uninterrupted run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.alignment.alignment import show_positions
from chaoskit.analysis.case import Case
from chaoskit.analysis.comparison import Difference
from chaoskit.analysis.record.steps import values
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.completed import incomplete
from chaoskit.checks.registry import check
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class LrScheduleKept:
    """See `lr_schedule_kept`."""

    name = "lr_schedule_kept"

    def __call__(self, case: Case) -> Verdict:
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        assert case.reference is not None
        seen = case.comparison
        wrong = [one for one in seen.differences if "lr" in one.values]
        evidence = {"compared": case.timeline.executed, "wrong": [_as_json(one) for one in wrong[:20]]}
        if wrong:
            more = f"; at least {len(wrong)} such steps over all ranks" if len(wrong) > 1 else ""
            return failed(self.name, f"{_sentence(case, wrong[0])}{more}", "lr-schedule-off", **evidence)
        if (
            any("lr" in steps.columns for _, steps in case.reference.traces())
            and "lr" not in case.timeline.comparable
        ):
            sentence = "the uninterrupted runs themselves differ in their learning rates"
            return inconclusive(self.name, sentence, "not-deterministic", **evidence)
        if (one := seen.absent.get("lr")) is not None:
            sentence = f"the learning rate was not recorded at step {one.step}, rank {one.rank}"
            return inconclusive(self.name, sentence, "probe-blind", **evidence)
        if not all("lr" in case.timeline.expected(index)[rank].columns for index, rank in _lived(case)):
            sentence = "no recorded learning rate could be compared"
            return inconclusive(self.name, sentence, "probe-blind", **evidence)
        if (gap := incomplete(self.name, case, evidence)) is not None:
            return gap
        sentence = (
            f"{case.timeline.executed} executed steps, over all ranks, had the learning rates of the reference"
        )
        return passed(self.name, sentence, **evidence)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def _lived(case: Case) -> set[tuple[int, int]]:
    return {(one.incarnation, one.rank) for one in case.timeline.segments}


def _sentence(case: Case, wrong: Difference) -> str:
    one, (got, wanted) = wrong.execution, wrong.values["lr"]
    places = case.timeline.expected(one.incarnation)[one.rank].places("lr", got)
    whose = f" (that of step {show_positions([at + 1 for at in places])})" if places else ""
    return (
        f"rank {one.rank} took step {one.step} with learning rate {_show(got)}{whose} instead of {_show(wanted)}"
    )


def _show(rates: str) -> str:
    # What follows tells which parameter has which rate.
    numbers = values(rates.partition("@")[0])
    return ", ".join(f"{rate:g}" for rate in numbers) if numbers is not None else rates


def _as_json(wrong: Difference) -> dict[str, Any]:
    one, (got, wanted) = wrong.execution, wrong.values["lr"]
    return {"step": one.step, "rank": one.rank, "incarnation": one.incarnation, "lr": got, "expected": wanted}


@check("lr-schedule-off")
def lr_schedule_kept() -> Check:
    """Each executed step, under its true number, had exactly the learning rates of the reference, also with another
    number of ranks: the schedule counts steps, not steps times processes.

    Fails with `lr-schedule-off`.
    """
    return LrScheduleKept()
