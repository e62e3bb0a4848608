"""`Upgrade`: the effect of an upgrade: experiments under both interpreters, and checkpoints exchanged between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from chaoskit.engine.runner import Runner
from chaoskit.errors import ExitCode, UsageError
from chaoskit.job import Job
from chaoskit.studies.nights.comparison import SuiteComparison, compare_suites
from chaoskit.studies.nights.suite import Suite
from chaoskit.studies.upgrade.band import LossTolerance, measure
from chaoskit.studies.upgrade.crossing import Crossing, Side, cross
from chaoskit.studies.upgrade.interpreter import Interpreter, differences
from chaoskit.verdict import Outcome

#: The sides that save and resume each checkpoint; the controls come first.
WAYS = (("old", "old"), ("new", "new"), ("old", "new"), ("new", "old"))


@dataclass(frozen=True)
class Upgrade:
    """Two sides and the results so far: `suites` has the experiments of each side by name, `crossings` the exchanged
    checkpoints, judged with the tolerance `band` (None: not measured yet)."""

    old: Side
    new: Side
    band: LossTolerance | None = None
    suites: Mapping[str, Suite] = field(default_factory=dict)
    crossings: tuple[Crossing, ...] = ()

    @classmethod
    def of(cls, old: Interpreter, new: Interpreter, job: Job, *, band: LossTolerance | None = None) -> Upgrade:
        """Make an upgrade without results; `job` is as typed. Raises UsageError if an interpreter cannot run the
        command."""
        one, other = (Side(*named, _as_run_by(named[1], job)) for named in (("old", old), ("new", new)))
        return cls(one, other, band)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Old and new."""
        return self.old, self.new

    @cached_property
    def differences(self) -> Mapping[str, tuple[str | None, str | None]]:
        """The versions that differ, by name."""
        return differences(self.old.interpreter, self.new.interpreter)

    @cached_property
    def comparison(self) -> SuiteComparison | None:
        """The comparison of the two suites; None if one is missing or empty."""
        try:
            return compare_suites(self.suites["old"], self.suites["new"])
        except (KeyError, UsageError):
            return None

    @cached_property
    def worse(self) -> tuple[str, ...]:
        """The findings that became worse, in words."""
        return tuple(dict.fromkeys(self._worse()))

    def _worse(self) -> Iterator[str]:
        for change in self.comparison.changed("worse") if self.comparison is not None else ():
            yield f"{change.name.rpartition('::')[2]} is {change.new.verdict}, and was {change.old.verdict}"
        for drift in self.comparison.parted if self.comparison is not None else ():
            gap = drift.largest.gap.relative if drift.largest is not None else 0.0
            if self.band is not None and self.band.stated and not gap <= self.band.value:
                yield f"the uninterrupted runs differ by {gap:.3g}, more than --band {self.band.value:g}"
        for one in self.crossings:
            if one.outcome is Outcome.FAIL:
                yield one.phrase + (" (control, without an upgrade)" if one.is_control else "")

    @cached_property
    def untold(self) -> tuple[str, ...]:
        """The questions that stay undecided, in words."""
        reasons = list(self.comparison.gaps) if self.comparison is not None else ["a suite to compare is missing"]
        reasons += [one.phrase for one in self.crossings if one.outcome is Outcome.INCONCLUSIVE]
        if missing := len(WAYS) - len(self.crossings):
            reasons.append(f"{missing} of {len(WAYS)} checkpoints were not tested")
        return tuple(reasons)

    @property
    def exit_code(self) -> ExitCode:
        """FAIL if something got worse, INCONCLUSIVE if something is undecided, else PASS."""
        return ExitCode.FAIL if self.worse else ExitCode.INCONCLUSIVE if self.untold else ExitCode.PASS

    def measured(self, runner: Runner) -> Upgrade:
        """Return the upgrade with the uninterrupted run of each side, and with a measured tolerance if none was
        stated."""
        old, new = (side.measured(runner) for side in self.sides)
        return replace(self, old=old, new=new, band=self.band or measure(old.reference, new.reference))

    def carried(self, runner: Runner) -> Iterator[Upgrade]:
        """Test the checkpoints, after `measured`; yields the upgrade after each one."""
        assert self.band is not None
        sides, found = {side.name: side for side in self.sides}, self
        for saves, resumes in WAYS:
            crossing = cross(runner, sides[saves], sides[resumes], self.band)
            found = replace(found, crossings=(*found.crossings, crossing))
            yield found


def _as_run_by(interpreter: Interpreter, job: Job) -> Job:
    return replace(job, command=interpreter.command(job.command))
