"""Uninterrupted runs and windows of them, written by hand: for tests of what a corruption came to."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaoskit.analysis.record.steps import Step
from chaoskit.protocol.targets import InjectionTarget
from chaoskit.studies.sdc.sample import Injection, Stratum
from chaoskit.studies.sdc.slot import Trial
from chaoskit.studies.sdc.trace import End, Seen, Trace
from chaoskit.studies.sdc.windows import WatchWindow

#: What a rank says of a corruption.
EFFECT = {"where": "head.weight[3]", "dtype": "float32", "before": ["0x1.0p+0"], "after": ["0x1.0p+1"]}


def state(rank, step):
    """The components before a step."""
    return {"model": f"model@{step}", "batch": f"batch.{rank}@{step}", "rng.python": f"idle.{rank}"}


def loss(rank, step):
    """The loss of a step, to the bit."""
    return (1.0 + 1.0 / (step + rank + 1)).hex()


@dataclass
class Uninterrupted:
    """As much of a `Reference` as is asked for."""

    steps: int = 60
    world_size: int = 2
    idle: frozenset = frozenset({"rng.python"})
    sharded: frozenset = field(default_factory=frozenset)

    def step(self, rank, number):
        if not (0 <= rank < self.world_size and 1 <= number <= self.steps):
            return None
        return Step(number, float(number), (loss(rank, number),), state(rank, number))


def trace(window, *, ranks=2, until=None, change=lambda rank, step: {}, losses=None, end=None, effect=EFFECT):
    """A window in which everything is as uninterrupted but what `change` (components) and `losses` say."""
    made = Trace(end=end, effect=effect)
    for rank in range(ranks):
        for step in range(window.opens, (until or window.closes) + 1):
            found = (losses or {}).get((rank, step), (loss(rank, step),))
            more = change(rank, step)
            loaded, nonfinite = bool(more.pop("loaded", False)), more.pop("nonfinite", ())
            components = {**state(rank, step), "rng.python": "other", **more}
            made.add(rank, step, Seen(tuple(found), components, loaded, nonfinite))
    return made


def injection(number=1, *, opens=1, change="sign", place="parameter:*", rank=1):
    """One corruption."""
    stratum = Stratum(InjectionTarget.parse(place), change)
    return Injection(number, stratum, WatchWindow(opens, opens + 11), rank, 0.5, 7)


def done(trial, **told):
    """The trial as it comes back from a launch."""
    made = Trial(trial.window, trial.injection, trial.dtype, trial.alone)
    made.trace = trace(trial.window, **told)
    return made


__all__ = ["EFFECT", "End", "Uninterrupted", "done", "injection", "loss", "state", "trace"]
