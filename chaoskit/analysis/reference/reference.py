"""`Reference`: what an uninterrupted run does, measured at least twice, and whether the measurements agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from chaoskit.analysis.alignment.global_steps import GlobalSteps
from chaoskit.analysis.record.history import History
from chaoskit.analysis.record.rank_lifetime import RankLifetime, Tensors, common_settings
from chaoskit.analysis.record.replicas import why_no_replicas
from chaoskit.analysis.record.steps import Step, Steps
from chaoskit.analysis.reference.controls import require_complete
from chaoskit.analysis.reference.divergence import Divergence, apart_at, part
from chaoskit.analysis.reference.finite import require_finite
from chaoskit.errors import UsageError
from chaoskit.validation import check_whole

#: Streams that are seeded from the system where the job does not seed them.
UNSEEDED = frozenset({"rng.python", "rng.numpy"})

#: Of fewer controls nobody can say how they spread.
FEWEST = 3


@dataclass(frozen=True)
class Reference:
    """The controls and what they say. `path` and `digest` tell where they are kept and of which job they are;
    `seconds` is how long the longest took, `mode` how the job is to be launched, in JSON, `port` where its ranks met in
    each of them, if that is the same. Make it by `Reference.of`."""

    controls: tuple[History, ...]
    path: str = ""
    digest: str = ""
    seconds: float = 0.0
    mode: Mapping[str, Any] = field(default_factory=dict)
    port: int | None = None

    @classmethod
    def of(
        cls,
        controls: Sequence[History],
        *,
        path: str = "",
        digest: str = "",
        seconds: float = 0.0,
        mode: Mapping[str, Any] | None = None,
        port: int | None = None,
    ) -> Reference:
        """The reference that two or more uninterrupted runs give.

        Raises ReferenceFailed for a control that did not finish in one piece (code `reference-failed`), whose steps
        were not all seen (`probe-blind`) or that trained on NaN (`reference-nonfinite`), UsageError for fewer than two.
        """
        if len(controls) < 2:
            raise UsageError(f"Reference: controls must be at least two runs, not {len(controls)}")
        for number, control in enumerate(controls, start=1):
            require_complete(control, f"control {number} of {len(controls)}")
            require_finite(control, f"control {number} of {len(controls)}")
        return cls(tuple(controls), path, digest, seconds, mode or {}, port)

    @property
    def _lifetimes(self) -> Mapping[int, RankLifetime]:
        return self.controls[0].incarnations[0].ranks

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self.controls[0].world_size

    @property
    def nodes(self) -> int:
        """The number of nodes that the ranks lived on."""
        return len({lifetime.node for lifetime in self._lifetimes.values()})

    @property
    def group_timeout(self) -> float | None:
        """After how many seconds a collective gives up, on the most impatient rank; None if that is not known."""
        return min(
            (t for lifetime in self._lifetimes.values() if (t := lifetime.group_timeout) is not None), default=None
        )

    @property
    def no_collective(self) -> str:
        """Why there is no first collective to strike; empty if there is one."""
        if self.world_size == 1:
            return "the job has only one rank, so no other one waits for it in a collective"
        if not all(lifetime.grouped for lifetime in self._lifetimes.values()):
            return "not every rank makes a process group of torch.distributed, so there is no first collective"
        return ""

    @property
    def no_replicas(self) -> str:
        """Why no rank holds a replica of another's model, by the job's design; empty if one does, or if that is
        unknown."""
        return why_no_replicas(self.controls[0].incarnations[0])

    @property
    def settings(self) -> Mapping[str, str]:
        """The versions and flags that the ranks computed with, as far as they are the same on all."""
        return common_settings(self._lifetimes.values())

    @property
    def steps(self) -> int:
        """The number of optimizer steps of the whole training, the same on every rank."""
        return len(self._lifetimes[0].steps)

    def step(self, rank: int, number: int) -> Step | None:
        """What `rank` did in step `number` (from 1); None for a rank or a step that the reference has not."""
        lifetime = self._lifetimes.get(rank)
        return lifetime.steps[number - 1] if lifetime is not None and 1 <= number <= len(lifetime.steps) else None

    def tensors(self, rank: int, number: int) -> Tensors:
        """The fingerprints of single tensors in step `number` of `rank`; empty if they were not taken."""
        lifetime = self._lifetimes.get(rank)
        return lifetime.tensors.get(number, {}) if lifetime is not None else {}

    def begins(self, rank: int, number: int, stream: str) -> Mapping[str, str]:
        """What a random stream of `rank` was as step `number` began, by the point at which that was seen: at the step
        before (`step`), as the batch was drawn (`draw`), as the first forward pass began (`forward`)."""
        lifetime = self._lifetimes.get(rank)
        if lifetime is None:
            return {}
        found = {at: named[stream] for at, named in lifetime.begins.get(number, {}).items() if stream in named}
        before = self.step(rank, number - 1)
        if before is not None and stream in before.components:
            found["step"] = before.components[stream]
        return found

    def is_idle(self, rank: int, stream: str) -> bool:
        """Whether a random stream of `rank` moves after the first step, and all that is drawn from it then is drawn for
        nobody: by data loaders, for workers that they do not have. One shuffle in any epoch, and it is not idle."""
        lifetime = self._lifetimes.get(rank)
        column = lifetime.steps.column(stream) if lifetime is not None else None
        if lifetime is None or column is None:
            return False
        drawn = lifetime.idle_draws.get(stream, {})
        return len(set(column)) > 1 and all(_leads(drawn, own, other) for own, other in pairwise(column))

    @cached_property
    def _calls(self) -> dict[int, dict[int, int]]:
        calls: dict[int, dict[int, int]] = {}
        for rank, lifetime in self._lifetimes.items():
            for save in lifetime.saves:
                at = calls.setdefault(save.n, {})
                at[rank] = at.get(rank, 0) + 1
        return calls

    @cached_property
    def saves(self) -> tuple[int, ...]:
        """The positions past 0 at which any rank saved a checkpoint, ascending.

        Saves of weights alone are exports and do not count, unless the job makes no others.
        """
        made = [save for lifetime in self._lifetimes.values() for save in lifetime.saves if save.n > 0]
        full = [save for save in made if save.full]
        return tuple(sorted({save.n for save in full or made}))

    @cached_property
    def saves_by_step(self) -> bool:
        """Whether the controls saved at the same positions, and not, say, by the clock."""
        made = [
            {
                save.n
                for lifetime in control.incarnations[0].ranks.values()
                for save in lifetime.saves
                if save.n > 0
            }
            for control in self.controls
        ]
        return all(one == made[0] for one in made)

    def savers(self, position: int) -> tuple[int, ...]:
        """The ranks that saved at `position`."""
        return tuple(sorted(self._calls.get(position, ())))

    def save_calls(self, rank: int, position: int) -> int:
        """How many calls that write checkpoint data `rank` made at `position`."""
        return self._calls.get(position, {}).get(rank, 0)

    @property
    def epochs(self) -> tuple[int, ...]:
        """The positions at which rank 0 began to iterate over a data loader, ascending."""
        return tuple(sorted({n for n in self._lifetimes[0].epochs if n < self.steps}))

    def middle_of_epoch(self, n: int) -> int:
        """A step in epoch `n` (from 1), near its middle but between two saves, where a kill costs something.

        If the epoch has a save inside it, the step comes after one: a resume that forgot its place in the data would
        pass unseen from a checkpoint that was made between two epochs. Where the epoch is not known: a step in the
        middle between two saves. Always from 2 to the last step. Where no save of the job could be resumed from by
        then, and one can later: a step behind that save, for a resume from nothing would show nothing.
        """
        check_whole("middle_of_epoch", "n", n, least=1)
        step, first = self._inside_epoch(n), self.first_to_resume_from
        return step if first is None or step >= first else max(self.middle_after_save(1), first)

    @property
    def first_to_resume_from(self) -> int | None:
        """The first step at which a fault finds a checkpoint to resume from: a save counts as made, with everything
        that publishes it, once the next step is done. Steps that were taken while it was written count twice, for the
        next writer may be slower. None where no save is followed by so many steps."""
        if not self.saves:
            return None
        first = self.saves[0]
        late = [
            lifetime.steps.before(save.ended) - first
            for control in self.controls
            for lifetime in control.incarnations[0].ranks.values()
            for save in lifetime.saves
            if save.n == first and save.ended is not None
        ]
        behind = max(late, default=0)
        return next((step for k in (2, 1) if (step := first + k * behind + 2) <= self.steps), None)

    def _inside_epoch(self, n: int) -> int:
        starts = [*self.epochs, self.steps]
        if n < len(starts) and starts[n] - starts[n - 1] > 1:
            first, last = starts[n - 1], starts[n]
            inside = [save for save in self.saves if first < save < last - 1]
            spans = [(a, b) for a, b in zip(inside, [*inside[1:], last], strict=False) if b - a > 2]
            middle = (first + last) / 2
            span = min(spans, key=lambda ab: abs((ab[0] + ab[1]) / 2 - middle), default=(first, last))
            return self._middle(*span)
        between = [(a, b) for a, b in zip(self.saves, [*self.saves[1:], self.steps], strict=False) if b - a > 1]
        # Past the second save there is an older checkpoint to fall back on by mistake.
        past = between[1:] or between
        return self._middle(*past[len(past) // 2]) if past else self._middle(0, self.steps)

    def middle_after_save(self, n: int) -> int:
        """A step in the middle between save `n` (from 1) and the next one or the end; from 2 to the last step.

        Raises UsageError where the reference has no such save.
        """
        check_whole("middle_after_save", "n", n, least=1)
        if n > len(self.saves):
            raise UsageError(f"middle_after_save: there is no save {n}, the job saves {len(self.saves)} times")
        bounds = [*self.saves, self.steps]
        return self._middle(bounds[n - 1], bounds[n])

    def _middle(self, low: int, high: int) -> int:
        """The step nearest to the middle of the positions from `low` to `high` that is not next to a save."""
        middle = (low + high) // 2 + 1
        inside = [step for step in range(low + 1, high + 1) if 2 <= step <= self.steps]
        free = [step for step in inside if not {step - 1, step} & {*self.saves}] or inside
        return min(free or [min(max(middle, 2), self.steps)], key=lambda step: (abs(step - middle), step))

    @cached_property
    def samples(self) -> frozenset[str]:
        """Every sample that any rank consumes."""
        return frozenset(one for _, steps in self.traces() for text in set(steps.samples) for one in text.split())

    @cached_property
    def rows(self) -> Mapping[str, frozenset[str]]:
        """Of which rows of the data set each sample was made, as far as that is known."""
        found: dict[str, set[str]] = {}
        for _, steps in self.traces():
            for samples, rows in zip(steps.samples, steps.rows, strict=True):
                if rows:
                    for sample, row in zip(samples.split(), rows.split(), strict=False):
                        found.setdefault(sample, set()).add(row)
        return {sample: frozenset(own) for sample, own in found.items()}

    def may_be(self, sample: str, row: str) -> bool:
        """Whether a sample may have been made of that row by random numbers: it was, or was never seen."""
        return row in self.rows.get(sample, (row,))

    @cached_property
    def divergence(self) -> Divergence | None:
        """Where the controls first differ, idle streams aside; None if they agree to the bit."""
        partings = (part(self.controls[0], other, self.idle) for other in self.controls[1:])
        return min((p for p in partings if p is not None), key=lambda p: (p.step, p.rank), default=None)

    @property
    def deterministic(self) -> bool:
        """Whether the controls agree to the bit in every loss and component."""
        return self.divergence is None

    @property
    def statistical(self) -> bool:
        """Whether the controls differ, and are enough of them to tell how far."""
        return not self.deterministic and len(self.controls) >= FEWEST

    @property
    def idle(self) -> frozenset[str]:
        """Random streams that nobody seeds and that move nothing: all that the controls differ in, if it is only such.

        Python seeds `random` from the system in every process, numpy its global generator; some library draws from
        one of them to name a file, and the training never does.
        """
        return self._apart if self._apart <= UNSEEDED else frozenset()

    @property
    def agreeing(self) -> frozenset[str]:
        """The components in which the controls agree at every step of every rank, as far as both recorded it."""
        names = {name for lifetime in self._lifetimes.values() for name in lifetime.steps.columns}
        return frozenset(names - self._apart)

    @cached_property
    def _apart(self) -> frozenset[str]:
        apart: set[str] = set()
        for rank, lifetime in self._lifetimes.items():
            for other in self.controls[1:]:
                found = other.incarnations[0].ranks.get(rank)
                steps = found.steps if found is not None else Steps()
                apart.update(name for name, place in apart_at(lifetime.steps, steps) if place is not None)
        return frozenset(apart)

    @cached_property
    def sharded(self) -> frozenset[str]:
        """The components of which no rank alone has the whole, as far as their parts were recorded."""
        return frozenset(name for lifetime in self._lifetimes.values() for name in lifetime.steps.parts)

    @cached_property
    def global_steps(self) -> GlobalSteps:
        """What all ranks did together, for runs that go on with another number of them."""
        return GlobalSteps.of(
            {rank: lifetime.steps for rank, lifetime in self._lifetimes.items()}, self.world_size
        )

    @property
    def known_steps(self) -> int:
        """At how many steps the state was recorded, on the rank and in the control with the fewest."""
        ranks = (own for control in self.controls for own in control.incarnations[0].ranks.values())
        return min(len(own.steps) - own.steps.thin.count(1) for own in ranks)

    def traces(self) -> Iterator[tuple[int, Steps]]:
        """The steps of every rank of the first control, as `alignment.Index` wants them."""
        for rank, lifetime in self._lifetimes.items():
            yield rank, lifetime.steps

    def all_traces(self) -> Iterator[Iterator[tuple[int, Steps]]]:
        """The same of every control."""
        for control in self.controls:
            yield ((rank, lifetime.steps) for rank, lifetime in control.incarnations[0].ranks.items())


def _leads(drawn: Mapping[str, str], own: str | None, other: str | None) -> bool:
    """Whether these draws, one after the other, lead from one state of a stream to another."""
    for _ in range(len(drawn) + 1):
        if own == other:
            return True
        own = drawn.get(own or "")
    return False
