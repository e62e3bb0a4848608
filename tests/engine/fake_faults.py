"""An action by hand, and a record in memory, for the parts of the controller on their own."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaoskit.faults import Fault
from chaoskit.faults.triggers import After, AtStep


@dataclass
class FakeAction:
    """`seen` is what `observed` returns, one after the other, None for ever after; an exception in it is raised. The
    methods called are in `calls`."""

    name: str = "fake"
    needs: tuple = ()
    heal_after: float | None = None
    heal_launches: int | None = None
    holds: bool = True
    observe_within: float | None = None
    tick_every: float | None = None
    heal_step: int | None = None
    seen: list = field(default_factory=list)
    missing: bool = False
    calls: list = field(default_factory=list)

    def victims(self, world_size):
        return (0,)

    def apply(self, env, world_size):
        self.calls.append("apply")
        if self.missing:
            raise LookupError("nobody there")
        return {"applied": True}

    def observed(self, env, applied):
        self.calls.append("observed")
        said = self.seen.pop(0) if self.seen else None
        if isinstance(said, Exception):
            raise said
        return said

    def tick(self, env, applied):
        self.calls.append("tick")
        return {"ticks": applied.get("ticks", 0) + 1}

    def heal(self, env, applied):
        self.calls.append("heal")
        return {"healed": self.name}

    def to_json(self):
        return {"kind": self.name}


def at_step(step, **traits):
    return Fault(FakeAction(**traits), AtStep(step))


def after(seconds, **traits):
    return Fault(FakeAction(**traits), After(seconds))


class Record:
    """Takes what an `EventWriter` takes, and the phases of `Progress`."""

    def __init__(self):
        self.events, self.phases = [], []

    def write(self, kind, **data):
        self.events.append((kind, data))

    def phase(self, text):
        self.phases.append(text)

    @property
    def kinds(self):
        return [kind for kind, _ in self.events]
