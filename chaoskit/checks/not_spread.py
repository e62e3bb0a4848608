"""`not_spread`: what was wrong on one rank stayed there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.checks.check import Case, Check
from chaoskit.checks.diagnosis import show_ranks
from chaoskit.checks.explanation import components, explain
from chaoskit.checks.struck import faded, judge_each
from chaoskit.course import Course
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class NotSpread:
    """See `not_spread`."""

    name = "not_spread"

    def __call__(self, case: Case) -> Verdict:
        return judge_each(self.name, case, lambda course: self._judged(case, course))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _judged(self, case: Case, course: Course) -> Verdict:
        struck = course.corruption
        inc = case.history.incarnations[struck.incarnation]
        if not set(inc.ranks) - set(struck.ranks):
            sentence = f"{struck}: there was no other rank that it could have spread to"
            return inconclusive(self.name, sentence, "fault-not-observed")
        if (nothing := faded(self.name, case, course)) is not None:
            return nothing
        if course.parted:
            sentence = f"{struck}, and the run had left the reference before, so that its spread cannot be told"
            return inconclusive(self.name, sentence, "probe-blind")
        if not case.timeline.comparable & {"model"}:
            sentence = "the uninterrupted runs themselves differ in the model, so that its spread cannot be told"
            return inconclusive(self.name, sentence, "not-deterministic")
        for step, ranks in sorted(course.until_noticed().items()):
            others = sorted(set(ranks) - set(struck.ranks))
            if others:
                names = {name for rank in others for name in ranks[rank]}
                told = f"in step {step} it had reached {show_ranks(others)}, in {components(names)}"
                return failed(self.name, f"{told}: {explain(case, course)}", "corruption-spread")
        until = course.detection.step if course.detection is not None else course.last
        sentence = f"{struck}; up to step {until} no other rank differs from the reference"
        return passed(self.name, sentence)


def not_spread() -> Check:
    """From the step in which a number was corrupted until somebody noticed, no rank differs from the reference but the
    one that was struck. The evidence has a row for each step: which ranks were off, and in what.

    A wrong gradient that is put together with those of other ranks always spreads: this is for jobs that look before
    they reduce, and for what goes wrong after it. Fails with `corruption-spread`.
    """
    return NotSpread()
