"""Which ranks of an incarnation hold replicas of one model, and why no rank does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from chaoskit.analysis.record.history import Incarnation


def replica_groups(inc: Incarnation) -> Iterator[tuple[int, ...]]:
    """Yield the groups of ranks that hold replicas of each other: as the job declares them, else as the first step
    shows them."""
    by_state: dict[str, list[int]] = {}
    known: set[tuple[int, ...]] = set()
    for rank, lifetime in inc.ranks.items():
        if not lifetime.steps:
            continue
        if len(own := tuple(one for one in lifetime.replicas if one in inc.ranks and inc.ranks[one].steps)) > 1:
            known.add(own)
        elif state := lifetime.steps[0].components.get("model"):
            by_state.setdefault(state, []).append(rank)
    yield from sorted(known)
    yield from (tuple(sorted(ranks)) for ranks in by_state.values() if len(ranks) > 1)


def why_no_replicas(inc: Incarnation) -> str:
    """Why no rank holds a replica of another's model, by the job's design; empty if one does, or if that is unknown.

    Ranks whose models have tensors of the same names and differ all the same may be replicas that have diverged.
    """
    if any(True for _ in replica_groups(inc)):
        return ""
    if inc.world_size == 1:
        return "the job has only one rank, so there is no replica of its model"
    trained = {rank: lifetime for rank, lifetime in inc.ranks.items() if lifetime.steps}
    if len(trained) == inc.world_size and all(lifetime.shards for lifetime in trained.values()):
        return "the job shards its model: no rank holds a replica of another's parameters"
    names = [set(lifetime.tensors.get(1, {}).get("model", {})) for lifetime in trained.values()]
    if len(trained) == inc.world_size and all(a and b and not a & b for a, b in combinations(names, 2)):
        return "each rank trains a part of the model of its own, so no rank holds a replica of another's"
    return ""
