"""`measure`: the index with which an incarnation is compared when its number of ranks is not the reference's.

From the resume at another world size on, the bits of what is computed diverge from the reference's: sums are taken in
another order, and dropout draws other masks. So the reference is the measure of these components up to that position,
and past it the run itself is, in what it had there before; of what is planned (learning rates, options, which samples
a step consumes) the reference is the measure throughout. What is like the reference all the same, a count of steps
among the buffers, is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chaoskit.analysis.alignment.global_steps import PLANNED, GlobalSteps
from chaoskit.analysis.alignment.index import Index
from chaoskit.analysis.record.history import Incarnation
from chaoskit.analysis.record.steps import Steps
from chaoskit.analysis.reference.reference import Reference


@dataclass(frozen=True)
class Past:
    """An earlier incarnation, where it began, and its steps as those of a whole."""

    incarnation: Incarnation
    base: int
    global_steps: GlobalSteps


def measure(
    reference: Reference,
    comparable: frozenset[str],
    ranks: Iterable[int],
    past: Iterable[Past],
    left: int | None,
) -> Index:
    """The index for `ranks` that follow on `past`; `left` is the position at which the run has left the bits of the
    reference (None: it has not yet). Of the reference the `comparable` components count."""
    local = reference.global_steps.local
    index = Index(loose=local)
    known = list(past)
    for rank in ranks:
        expected = reference.global_steps.rank(rank, local=local)
        index.learn(rank, 0, expected, components=comparable & PLANNED)
        index.learn(rank, 0, expected, components=comparable - PLANNED, last=left)
        for one in known:
            for global_steps in (one.global_steps, *_held(one, reference)):
                own = global_steps.rank(rank, local=local)
                index.learn(rank, one.base, own, components=set(own.columns) - reference.idle)
    return index


def _held(past: Past, reference: Reference) -> Iterator[GlobalSteps]:
    """What was held at the saves: after the last of them no step may have been taken."""
    ranks = {}
    for rank, lifetime in past.incarnation.ranks.items():
        ranks[rank] = Steps()
        for n in sorted(lifetime.held):
            ranks[rank].append(lifetime.held[n])
    if any(ranks.values()):
        yield GlobalSteps.of(ranks, past.incarnation.world_size, sharded=reference.sharded)
