"""`FeltProcessor`: what the ranks of a pod got of its processors, and for how long they waited for one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

#: Seconds for which the ranks must have wanted a processor, before anything is said of the share that they got.
_LEAST = 0.1

Threads = Mapping[str, Sequence[float]]


def share_of(ran: float, waited: float) -> float:
    """Of the time in which threads wanted a processor, the part in which they had one."""
    return ran / (ran + waited) if ran + waited else 1.0


class FeltProcessor:
    """What threads do from now on. `ask` gives `processor_use` of the agent for these pids; `ranks` tells those of the
    ranks, which may change."""

    def __init__(self, ask: Callable[[Sequence[int]], Mapping[str, Any]], ranks: Callable[[], Sequence[int]]) -> None:
        self._ask, self._ranks = ask, ranks
        found = ask(ranks())
        ran, waited = _sums(found["threads"])
        age = float(found["age"])
        #: The threads that wanted a processor at once, on the average of their lives; and what they got.
        self.wanted = (ran + waited) / age if age else 0.0
        self.before = {"processors": round(ran / age, 3) if age else 0.0, "share": round(share_of(ran, waited), 3)}
        self.is_counted = bool(found["threads"])
        self._first: dict[str, Sequence[float]] = {}
        self._last: dict[str, Sequence[float]] = {}
        self._since = 0.0

    def begin(self, strangers: Collection[int]) -> None:
        """Count from now on; for `strangers`, see `look`."""
        found = self._ask([*self._ranks(), *strangers])
        self._first = self._last = dict(found["threads"])
        self._since = float(found["at"])

    def look(self, strangers: Collection[int], *, aimed: float) -> dict[str, Any]:
        """What was got since `begin`: `processors` and `share` of the ranks, `others`, the processors of `strangers`,
        the pids of those who take what the ranks want.

        The ranks `felt` it if the strangers ran longer than they did, and their share fell by more than half of what is
        `aimed` at: to a part of what it was, which on a busy machine is less than 1.
        """
        found = self._ask([*self._ranks(), *strangers])
        self._last = self._last | found["threads"]
        seconds = max(float(found["at"]) - self._since, 1e-9)
        strange = {name for name in self._last if int(name.partition("/")[0]) in strangers}
        ran, waited = self._spent(self._last.keys() - strange)
        others, _ = self._spent(strange)
        share = share_of(ran, waited)
        fell = share <= self.before["share"] * (1 + aimed) / 2
        return {
            "processors": round(ran / seconds, 3),
            "share": round(share, 3),
            "others": round(others / seconds, 3),
            "felt": ran + waited >= _LEAST and others > ran and fell,
        }

    def _spent(self, names: set[str]) -> tuple[float, float]:
        now, then = ({name: all_[name] for name in names if name in all_} for all_ in (self._last, self._first))
        (ran, waited), (ran_then, waited_then) = _sums(now), _sums(then)
        return ran - ran_then, waited - waited_then


def _sums(threads: Threads) -> tuple[float, float]:
    return sum(one[0] for one in threads.values()), sum(one[1] for one in threads.values())
