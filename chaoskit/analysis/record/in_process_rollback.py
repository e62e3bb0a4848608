"""Rollbacks: ranks that read an older checkpoint in mid-lifetime and go on from there, in the processes that they are.

What follows on a rollback is a lifetime of its own, like one that a relaunch began: its steps count from 1 again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from chaoskit.analysis.record.rank_lifetime import RankLifetime, Save

#: What shows that a rank has gone back: each state of it is the work of one step.
STATE = "model"


@dataclass(frozen=True)
class RollbackPart:
    """What the ranks of an incarnation did between two rollbacks. `taken` is how many steps their processes had taken
    before."""

    ranks: dict[int, RankLifetime]
    taken: int = 0


@dataclass
class Rollbacks:
    """Finds them in one incarnation after the other: `had` are the states that each rank was in so far, by lifetime,
    `saved` what it saved in the lifetimes before."""

    had: dict[int, list[Sequence[str | None]]] = field(default_factory=dict)
    saved: dict[int, list[Save]] = field(default_factory=dict)

    def parts(self, ranks: Mapping[int, RankLifetime]) -> Iterator[RollbackPart]:
        """An incarnation, divided at every rollback; where there was none, in one piece."""
        cuts = sorted({cut for rank, lifetime in ranks.items() for cut in self._cuts(rank, lifetime)})
        rest, taken = dict(ranks), 0
        for cut in cuts:
            n = cut - 1 - taken
            # One rank may read what all of them go on with.
            t = min(
                (load.begun for lifetime in rest.values() for load in lifetime.loads if load.n == n), default=None
            )
            if t is None:
                continue
            yield RollbackPart({rank: lifetime.until(n, t) for rank, lifetime in rest.items()}, taken)
            rest = {rank: lifetime.since(n, t) for rank, lifetime in rest.items() if _goes_on(lifetime, n, t)}
            taken += n
        yield RollbackPart(rest, taken)

    def _cuts(self, rank: int, lifetime: RankLifetime) -> Iterator[int]:
        """The numbers of the first steps after a rollback: a load came before them, and since the step before the state
        has become one that the rank had been in earlier. Much else is read in mid-lifetime; it leaves the state alone.

        A rank that goes back right after a checkpoint, for a first step that it left out, is in the state that it had
        been in: then what it read has to be what it had saved before that step."""
        had = self.had.setdefault(rank, [])
        steps, states = lifetime.steps, lifetime.steps.columns.get(STATE, [])
        loaded = {number for number in lifetime.loaded if number > 1} if states else ()
        for place in [at for at, number in enumerate(steps.numbers) if number in loaded] if loaded else ():
            number, state, before = steps.numbers[place], states[place], states[place - 1] if place else None
            back = state is not None and any(state in one for one in (*had, states[:place]))
            if back and (state != before or self._read_again(rank, lifetime, number - 1)):
                yield number
        had.append(states)
        self.saved.setdefault(rank, []).extend(lifetime.saves)

    def _read_again(self, rank: int, lifetime: RankLifetime, n: int) -> bool:
        """Whether the step `n` was left out, and what was read after it had been saved before it."""
        if n not in lifetime.left_out or any(save.n == n for save in lifetime.saves):
            return False
        earlier = [*self.saved.get(rank, []), *(save for save in lifetime.saves if save.n < n)]
        contents = [load.content.items() for load in lifetime.loads if load.n == n and load.ok and load.content]
        return any(2 * len(read & save.content.items()) > len(read) for read in contents for save in earlier)


def _goes_on(lifetime: RankLifetime, n: int, t: float) -> bool:
    """Whether the lifetime shows anything after its first `n` steps."""
    begun = [save.begun for save in lifetime.saves] + [load.begun for load in lifetime.loads]
    return lifetime.steps.past(n) < len(lifetime.steps) or max(begun, default=0.0) >= t
