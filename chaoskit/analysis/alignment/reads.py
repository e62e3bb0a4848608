"""Reads: which checkpoint a load has read, told by its path and by what came back, and by nothing else.

A save under a path replaces what was saved there before. So a path that is written again and again holds the newest
save, and equal contents at several positions need no guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from chaoskit.analysis.record.paths import above, numbers_in
from chaoskit.analysis.record.rank_lifetime import Load, RankLifetime, Save

#: A load is taken for one of a checkpoint when this share of what came back had been saved there.
ALIKE = 0.5


@dataclass
class Held:
    """What all the saves at one position were given: the values by key, the paths that they went to, and how many ranks
    there were."""

    values: dict[str, set[str]] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    worlds: set[int] = field(default_factory=set)

    def share(self, content: Mapping[str, str]) -> float:
        """Return the share of a load's contents that was saved here, from 0 to 1."""
        return sum(value in self.values.get(key, ()) for key, value in content.items()) / len(content)


class Saved:
    """Everything that was saved before a load, by position."""

    def __init__(self, saves: Iterable[tuple[int, int, Save]]) -> None:
        """`saves` are positions, world sizes and saves, in the order in which they were made."""
        self.held: dict[int, Held] = {}
        #: By path: the positions of the saves that went there, the newest last.
        self._under: dict[str, list[int]] = {}
        for position, world_size, save in saves:
            held = self.held.setdefault(position, Held())
            held.paths.add(save.path)
            held.worlds.add(world_size)
            for key, value in save.content.items():
                held.values.setdefault(key, set()).add(value)
            self._under.setdefault(save.path, []).append(position)

    def read_by(self, load: Load) -> frozenset[int]:
        """Return the position of the checkpoint that the load has read: several if neither its path nor what came back
        tells them apart, none if it read no checkpoint that was saved here."""
        shares = {at: held.share(load.content) for at, held in self.held.items()}
        whole = {at for at, share in shares.items() if share == 1.0}
        named = self.named(load)
        if named is not None and (named in whole or not whole):
            return frozenset({named})
        if whole:
            # A path that no save had is that of a file which was renamed: each path then holds what came last.
            under = [self._under.get(load.path, ())] if whole & {*self._under.get(load.path, ())} else []
            newest = ([at for at in positions if at in whole][-1:] for positions in under or self._under.values())
            return frozenset(at for own in newest for at in own)
        best = max(shares.values(), default=0.0)
        alike = frozenset(at for at, share in shares.items() if share == best and best >= ALIKE)
        here = [at for at in self._under.get(load.path, ()) if at in alike]
        return frozenset(here[-1:]) or alike

    def named(self, load: Load) -> int | None:
        """Return the position of the checkpoint that a load read, where its path tells it: that of the saves of one
        position alone, or by the number in their paths. The numbers in the name of a copy that lies elsewhere tell
        nothing."""
        paths = [path for held in self.held.values() for path in held.paths]
        home, place = above(paths), above([load.path, *paths])
        if not load.path.startswith(home):
            return None
        named = [at for at, held in self.held.items() if load.path in held.paths]
        if len(named) != 1:
            numbers = numbers_in(load.path, below=place)
            numbered = {
                at: [numbers_in(path, below=place) for path in held.paths] for at, held in self.held.items()
            }
            named = [at for at in numbers.intersection(self.held) if all(at in own for own in numbered[at])]
            # What others have in their paths too, such as the number of a day or a second, is no step's.
            named = [
                at for at in named if not any(at in own for one in numbered if one != at for own in numbered[one])
            ]
        if len(named) != 1:
            return None
        shared = sum(key in self.held[named[0]].values for key in load.content)
        return named[0] if shared > ALIKE * len(load.content) else None


def last_loads(lifetime: RankLifetime) -> Iterator[Load]:
    """Yield the loads at the beginning of a lifetime that count: a file that was read, refused and read elsewhere does
    no harm, so of the same keys the last."""
    last: dict[frozenset[str], Load] = {}
    for load in lifetime.loads:
        if load.ok and load.content and load.n == 0:
            last[frozenset(load.content)] = load
    yield from last.values()


def positions_read(ranks: Mapping[int, RankLifetime], saved: Saved) -> dict[int, frozenset[int]]:
    """Return the positions of the checkpoints that each rank has read. A rank that was not seen to read gets its state
    from those that were, if these agree."""
    found = {}
    for rank, lifetime in ranks.items():
        parts = [own for load in last_loads(lifetime) if (own := saved.read_by(load))]
        if parts:
            found[rank] = frozenset.intersection(*parts)  # none, where the parts are of several checkpoints
    everyone = set(found.values())
    common = everyone.pop() if len(everyone) == 1 else frozenset[int]()
    return {rank: found.get(rank, common) for rank in ranks}
