"""Random streams that differ after the first step of a resume, and were restored all the same."""

from __future__ import annotations

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.rank_lifetime import RankLifetime


def passes_differ(case: Case, rank: int, lifetime: RankLifetime, position: int) -> bool:
    """Whether the first step of a lifetime had another number of backward passes than the reference's has there."""
    assert case.reference is not None
    wanted = case.reference.step(rank, position + 1)
    return wanted is not None and len(lifetime.steps[0].losses) != len(wanted.losses)


def began_right(case: Case, stream: str, lifetime: RankLifetime, position: int) -> bool:
    """Whether a stream, as the first step of a lifetime began, was where the reference's was there: what differs after
    the forward pass is then a consequence of it. Where nothing drew since, it is as the step before left it; but a
    stream that is as in the first step of all may as well be a new one, of which as much was drawn as at first."""
    assert case.reference is not None
    wanted = case.reference.begins(lifetime.rank, position + 1, stream)
    begun = lifetime.begins.get(lifetime.steps.numbers[0], {})
    own = {at: named[stream] for at, named in begun.items() if stream in named}
    new = case.reference.begins(lifetime.rank, 1, stream)
    return any(
        wanted.get(at) == value or (wanted.get("step") == value and new.get(at) != value)
        for at, value in own.items()
    )
