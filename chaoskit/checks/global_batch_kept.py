"""`global_batch_kept`: each step consumed the same number of samples, over all ranks, as in an uninterrupted run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.finding import many_ranks
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.completed import incomplete
from chaoskit.checks.registry import check
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class GlobalBatchKept:
    """See `global_batch_kept`."""

    name = "global_batch_kept"

    def __call__(self, case: Case) -> Verdict:
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        assert case.reference is not None
        wanted = case.reference.global_steps.samples
        counted: dict[int, set[int]] = {}
        wrong = []
        for index, start in case.timeline.starts.items():
            global_steps = case.timeline.global_steps(index)
            for n, count in global_steps.samples.items() if start.base is not None else ():
                step = (start.base or 0) + n
                counted.setdefault(index, set()).add(step)
                if count != wanted.get(step, count):
                    wrong.append(
                        {"step": step, "incarnation": index, "ranks": global_steps.world_size, "samples": count}
                    )
        evidence = {"counted": sum(map(len, counted.values())), "wrong": wrong[:20]}
        if wrong:
            one, usual = wrong[0], many_ranks(case.reference.world_size)
            many = many_ranks(one["ranks"])
            more = f"; {len(wrong)} such steps" if len(wrong) > 1 else ""
            sentence = (
                f"step {one['step']} consumed {one['samples']} samples on {many}; the reference "
                f"consumes {wanted[one['step']]} on {usual}{more}"
            )
            return failed(self.name, sentence, "global-batch-changed", **evidence)
        if (blind := _uncounted(case, counted, wanted)) is not None:
            return inconclusive(self.name, blind, "probe-blind", **evidence)
        if (gap := incomplete(self.name, case, evidence)) is not None:
            return gap
        sizes = sorted(set(wanted.values()))
        many = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        sentence = (
            f"each of {evidence['counted']} executed steps consumed as many samples as in the reference ({many})"
        )
        return passed(self.name, sentence, **evidence)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}


def _uncounted(case: Case, counted: Mapping[int, set[int]], wanted: Mapping[int, int]) -> str | None:
    """Return a sentence about a step whose number of samples is unknown; None if there is no such step."""
    assert case.reference is not None
    if len(wanted) < case.reference.steps:
        return (
            "the number of samples in a step of the uninterrupted run is unknown: samples could not be told apart"
        )
    for one, start, end in case.timeline.effective:
        own = counted.get(one.incarnation, set())
        for step in range(one.true(start), min(one.true(end), case.reference.steps + 1)):
            if step not in own:
                return f"the number of samples that step {step} consumed was not recorded on all ranks"
    return None


@check("global-batch-changed")
def global_batch_kept() -> Check:
    """Each executed step, under its true number, consumed the same number of samples over all ranks as in the
    reference: a job that shrinks or grows keeps its global batch.

    Fails with `global-batch-changed`; inconclusive if samples could not be told apart.
    """
    return GlobalBatchKept()
