"""`TrialScheduler`: chooses the states for resume trials, and judges equivalent states together.

A job behaves identically on all states that agree in everything it read (`chaoskit.analysis.crash_model.observed`), so
one trial judges all of them. This assumption is verified for each job: some of the equivalent states get their own
trial, and if one has a different result, every state gets its own trial.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from chaoskit.analysis.crash_model import State
from chaoskit.analysis.crash_model.observed import Access, ObservedState
from chaoskit.studies.crash_states.resume_trial import Answer

#: Number of equivalent states with their own trial, to verify the equivalence: a minimum, and a share of the trials.
TRIED, TRIED_SHARE = 8, 0.1


@dataclass
class ResumeTrial:
    """A tested state, the answer of the job, the part of the state that it read, and the equivalent states."""

    index: int
    answer: Answer
    observed: ObservedState
    equivalent: list[int] = field(default_factory=list)


class TrialScheduler:
    """Thread-safe. Allows at most `most` trials (None: no limit)."""

    def __init__(self, states: Sequence[State], *, most: int | None, seed: int) -> None:
        self.states = states
        self.trials: list[ResumeTrial] = []
        #: Number of trials that verified the equivalence, and of those with a different result.
        self.tried = self.unlike = 0
        self._most = len(states) if most is None else most
        self._random = Random(seed)
        self._waiting = deque(range(len(states)))
        self._begun = 0
        self._verifying: dict[int, ResumeTrial] = {}
        self._lock = threading.Lock()

    @property
    def judged(self) -> int:
        """The number of judged states."""
        return len(self.trials) + sum(len(trial.equivalent) for trial in self.trials)

    def answers(self) -> dict[int, tuple[Answer, bool]]:
        """Map the index of each judged state to the answer of the job, and to whether the state had its own trial."""
        found = {index: (trial.answer, False) for trial in self.trials for index in trial.equivalent}
        return found | {trial.index: (trial.answer, True) for trial in self.trials}

    def take(self) -> int | None:
        """Return the next state to test; None if there is none, or no trial is left."""
        with self._lock:
            while self._waiting and self._begun < self._most:
                index = self._waiting.popleft()
                if not self._judge_equivalent(index):
                    self._begun += 1
                    return index
            return self._verification()

    def put(self, index: int, answer: Answer) -> None:
        """Store the answer for a tested state."""
        accesses = (Access(what, path) for what, path in answer.accesses)  # type: ignore[arg-type]
        observed = ObservedState.of(self.states[index].tree, accesses)
        with self._lock:
            model = self._verifying.pop(index, None)
            if model is not None:
                self.tried += 1
                if model.answer.signature != answer.signature:
                    self._distrust()
            self.trials.append(ResumeTrial(index, answer, observed))

    def _judge_equivalent(self, index: int) -> bool:
        if self.unlike:
            return False
        tree = self.states[index].tree
        for trial in self.trials:
            if trial.observed.fits(tree):
                trial.equivalent.append(index)
                return True
        return False

    def _verification(self) -> int | None:
        """Return a state judged by equivalence, if not enough of them have had their own trial."""
        wanted = max(TRIED, round(TRIED_SHARE * (len(self.trials) - self.tried)))
        candidates = [trial for trial in self.trials if trial.equivalent]
        if not candidates or self._begun >= self._most or self.tried + len(self._verifying) >= wanted:
            return None
        model = self._random.choice(candidates)
        index = model.equivalent.pop(self._random.randrange(len(model.equivalent)))
        self._verifying[index] = model
        self._begun += 1
        return index

    def _distrust(self) -> None:
        self.unlike += 1
        for trial in self.trials:
            self._waiting.extend(trial.equivalent)
            trial.equivalent.clear()
