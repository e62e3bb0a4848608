"""`Inputs`: the numbers that a forecast takes, each with its origin, and the plan that they make.

A number that the user states comes first, then one that a suite measured, then the default. What was measured on a few
ranks is not what many do: such a number is `extrapolated`, and says what it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from chaoskit.analysis.checkpoints.cost import CheckpointCost
from chaoskit.studies.forecast.assumptions import ASSUMPTIONS, duration, size
from chaoskit.studies.forecast.measured import MeasuredJob
from chaoskit.studies.forecast.plan import HOUR, Checkpointing, Cluster, Plan, RecoveryCosts
from chaoskit.studies.forecast.presets import FailureClass, FailurePreset, preset
from chaoskit.validation import check_number, check_whole

#: Where a number comes from. `measured`: by chaoskit, and it does not change with the size of the job.
Origin = Literal["stated", "measured", "extrapolated", "assumed"]
#: The default price of a GPU hour.
PRICE = 3.0


@dataclass(frozen=True)
class ForecastRequest:
    """What the user asks: a job of `gpus` that needs `days` of training. `price` is in USD for a GPU hour, None for the
    default; `mtbf_gpu_hours` None takes that of the `failures` preset. `stated` are assumptions that the user
    replaces."""

    gpus: int
    days: float
    price: float | None = None
    mtbf_gpu_hours: float | None = None
    failures: str = "llama3"
    stated: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        check_whole("forecast", "gpus", self.gpus, least=1, most=10_000_000)
        check_number("forecast", "days", self.days, over=0, most=3650)
        if self.price is not None:
            check_number("forecast", "price", self.price, over=0, most=1e6)
        if self.mtbf_gpu_hours is not None:
            check_number("forecast", "mtbf_gpu_hours", self.mtbf_gpu_hours, over=0, most=1e12)


@dataclass(frozen=True)
class ForecastNumber:
    """One number: its value (times in seconds), how it is shown, where it comes from, and how to replace it."""

    name: str
    text: str
    value: float
    shown: str
    origin: Origin
    source: str
    change: str


@dataclass(frozen=True)
class Inputs:
    """The figures of a forecast, and the plan of today. `asynchronous` is how it would save in the background,
    `warm_relaunch_seconds` how long a relaunch with kept processes takes."""

    figures: tuple[ForecastNumber, ...]
    plan: Plan
    price: float
    asynchronous: Checkpointing
    warm_relaunch_seconds: float
    checkpoint_bytes: float
    keep: int
    delta_share: float
    storage_price: float

    def figure(self, name: str) -> ForecastNumber:
        """The figure of that name."""
        return next(each for each in self.figures if each.name == name)


def inputs(request: ForecastRequest, found: MeasuredJob | None = None) -> Inputs:
    """Gather the numbers. Raises UsageError for a combination that cannot be, such as more spares than nodes."""
    own = _Gathering(request, found)
    known = own.failures()
    price = own.price()
    cluster = Cluster(
        request.gpus,
        gpus_per_node=own.whole("gpus-per-node"),
        nodes_per_rack=own.whole("nodes-per-rack"),
        spares=own.whole("spares"),
        spare_seconds=own.number("spare-joins"),
        repair_hours=own.number("repair") / HOUR,
        elastic=bool(own.number("elastic")),
    )
    bytes_, bandwidth = own.number("checkpoint-size"), own.number("bandwidth")
    writing = own.writing(bytes_, bandwidth)
    behind = own.asynchronous()
    held = own.held_up()
    interval = own.number("interval")
    memory = own.number("memory-interval")
    copies = memory if 0 < memory < interval else None
    block = Checkpointing(
        interval, writing, memory_interval_seconds=copies, memory_seconds=own.number("memory-blocking")
    )
    asynchronous = replace(
        block, blocking_seconds=min(held, writing), background_seconds=max(0.0, writing - held)
    )
    saves = asynchronous if behind else block
    recovery = RecoveryCosts(
        crash_seconds=own.crash(),
        hang_seconds=own.hang(),
        relaunch_seconds=own.relaunch(),
        load_seconds=own.at_bandwidth("load", "reading the checkpoint", bytes_ / bandwidth),
        silent_hours=own.number("silent-detection") / HOUR,
        failed_share=own.failed_share(),
        failed_seconds=own.number("person"),
        extra_intervals=own.extra(),
        notice_seconds=own.number("notice"),
    )
    plan = Plan(request.days, cluster, saves, recovery, own.classes(known, cluster))
    warm, keep = own.number("warm-relaunch"), max(1, own.keep())
    delta, storage = own.number("delta-share"), own.number("storage-price")
    return Inputs(tuple(own.figures), plan, price, asynchronous, warm, bytes_, keep, delta, storage)


#: What changes a time that follows from others.
_SIZES = "--assume checkpoint-size=... --assume bandwidth=..."


class _Gathering:
    """Collects the figures, each once, in the order in which they are asked for."""

    def __init__(self, request: ForecastRequest, found: MeasuredJob | None) -> None:
        self._request, self._found, self._stated = request, found, dict(request.stated or {})
        self.figures: list[ForecastNumber] = []

    def failures(self) -> FailurePreset:
        """The failures of the preset, at the rate and shape that were stated."""
        request = self._request
        known = preset(request.failures, gpus=request.gpus)
        stated = request.mtbf_gpu_hours
        mtbf = known.mtbf_gpu_hours if stated is None else stated
        source = known.source if stated is None else f"you; shares of the causes: {known.source}"
        self._add("mtbf-gpu-hours", "GPU hours between two failures", mtbf, f"{mtbf:,.0f} h",
                  "assumed" if stated is None else "stated", source, f"--mtbf-gpu-hours {mtbf:.0f}")  # fmt: skip
        return known.scaled(mtbf).shaped(self.number("shape"), hours=request.days * 24)

    def price(self) -> float:
        """USD for a GPU hour."""
        price = self._request.price
        value = PRICE if price is None else price
        self._add("price", "USD for a GPU hour", value, f"USD {value:,.2f}", "assumed" if price is None else "stated",
                  "a guess; it changes no time" if price is None else "you", f"--price {value:g}")  # fmt: skip
        return value

    def number(self, name: str) -> float:
        """A number that no suite measures: stated, or the default."""
        known = ASSUMPTIONS[name]
        if name in self._stated:
            return self._tell(name, self._stated[name], "stated", "you")
        return self._tell(name, known.default_for(self._request.gpus), "assumed", known.source)

    def whole(self, name: str) -> int:
        """The same, of a count."""
        return int(self.number(name))

    def at_bandwidth(self, name: str, text: str, seconds: float) -> float:
        """A time that follows from the size of a checkpoint and the bandwidth: assumed unless both are stated."""
        origin: Origin = "stated" if {"checkpoint-size", "bandwidth"} <= self._stated.keys() else "assumed"
        self._add(name, text, seconds, duration(seconds), origin, "checkpoint-size / bandwidth", _SIZES)
        return seconds

    def writing(self, bytes_: float, bandwidth: float) -> float:
        """Seconds to write one checkpoint: what was measured, and what is larger than there at the bandwidth."""
        cost, text = self._cost, "writing one checkpoint"
        base = None if cost is None else max(cost.blocking_seconds or 0.0, cost.whole_seconds or 0.0)
        if cost is None or not base:
            return self.at_bandwidth("writing", text, bytes_ / bandwidth)
        there = cost.bytes or 0
        seconds = base + max(0.0, bytes_ - there) / bandwidth
        kinds = " and ".join(each.kind for each in cost.parts)
        how = f"{kinds} took {duration(base)} for {size(there)} on {cost.ranks} ranks; the rest at the bandwidth"
        self._add("writing", text, seconds, duration(seconds), "extrapolated", how, _SIZES)
        return seconds

    def asynchronous(self) -> bool:
        """Whether the steps go on meanwhile."""
        cost = self._cost
        if "asynchronous" in self._stated or cost is None:
            return bool(self.number("asynchronous"))
        how = "the record of the uninterrupted run"
        return bool(self._tell("asynchronous", float(cost.background), "measured", how))

    def held_up(self) -> float:
        """Seconds for which an asynchronous save still holds up the steps."""
        cost = self._cost
        known = cost is not None and cost.background and cost.blocking_seconds is not None
        if "async-blocking" in self._stated or cost is None or not known:
            return self.number("async-blocking")
        how = f"the median over the saves on {cost.ranks} ranks; a larger copy takes longer"
        return self._tell("async-blocking", cost.blocking_seconds or 0.0, "extrapolated", how)

    def crash(self) -> float:
        """Seconds until all ranks have stopped after one of them has ended."""
        found = self._found
        if "crash-detection" in self._stated or found is None or found.crash_seconds is None:
            return self.number("crash-detection")
        how = f"the median of {_experiments(found.crashes)} on {_ranks(found)}; more nodes take longer"
        return self._tell("crash-detection", found.crash_seconds, "extrapolated", how)

    def hang(self) -> float:
        """Seconds until ranks that wait give up."""
        found = self._found
        if "hang-detection" in self._stated or found is None or found.hang_seconds is None:
            return self.number("hang-detection")
        how = "the longest timeout that was seen: in an experiment that waited, or that of the job's collectives"
        return self._tell("hang-detection", found.hang_seconds, "measured", how)

    def relaunch(self) -> float:
        """Seconds from the stopped job to ranks that load."""
        found = self._found
        if "relaunch" in self._stated or found is None or found.restart_seconds is None:
            return self.number("relaunch")
        if not found.cold:
            value = self.number("relaunch")
            how = (
                f"{ASSUMPTIONS['relaunch'].source}. The suite launched warm ({duration(found.restart_seconds)}), which "
                "a cluster does not: 'chaoskit run --launch cold' measures it"
            )
            self.figures[-1] = replace(self.figures[-1], source=how)
            return value
        doublings = max(0.0, math.log2(self._request.gpus / max(1, found.ranks or 1)))
        seconds = found.restart_seconds + doublings * self.number("relaunch-growth")
        how = (
            f"{duration(found.restart_seconds)} on {_ranks(found)} (median of {_experiments(found.restarts)}), and "
            f"relaunch-growth for {doublings:.1f} doublings"
        )
        return self._tell("relaunch", seconds, "extrapolated", how)

    def failed_share(self) -> float:
        """The share of recoveries that need a person."""
        found = self._found
        if "failed-recoveries" in self._stated or found is None or not found.judged:
            return self.number("failed-recoveries")
        low, high = found.failed_interval
        how = (
            f"{found.failed} of {_experiments(found.judged)} that stopped the job did not come back (95 %: "
            f"{100 * low:.0f} to {100 * high:.0f} %)"
        )
        if not found.failed:
            # None of a few is no proof of none.
            value = self.number("failed-recoveries")
            self.figures[-1] = replace(self.figures[-1], source=f"{self.figures[-1].source}; of the suite {how}")
            return value
        how += "; each kind of fault counts as equally frequent"
        return self._tell("failed-recoveries", found.failed / found.judged, "extrapolated", how)

    def keep(self) -> int:
        """How many checkpoints the job keeps: what its directory has at the end, in sizes of a checkpoint."""
        cost = self._cost
        if "keep" in self._stated or cost is None or not cost.bytes or cost.kept_bytes is None:
            return self.whole("keep")
        how = f"the job's directory has {size(cost.kept_bytes)} at its end, a checkpoint {size(cost.bytes)}"
        return int(self._tell("keep", float(round(cost.kept_bytes / cost.bytes)), "measured", how))

    def extra(self) -> float:
        """Further checkpoint intervals that each resume loses."""
        lag = self._found.extra_intervals if self._found is not None else None
        origin: Origin = "assumed" if lag is None else "extrapolated"
        how = "a job that resumes from its newest valid checkpoint" if lag is None else "mean over the experiments"
        self._add("extra-intervals", "further checkpoint intervals that a resume loses", lag or 0.0, f"{lag or 0:.2g}",
                  origin, how, "mend what resumes from older checkpoints")  # fmt: skip
        return lag or 0.0

    def classes(self, known: FailurePreset, cluster: Cluster) -> tuple[FailureClass, ...]:
        """The classes of failures, with those of racks and of spot nodes if they were stated."""
        further = []
        if rack := self.number("rack-mtbf"):
            lost = min(cluster.nodes_per_rack, cluster.nodes)
            further.append(FailureClass("rack", "rack", rack / HOUR, "hang", lost))
        if spot := self.number("spot-mtbf"):
            further.append(FailureClass("spot reclaim", "node", spot / HOUR, "notice", 1))
        return (*known.classes, *further)

    @property
    def _cost(self) -> CheckpointCost | None:
        return self._found.cost if self._found is not None else None

    def _tell(self, name: str, value: float, origin: Origin, source: str) -> float:
        known = ASSUMPTIONS[name]
        self._add(name, known.text, value, known.shown(value), origin, source, known.written(value))
        return value

    def _add(
        self, name: str, text: str, value: float, shown: str, origin: Origin, source: str, change: str
    ) -> None:
        self.figures.append(ForecastNumber(name, text, value, shown, origin, source, change))


def _experiments(count: int) -> str:
    return "1 experiment" if count == 1 else f"{count} experiments"


def _ranks(found: MeasuredJob) -> str:
    return "an unknown number of ranks" if found.ranks is None else f"{found.ranks} ranks"
