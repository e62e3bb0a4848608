"""`SdcMap`: the outcomes of all corruptions: the share of each outcome by target, change and step."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from chaoskit.analysis.stats.wilson import wilson
from chaoskit.studies.sdc.changes import CHANGES
from chaoskit.studies.sdc.plan import InjectionPlan, TrialResult
from chaoskit.studies.sdc.sample import Injection, Sample
from chaoskit.studies.sdc.slot import Subject
from chaoskit.studies.sdc.trace import CLASSES, Class

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True)
class Share:
    """How many of `of` corruptions had an outcome, and the 95 % interval of the share."""

    hits: int
    of: int

    @property
    def value(self) -> float:
        return self.hits / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.hits, self.of)

    @property
    def vague(self) -> bool:
        """Whether so few corruptions say nothing sure: the interval is wider than half of the range."""
        low, high = self.interval
        return high - low > 0.5

    def to_json(self) -> dict[str, Any]:
        low, high = self.interval
        return {"hits": self.hits, "share": round(self.value, 4), "low": round(low, 4), "high": round(high, 4)}


@dataclass(frozen=True)
class SdcMap:
    """`results` are in the order of the sample, `refused` are corruptions that changed nothing, `closed` maps targets
    that were not tested further to the reason. `controls` were all bitwise equal to the reference, `repeated`
    corruptions had the same outcome in their own launches; `apart` says why corruptions no longer shared launches."""

    run: str
    seed: int
    window: int
    tolerance: float
    steps: tuple[int, ...]
    places: tuple[str, ...]
    results: tuple[TrialResult, ...]
    refused: tuple[tuple[Injection, str], ...]
    closed: dict[str, str]
    launches: int
    controls: int
    repeated: int
    apart: str
    seconds: float

    @classmethod
    def of(
        cls, plan: InjectionPlan, subject: Subject, sample: Sample, *, tolerance: float, seconds: float
    ) -> SdcMap:
        """Make the map from the results of a plan."""
        first = sample.windows[0]
        return cls(
            run=str(subject.run_dir),
            seed=sample.seed,
            window=first.closes - first.struck,
            tolerance=tolerance,
            steps=tuple(window.struck for window in sample.windows),
            places=tuple(str(place) for place in sample.places),
            results=tuple(plan.results[number] for number in sorted(plan.results)),
            refused=tuple(plan.refused[number] for number in sorted(plan.refused)),
            closed=dict(plan.closed),
            launches=plan.launches,
            controls=plan.controls,
            repeated=plan.repeated,
            apart=plan.apart,
            seconds=seconds,
        )

    @property
    def whole(self) -> int:
        """The number of corruptions at the beginning of the sample that were all tested."""
        tried = {one.injection.number for one in self.results} | {one.number for one, _ in self.refused}
        return next((number - 1 for number in range(1, len(tried) + 2) if number not in tried), 0)

    @property
    def shared(self) -> int:
        """The number of corruptions that began in a restored state, after another one in the same launch."""
        return sum(not one.alone for one in self.results)

    def count(self, becomes: Class, some: Sequence[TrialResult] | None = None) -> Share:
        """Return the share of an outcome among `some` results (None: all)."""
        some = self.results if some is None else some
        return Share(sum(one.outcome.becomes == becomes for one in some), len(some))

    def by_place(self) -> dict[str, dict[Class, Share]]:
        return self._by(self.places, lambda one: str(one.injection.cell.place))

    def by_change(self) -> dict[str, dict[Class, Share]]:
        return self._by(CHANGES, lambda one: one.injection.cell.change)

    def by_step(self) -> dict[int, dict[Class, Share]]:
        return self._by(self.steps, lambda one: one.injection.window.struck)

    def cell(self, place: str, change: str) -> dict[Class, Share]:
        """Return the shares of one target and change."""
        cell = (place, change)
        return self._by([cell], lambda one: (str(one.injection.cell.place), one.injection.cell.change))[cell]

    def _by(self, keys: Iterable[_Key], key: Callable[[TrialResult], _Key]) -> dict[_Key, dict[Class, Share]]:
        return {
            each: {
                becomes: self.count(becomes, [one for one in self.results if key(one) == each])
                for becomes in CLASSES
            }
            for each in keys
        }

    def to_json(self) -> dict[str, Any]:
        """Return the map as JSON; `docs/reference/format.md` documents the fields."""
        return {
            "schema": 1,
            "run": self.run,
            "seed": self.seed,
            "window": self.window,
            "tolerance": self.tolerance,
            "steps": list(self.steps),
            "injections": len(self.results),
            "refused": len(self.refused),
            "whole": self.whole,
            "launches": self.launches,
            "shared": self.shared,
            "controls": self.controls,
            "repeated": self.repeated,
            "apart": self.apart,
            "seconds": round(self.seconds, 1),
            "outcomes": {becomes: self.count(becomes).to_json() for becomes in CLASSES},
            "places": _shares(self.by_place()),
            "changes": _shares(self.by_change()),
            "by_step": _shares(self.by_step()),
            "closed": self.closed,
            "corruptions": [_entry(one) for one in self.results],
        }


def _shares(found: dict[Any, dict[Class, Share]]) -> dict[str, Any]:
    return {
        str(name): {"of": next(iter(shares.values())).of, **{k: share.to_json() for k, share in shares.items()}}
        for name, shares in found.items()
    }


def _entry(one: TrialResult) -> dict[str, Any]:
    injection, outcome = one.injection, one.outcome
    effect = {name: one.effect.get(name) for name in ("where", "dtype", "before", "after", "changed", "of")}
    return {
        "number": injection.number,
        "place": str(injection.cell.place),
        "change": injection.cell.change,
        "step": injection.window.struck,
        "rank": injection.rank,
        **effect,
        "becomes": outcome.becomes,
        "how": outcome.how,
        "noticed_at": outcome.step,
        "worst": None if math.isinf(outcome.worst) else outcome.worst,
        "last": None if math.isinf(outcome.last) else outcome.last,
        "alone": one.alone,
    }
