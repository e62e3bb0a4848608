"""Averages that a job keeps by hand, compared with the reference: the probe sees the copies that follow parameters."""

from __future__ import annotations

from collections.abc import Iterator

from chaoskit.analysis.case import Case
from chaoskit.analysis.finding import Finding

#: The component of the single tensors that follow parameters.
AVERAGE = "average"


def lost_averages(case: Case, incarnation: int) -> Iterator[Finding]:
    """The first step of each rank after a resume at which an average is not that of the reference, as long as nothing
    else of that rank had diverged."""
    base = case.timeline.base(incarnation)
    if base is None or not case.timeline.bitwise or incarnation in case.timeline.resized:
        return
    assert case.reference is not None
    for rank, lifetime in case.history.incarnations[incarnation].ranks.items():
        diverged = [at for (own, of, _), at in case.comparison.first.items() if (own, of) == (incarnation, rank)]
        for n, found in sorted(lifetime.tensors.items()):
            step = base + n
            if diverged and step >= min(diverged):
                break
            controls = [
                control.incarnations[0].ranks[rank].tensors.get(step, {}).get(AVERAGE, {})
                for control in case.reference.controls
                if rank in control.incarnations[0].ranks
            ]
            own = found.get(AVERAGE, {})
            both = [
                name
                for name in own
                if controls and name in controls[0] and len({each.get(name) for each in controls}) == 1
            ]
            off = tuple(name for name in both if own[name] != controls[0][name])
            if off:
                yield Finding(
                    "ema-not-restored", "ema", rank, incarnation, step, step - 1, tensors=off, of=len(both)
                )
                break
