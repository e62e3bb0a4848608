"""`InjectionPlan`: decides which corruptions share a launch, and verifies that their outcomes are valid.

A corruption after another one in the same launch begins in a restored state. chaoskit verifies that this is equivalent
to its own launch:

- a corruption counts only if in the step before it every component and loss of every rank equals the reference;
- regularly a control, a window without a corruption, must equal the reference in every step;
- regularly a corruption is repeated in its own launch, and must have bitwise the same outcome.

If one of these fails, the job has state that cannot be restored: the affected results are discarded, and every further
corruption gets its own launch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from chaoskit.analysis.reference.reference import Reference
from chaoskit.errors import Undecided
from chaoskit.studies.sdc.changes import USUAL, VALUES
from chaoskit.studies.sdc.sample import Injection, Sample, Stratum
from chaoskit.studies.sdc.slot import Trial
from chaoskit.studies.sdc.trace import CorruptionOutcome, judge
from chaoskit.studies.sdc.windows import WatchWindow

#: Number of corruptions in shared launches between two controls, and between two repetitions.
CONTROL_EVERY, REPEAT_EVERY = 10, 25
#: Number of failed restores after which launches are no longer shared.
FAILED_RESTORES = 5
#: A target whose first corruptions all changed nothing is not tested further.
REFUSALS = 4
#: Number of corruptions per window to choose from for the next launch.
AHEAD = 4


@dataclass(frozen=True)
class TrialResult:
    """A corruption, its effect as reported by the rank, and its outcome; `alone`: first in its launch."""

    injection: Injection
    effect: Mapping[str, Any]
    outcome: CorruptionOutcome
    alone: bool


class InjectionPlan:
    """Thread-safe. Tests at most `most` corruptions of the sample (None: as many as the time allows)."""

    def __init__(self, sample: Sample, reference: Reference, *, most: int | None, tolerance: float) -> None:
        self.results: dict[int, TrialResult] = {}
        #: Corruptions that changed nothing, and why.
        self.refused: dict[int, tuple[Injection, str]] = {}
        #: Targets that are not tested further, and why.
        self.closed: dict[str, str] = {}
        self.controls = self.repeated = self.launches = 0
        #: Why corruptions no longer share launches.
        self.apart = ""
        self._reference, self._tolerance, self._most = reference, tolerance, most
        self._places = {str(place) for place in sample.places}
        self._windows = list(sample.windows)
        self._stream = iter(sample)
        self._random = Random(f"{sample.seed}/repeat")
        self._waiting: list[Injection] = []
        self._drawn = self._failed_restores = self._under_way = 0
        #: The types of numbers by target, and by corruption.
        self._dtypes: dict[str | int, str] = {}
        self._unproved: list[int] = []
        self._unrepeated: list[int] = []
        self._repeats: set[int] = set()
        self._lonely: set[int] = set()
        self._turn = threading.Lock()

    @property
    def over(self) -> bool:
        """Whether all work is done."""
        with self._turn:
            self._draw()
            return not self._waiting and not self._under_way

    def part(self, why: str) -> None:
        """Give every further corruption its own launch."""
        self.apart = self.apart or why
        self._unrepeated.clear()

    def take(self) -> list[Trial]:
        """Return the trials of the next launch in order of their windows; empty if there is nothing to do now."""
        with self._turn:
            self._draw()
            trials = self._repeat() or self._load()
            self._under_way += bool(trials)
            self.launches += bool(trials)
            return trials

    def put(self, taken: Sequence[Trial], done: Iterable[Trial]) -> None:
        """Store the results of a launch; trials that it did not reach wait again."""
        with self._turn:
            self._under_way -= 1
            left = {trial.window: trial for trial in taken}
            for trial in done:
                del left[trial.window]
                if trial.injection is None:
                    self._control(trial)
                elif trial.injection.number in self._repeats:
                    self._compare(trial, trial.injection)
                else:
                    self._take_in(trial, trial.injection)
            for trial in left.values():
                if trial.injection is not None and trial.injection.number in self._repeats:
                    self._repeats.discard(trial.injection.number)
                elif trial.injection is not None:
                    self._again(trial.injection)

    # The next launch.

    def _draw(self) -> None:
        """Draw enough corruptions to choose from. Closed targets stay closed."""
        self._waiting = [one for one in self._waiting if str(one.cell.place) not in self.closed]
        enough = 0 if self._places <= set(self.closed) else AHEAD * len(self._windows)
        while len(self._waiting) < enough and (self._most is None or self._drawn < self._most):
            injection = next(self._stream)
            self._drawn += 1
            if str(injection.cell.place) not in self.closed:
                self._waiting.append(injection)

    def _load(self) -> list[Trial]:
        """Return the corruption that waits longest, and others around it. One that probably ends the job comes last."""
        if not self._waiting:
            return []
        first = self._waiting[0]
        load = [first]
        if not self.apart and first.number not in self._lonely:
            before = [w for w in self._windows if w.opens < first.window.opens]
            after = [w for w in self._windows if w.opens > first.window.opens]
            load = [one for window in before if (one := self._waiting_in(window, harmless=True)) is not None]
            load.append(first)
            for window in after:
                if self._ends_job(load[-1].cell):
                    break
                if (one := self._waiting_in(window)) is not None:
                    load.append(one)
        trials = [self._trial(one) for one in load]
        due = not self.controls or len(self._unproved) >= CONTROL_EVERY
        if due and len(trials) > 1 and not self._ends_job(load[0].cell):
            trials[1] = Trial(trials[1].window)  # its corruption waits for a later launch
        taken = {trial.injection.number for trial in trials if trial.injection is not None}
        self._waiting = [one for one in self._waiting if one.number not in taken]
        return trials

    def _waiting_in(self, window: WatchWindow, *, harmless: bool = False) -> Injection | None:
        found = (one for one in self._waiting if one.window == window and one.number not in self._lonely)
        return next((one for one in found if not (harmless and self._ends_job(one.cell))), None)

    def _ends_job(self, cell: Stratum) -> bool:
        """Whether the corruption probably ends the job, judging by earlier results of its cell, or of its change."""
        own = [one for one in self.results.values() if one.injection.cell == cell]
        seen = own or [one for one in self.results.values() if one.injection.cell.change == cell.change]
        if not seen:
            return cell.change == "nan"
        return 2 * sum(one.outcome.over for one in seen) > len(seen)

    def _trial(self, one: Injection) -> Trial:
        usual = self._dtypes.get(str(one.cell.place), USUAL)
        return Trial(one.window, one, self._dtypes.get(one.number, usual))

    def _repeat(self) -> list[Trial]:
        if self.apart or len(self._unrepeated) < REPEAT_EVERY:
            return []
        number = self._random.choice(self._unrepeated)
        self._unrepeated.clear()
        self._repeats.add(number)
        one = self.results[number].injection
        return [self._trial(one)]

    # The results.

    def _take_in(self, trial: Trial, one: Injection) -> None:
        if self.apart and not trial.alone:
            return self._again(one)
        if not trial.trace.opened(trial.window, self._reference):
            if trial.alone:
                raise Undecided(
                    f"step {trial.window.opens} of a launch without faults differs from the uninterrupted runs",
                    code="not-deterministic",
                )
            self._failed_restores += 1
            if self._failed_restores >= FAILED_RESTORES:
                self.part("the restored state was not equal to the stored one")
            return self._again(one)
        effect = trial.trace.effect
        if effect is None or "refused" in effect:
            return self._refuse(
                one, trial, "the job did not reach it" if effect is None else str(effect["refused"])
            )
        dtype = str(effect["dtype"])
        if dtype != trial.dtype and one.cell.change not in VALUES:
            # The bits have a different meaning in this type. The same number is tested again.
            if one.number in self._dtypes:
                return self._refuse(one, trial, f"the type of the number changed to {dtype}")
            self._dtypes[one.number] = self._dtypes[str(one.cell.place)] = dtype
            return self._again(one)
        outcome = judge(trial.trace, trial.window, self._reference, tolerance=self._tolerance)
        self.results[one.number] = TrialResult(one, effect, outcome, trial.alone)
        if not trial.alone:
            self._unproved.append(one.number)
            self._unrepeated.append(one.number)

    def _refuse(self, one: Injection, trial: Trial, why: str) -> None:
        if trial.trace.end is not None and not trial.alone:
            self._lonely.add(one.number)
            return self._again(one)
        self.refused[one.number] = one, why
        place = str(one.cell.place)
        refusals = sum(str(other.cell.place) == place for other, _ in self.refused.values())
        if refusals >= REFUSALS and not any(str(r.injection.cell.place) == place for r in self.results.values()):
            self.closed[place] = why

    def _control(self, trial: Trial) -> None:
        if trial.alone:
            return
        if trial.trace.exact(trial.window, self._reference):
            self.controls += 1
            self._unproved.clear()
            return
        self.part("a control without a corruption differed from the uninterrupted run")
        self._discard(self._unproved)

    def _compare(self, trial: Trial, one: Injection) -> None:
        self._repeats.discard(one.number)
        former = self.results.get(one.number)
        if former is None:
            return
        again = judge(trial.trace, trial.window, self._reference, tolerance=self._tolerance)
        if again.signature == former.outcome.signature:
            self.repeated += 1
            return
        self.part(f"corruption {one.number} had a different outcome in its own launch")
        self._discard([number for number, result in self.results.items() if not result.alone])

    def _discard(self, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            if (result := self.results.pop(number, None)) is not None:
                self._again(result.injection)
        self._unproved.clear()

    def _again(self, one: Injection) -> None:
        self._waiting.append(one)
        self._waiting.sort(key=lambda each: each.number)
