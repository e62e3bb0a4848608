"""`NightPlan`: in which order the experiments of a night run, how long each is expected to take, and which one still
fits into the budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from chaoskit.engine.result import Result
from chaoskit.studies.nights.suite_history import SuiteHistory, Track
from chaoskit.studies.nights.verdict_changes import is_good

#: An experiment is expected to take the median of as many of its last nights.
RECENT = 5


@dataclass(frozen=True)
class NightPlan:
    """`order` has the names of the experiments; `expected` the seconds of those that earlier nights ran. `until` is the
    end of the budget by the monotonic clock; None for a night without one."""

    order: tuple[str, ...]
    expected: Mapping[str, float] = field(default_factory=dict)
    until: float | None = None

    @classmethod
    def of(cls, history: SuiteHistory, names: Sequence[str], *, job: str, until: float | None = None) -> NightPlan:
        """Plan a night of the experiments `names` of a `job`.

        First comes what did not run for longest, so that short nights take turns; among those of the last night first
        what did not pass; then as in `names`.
        """
        tracks = {track.name: track for track in history.of_job(job)}
        never = len(history.nights)

        def key(name: str) -> tuple[int, bool]:
            decided = tracks[name].decided if name in tracks else ()
            if not decided:
                return -never - 1, False
            night, result = decided[-1]
            return night - never, is_good(result)

        known = {name: seconds for name in names if (seconds := _usual(tracks.get(name))) is not None}
        return cls(tuple(sorted(names, key=key)), known, until)

    def seconds(self, name: str, *, tonight: Sequence[float] = ()) -> float:
        """How long an experiment is expected to take: as on its last nights; one that never ran as the median of those
        that ended `tonight`, else of all that are known; 0 if nothing is known, since nothing can be measured then
        without a first one."""
        if name in self.expected:
            return self.expected[name]
        others = list(tonight) or list(self.expected.values())
        return median(others) if others else 0.0

    def left(self, name: str, *, now: float, tonight: Sequence[float] = ()) -> tuple[float, float] | None:
        """None if an experiment may begin `now`, by the monotonic clock. Else the seconds that it is expected to take,
        and those that are left."""
        if self.until is None:
            return None
        needed, left = self.seconds(name, tonight=tonight), max(0.0, self.until - now)
        return (needed, left) if left == 0 or needed > left else None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"order": list(self.order), "expected": dict(self.expected), "until": self.until}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NightPlan:
        """The inverse of `to_json`."""
        return cls(tuple(data["order"]), data["expected"], data["until"])


def _usual(track: Track | None) -> float | None:
    """The median of the seconds of the last nights; None if it never ran."""
    found = [result.seconds for _, result in track.decided if result.seconds] if track is not None else []
    return median(found[-RECENT:]) if found else None


def unrun(results: Sequence[Result]) -> list[str]:
    """The names of the experiments for which a night had no time."""
    return [result.name for result in results if result.is_unrun]
