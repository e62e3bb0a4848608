"""`Plan`: which corruptions share a launch, and whether what came of them can be trusted.

A corruption that comes after another one in the same launch begins in a state that was put back. That this is as good
as a launch of its own is never assumed:

- it counts only if in the step before it every component and loss of every rank was that of an uninterrupted run;
- now and then a control, a window in which nothing is made wrong, has to be an uninterrupted run throughout;
- now and then one of them is repeated in a launch of its own, and has to come to the same, to the bit.

Where one of these fails the job keeps something that cannot be put back: what rests on it is thrown away, and every
corruption gets a launch of its own from then on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from chaoskit.errors import Undecided
from chaoskit.reference import Reference
from chaoskit.sdc.changes import USUAL, VALUES
from chaoskit.sdc.sample import Cell, Injection, Sample
from chaoskit.sdc.slot import Trial
from chaoskit.sdc.trace import Outcome, judge
from chaoskit.sdc.windows import Window

#: A control comes after so many corruptions that shared a launch, a repetition after so many.
CONTROL_EVERY, REPEAT_EVERY = 10, 25
#: So many failed beginnings, and sharing is given up.
STRIKES = 5
#: A place that refuses the first so many is not tried any more.
REFUSALS = 4
#: So many corruptions for each window are looked at when a launch is put together.
AHEAD = 4


@dataclass(frozen=True)
class Result:
    """A corruption, what the rank said of it, and what it came to; `alone` in a launch of its own."""

    injection: Injection
    effect: Mapping[str, Any]
    outcome: Outcome
    alone: bool


class Plan:
    """For several threads. At most `most` corruptions of the sample are tried (None: as many as there is time for)."""

    def __init__(self, sample: Sample, reference: Reference, *, most: int | None, tolerance: float) -> None:
        self.results: dict[int, Result] = {}
        #: Corruptions that changed nothing, and why.
        self.refused: dict[int, tuple[Injection, str]] = {}
        #: Places that are not tried any more, and why.
        self.closed: dict[str, str] = {}
        self.controls = self.repeated = self.launches = 0
        #: Why corruptions share no launch any more.
        self.apart = ""
        self._reference, self._tolerance, self._most = reference, tolerance, most
        self._places = {str(place) for place in sample.places}
        self._windows = list(sample.windows)
        self._stream = iter(sample)
        self._random = Random(f"{sample.seed}/repeat")
        self._waiting: list[Injection] = []
        self._drawn = self._strikes = self._under_way = 0
        #: Of the numbers of a place, and of those that a corruption has struck before.
        self._dtypes: dict[str | int, str] = {}
        self._unproved: list[int] = []
        self._unrepeated: list[int] = []
        self._repeats: set[int] = set()
        self._lonely: set[int] = set()
        self._turn = threading.Lock()

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do."""
        with self._turn:
            self._draw()
            return not self._waiting and not self._under_way

    def part(self, why: str) -> None:
        """Give every corruption a launch of its own from now on."""
        self.apart = self.apart or why
        self._unrepeated.clear()

    def take(self) -> list[Trial]:
        """The next launch: its trials, by window; none where there is nothing to do now."""
        with self._turn:
            self._draw()
            trials = self._repeat() or self._load()
            self._under_way += bool(trials)
            self.launches += bool(trials)
            return trials

    def put(self, taken: Sequence[Trial], done: Iterable[Trial]) -> None:
        """What came of a launch; what it did not come to waits again."""
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

    # What is next.

    def _draw(self) -> None:
        """Have enough to choose from. Places are closed for good."""
        self._waiting = [one for one in self._waiting if str(one.cell.place) not in self.closed]
        enough = 0 if self._places <= set(self.closed) else AHEAD * len(self._windows)
        while len(self._waiting) < enough and (self._most is None or self._drawn < self._most):
            injection = next(self._stream)
            self._drawn += 1
            if str(injection.cell.place) not in self.closed:
                self._waiting.append(injection)

    def _load(self) -> list[Trial]:
        """The corruption that waits longest, and others around it. One that is likely to end the job comes last."""
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
            trials[1] = Trial(trials[1].window)  # what it stands for waits on
        taken = {trial.injection.number for trial in trials if trial.injection is not None}
        self._waiting = [one for one in self._waiting if one.number not in taken]
        return trials

    def _waiting_in(self, window: Window, *, harmless: bool = False) -> Injection | None:
        found = (one for one in self._waiting if one.window == window and one.number not in self._lonely)
        return next((one for one in found if not (harmless and self._ends_job(one.cell))), None)

    def _ends_job(self, cell: Cell) -> bool:
        """Whether it is to be expected, by what came of the same cell so far, or of the same change."""
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

    # What came of it.

    def _take_in(self, trial: Trial, one: Injection) -> None:
        if self.apart and not trial.alone:
            return self._again(one)
        if not trial.trace.opened(trial.window, self._reference):
            if trial.alone:
                raise Undecided(
                    f"step {trial.window.opens} of an undisturbed launch was not that of the uninterrupted runs",
                    code="not-deterministic",
                )
            self._strikes += 1
            if self._strikes >= STRIKES:
                self.part("the state that was put back was not what had been kept")
            return self._again(one)
        effect = trial.trace.effect
        if effect is None or "refused" in effect:
            return self._refuse(one, trial, "it was never come to" if effect is None else str(effect["refused"]))
        dtype = str(effect["dtype"])
        if dtype != trial.dtype and one.cell.change not in VALUES:
            # Its bits mean something else. What is drawn there again is the same number.
            if one.number in self._dtypes:
                return self._refuse(one, trial, f"the number is of type {dtype} now, and was not before")
            self._dtypes[one.number] = self._dtypes[str(one.cell.place)] = dtype
            return self._again(one)
        outcome = judge(trial.trace, trial.window, self._reference, tolerance=self._tolerance)
        self.results[one.number] = Result(one, effect, outcome, trial.alone)
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
        self.part("a window in which nothing was made wrong was not that of an uninterrupted run")
        self._throw_away(self._unproved)

    def _compare(self, trial: Trial, one: Injection) -> None:
        self._repeats.discard(one.number)
        former = self.results.get(one.number)
        if former is None:
            return
        again = judge(trial.trace, trial.window, self._reference, tolerance=self._tolerance)
        if again.said == former.outcome.said:
            self.repeated += 1
            return
        self.part(f"corruption {one.number} came to something else in a launch of its own")
        self._throw_away([number for number, result in self.results.items() if not result.alone])

    def _throw_away(self, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            if (result := self.results.pop(number, None)) is not None:
                self._again(result.injection)
        self._unproved.clear()

    def _again(self, one: Injection) -> None:
        self._waiting.append(one)
        self._waiting.sort(key=lambda each: each.number)
