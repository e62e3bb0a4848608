"""`Upgrade`: what an upgrade changed: the experiments under both interpreters, and checkpoints across the border."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from chaoskit.errors import ExitCode, UsageError
from chaoskit.job import Job
from chaoskit.runner import Runner
from chaoskit.suites.contrast import Contrast, contrast
from chaoskit.suites.suite import Suite
from chaoskit.upgrade.band import Band, measure
from chaoskit.upgrade.crossing import Crossing, Side, cross
from chaoskit.upgrade.interpreter import Interpreter, differences
from chaoskit.verdict import Outcome

#: Each checkpoint that is carried, and whether it stays on its side: the controls come first.
WAYS = (("old", "old"), ("new", "new"), ("old", "new"), ("new", "old"))


@dataclass(frozen=True)
class Upgrade:
    """Two sides, and what was found so far: `suites` are what came of the experiments under each, by the side's name,
    `crossings` what came of the checkpoints, held to `band` (None: to be measured)."""

    old: Side
    new: Side
    band: Band | None = None
    suites: Mapping[str, Suite] = field(default_factory=dict)
    crossings: tuple[Crossing, ...] = ()

    @classmethod
    def of(cls, old: Interpreter, new: Interpreter, job: Job, *, band: Band | None = None) -> Upgrade:
        """Before anything has run; `job` is as it was typed. Raises UsageError for a command that one of the two cannot
        run."""
        one, other = (Side(*named, _as_run_by(named[1], job)) for named in (("old", old), ("new", new)))
        return cls(one, other, band)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Old and new."""
        return self.old, self.new

    @cached_property
    def differences(self) -> Mapping[str, tuple[str | None, str | None]]:
        """By name the versions that are not the same."""
        return differences(self.old.interpreter, self.new.interpreter)

    @cached_property
    def contrast(self) -> Contrast | None:
        """The two suites beside each other; None where one of them is missing or empty."""
        try:
            return contrast(self.suites["old"], self.suites["new"])
        except (KeyError, UsageError):
            return None

    @cached_property
    def worse(self) -> tuple[str, ...]:
        """What the upgrade made worse, in words."""
        return tuple(dict.fromkeys(self._worse()))

    def _worse(self) -> Iterator[str]:
        for change in self.contrast.changed("worse") if self.contrast is not None else ():
            yield f"{change.name.rpartition('::')[2]} is {change.new.verdict}, and was {change.old.verdict}"
        for drift in self.contrast.parted if self.contrast is not None else ():
            gap = drift.largest.gap.relative if drift.largest is not None else 0.0
            if self.band is not None and self.band.stated and not gap <= self.band.value:
                yield f"the uninterrupted runs lie {gap:.3g} apart, over --band {self.band.value:g}"
        for one in self.crossings:
            if one.outcome is Outcome.FAIL:
                yield one.phrase + (", with no upgrade in between" if one.is_control else "")

    @cached_property
    def untold(self) -> tuple[str, ...]:
        """What could not be told, in words."""
        told = list(self.contrast.gaps) if self.contrast is not None else ["there are no two suites to compare"]
        told += [one.phrase for one in self.crossings if one.outcome is Outcome.INCONCLUSIVE]
        if missing := len(WAYS) - len(self.crossings):
            told.append(f"{missing} of {len(WAYS)} checkpoints were not carried")
        return tuple(told)

    @property
    def exit_code(self) -> ExitCode:
        """For the shell: something got worse, or could not be told, or neither."""
        return ExitCode.FAIL if self.worse else ExitCode.INCONCLUSIVE if self.untold else ExitCode.PASS

    def measured(self, runner: Runner) -> Upgrade:
        """The same with the uninterrupted run of each side, and a band by how far these lie apart where none was
        stated."""
        old, new = (side.measured(runner) for side in self.sides)
        return replace(self, old=old, new=new, band=self.band or measure(old.reference, new.reference))

    def carried(self, runner: Runner) -> Iterator[Upgrade]:
        """Of one that was `measured`: the same with one more checkpoint each time."""
        assert self.band is not None
        sides, found = {side.name: side for side in self.sides}, self
        for saves, resumes in WAYS:
            crossing = cross(runner, sides[saves], sides[resumes], self.band)
            found = replace(found, crossings=(*found.crossings, crossing))
            yield found


def _as_run_by(interpreter: Interpreter, job: Job) -> Job:
    return replace(job, command=interpreter.command(job.command))
