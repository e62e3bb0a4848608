"""Published failure rates, by class of component, with their sources.

A rate is a mean time between failures of one unit: a GPU, a node, a rack. `mtbf_gpu_hours` of a whole job is the GPU
hours that pass between two failures of any class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from chaoskit.validation import check_choice, check_number, check_whole

#: How the ranks learn of a failure: a process ends; they wait for a timeout; nobody learns of it for hours; the node is
#: told before.
Symptom = Literal["crash", "hang", "silent", "notice"]
Unit = Literal["gpu", "node", "rack"]


@dataclass(frozen=True)
class FailureClass:
    """Components of one kind. `mtbf_hours` is that of one `unit`, `shape` that of a Weibull distribution of lifetimes
    (1: exponential; under 1: more failures early; over 1: wear). Each component is new at the start and after its
    failure. `nodes_lost` is how many nodes of the job each failure takes away until they are repaired."""

    name: str
    unit: Unit
    mtbf_hours: float
    symptom: Symptom = "crash"
    nodes_lost: int = 0
    shape: float = 1.0

    def __post_init__(self) -> None:
        where = f"FailureClass {self.name}"
        check_choice(where, "unit", self.unit, ("gpu", "node", "rack"))
        check_choice(where, "symptom", self.symptom, ("crash", "hang", "silent", "notice"))
        check_number(where, "mtbf_hours", self.mtbf_hours, over=0, most=1e30)
        check_number(where, "shape", self.shape, least=0.5, most=10)
        check_whole(where, "nodes_lost", self.nodes_lost, least=0)

    def shaped(self, shape: float, *, hours: float) -> FailureClass:
        """The same with another shape, and a mean with which as many new components fail in their first `hours`."""
        check_number(f"FailureClass {self.name}", "shape", shape, least=0.5, most=10)
        scale = hours * math.pow(self.scale_hours / hours, self.shape / shape)
        return replace(self, mtbf_hours=scale * math.gamma(1 + 1 / shape), shape=shape)

    def expected(self, hours: float) -> float:
        """About how many times one component, new at the start, fails in so many hours: its cumulative hazard while
        that is under 1, and what the renewal theorem says of later."""
        hazard = math.pow(hours / self.scale_hours, self.shape)
        if hazard <= 1:
            return hazard
        squared = math.gamma(1 + 2 / self.shape) / math.gamma(1 + 1 / self.shape) ** 2 - 1
        return max(1.0, hours / self.mtbf_hours + (squared - 1) / 2)

    @property
    def scale_hours(self) -> float:
        """The scale of the Weibull distribution whose mean is `mtbf_hours`."""
        return self.mtbf_hours / math.gamma(1 + 1 / self.shape)


@dataclass(frozen=True)
class FailurePreset:
    """What one source says of failures: their rate, and the classes that share it. `source` cites it."""

    name: str
    source: str
    mtbf_gpu_hours: float
    classes: tuple[FailureClass, ...]

    def scaled(self, mtbf_gpu_hours: float) -> FailurePreset:
        """The same shares at another mean time between failures of the whole job."""
        factor = check_number("failures", "mtbf_gpu_hours", mtbf_gpu_hours, over=0) / self.mtbf_gpu_hours
        scaled = tuple(replace(each, mtbf_hours=each.mtbf_hours * factor) for each in self.classes)
        return replace(self, mtbf_gpu_hours=mtbf_gpu_hours, classes=scaled)

    def shaped(self, shape: float, *, hours: float) -> FailurePreset:
        """The same with Weibull lifetimes: in the first `hours` of new components as many fail as before, but earlier
        (`shape` under 1) or later."""
        check_number("failures", "hours", hours, over=0)
        return replace(self, classes=tuple(each.shaped(shape, hours=hours) for each in self.classes))


#: GPUs of a node in all of these studies.
GPUS_PER_NODE = 8
#: Table 5 of the Llama 3 paper: unexpected interruptions in 54 days, by cause.
LLAMA_GPUS, LLAMA_DAYS, LLAMA_INTERRUPTIONS = 16_384, 54, 419
LLAMA_EFFECTIVE = 0.9
#: By class: the failures, the unit, how the ranks learn of one, the nodes that it takes away.
_LLAMA: Mapping[str, tuple[int, Unit, Symptom, int]] = {
    "GPU and its memory": (148 + 72 + 19 + 17 + 6, "gpu", "crash", 1),
    "host": (32 + 7 + 3 + 3 + 2 + 2 + 2 + 2, "node", "hang", 1),
    "network": (35, "node", "hang", 1),
    "software": (54 + 2, "gpu", "crash", 0),
    "collective timeout": (7, "gpu", "hang", 0),
    "silent data corruption": (6, "gpu", "silent", 1),
}
#: Mean hours to a failure, by the GPUs of a job.
_HOURS_BY_SIZE = ((1_024, 7.9), (16_384, 1.8))
#: The rule of thumb: of 1,000 nodes a day leaves all alone with a probability of 0.999^1000 = 0.37.
_NODE_DAY = 0.001


def _llama() -> FailurePreset:
    hours = LLAMA_GPUS * LLAMA_DAYS * 24
    units = {"gpu": 1, "node": GPUS_PER_NODE, "rack": 0}
    classes = tuple(
        FailureClass(name, unit, hours / units[unit] / count, symptom, nodes)
        for name, (count, unit, symptom, nodes) in _LLAMA.items()
    )
    source = (
        "The Llama 3 Herd of Models (2024), table 5: 419 unexpected interruptions in 54 days on 16,384 GPUs, by cause. "
        "Which causes hang is assumed"
    )
    return FailurePreset("llama3", source, hours / LLAMA_INTERRUPTIONS, classes)


def preset(name: str, *, gpus: int) -> FailurePreset:
    """Return a preset for a job of so many GPUs; raises UsageError for an unknown name.

    `llama3`: Llama 3's interruptions by cause. `mttf-by-size`: the mean time to failure that a study of two clusters
    gives by job size, between its two sizes on a straight line of logarithms. `node-day`: each node fails with a
    probability of 0.1 % a day. The last two have the shares of `llama3`.
    """
    llama = _llama()
    match check_choice("failures", "preset", name, PRESETS):
        case "mttf-by-size":
            source = (
                "Kokolis et al., Revisiting Reliability in Large-Scale Machine Learning Research Clusters (2025): mean "
                "time to failure 7.9 h at 1,024 GPUs and 1.8 h at 16,384. Shares of the causes: llama3"
            )
            return replace(llama.scaled(mttf_hours(gpus) * gpus), name=name, source=source)
        case "node-day":
            hours = -24 / math.log1p(-_NODE_DAY) * GPUS_PER_NODE
            source = "rule of thumb: a node fails with a probability of 0.1 % a day. Shares of the causes: llama3"
            return replace(llama.scaled(hours), name=name, source=source)
    return llama


#: The names that `preset` knows.
PRESETS = ("llama3", "mttf-by-size", "node-day")


def mttf_hours(gpus: int) -> float:
    """The mean hours to a failure of a job of so many GPUs (Kokolis et al., 2025); beyond the published sizes it is
    inversely proportional to the GPUs."""
    check_whole("mttf_hours", "gpus", gpus, least=1)
    (low, most), (high, least) = _HOURS_BY_SIZE
    if gpus <= low or gpus >= high:
        size, hours = (low, most) if gpus <= low else (high, least)
        return hours * size / gpus
    share = math.log(gpus / low) / math.log(high / low)
    return math.exp(math.log(most) + share * math.log(least / most))
