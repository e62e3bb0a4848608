"""`Board`: which states are still to be visited, and what is known of the others by now.

What a job did in one visit it would do in every state that looks the same where it looked (`chaoskit.crash.sight`):
such states are judged with it. Whether that holds of this job is tried out: some of them are visited all the same, and
where one comes to something else, likeness is worth nothing, and every state is visited.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from chaoskit.crash import State
from chaoskit.crash.sight import Look, Sight
from chaoskit.visits import Answer

#: So many of the states that were judged by likeness are visited all the same, and a share of what was visited.
TRIED, TRIED_SHARE = 8, 0.1


@dataclass
class Visit:
    """A state that was visited, what the job did, what it had looked at, and the states that look the same there."""

    index: int
    answer: Answer
    sight: Sight
    alike: list[int] = field(default_factory=list)


class Board:
    """For several threads. At most `most` visits are made (None: as many as it takes)."""

    def __init__(self, states: Sequence[State], *, most: int | None, seed: int) -> None:
        self.states = states
        self.visits: list[Visit] = []
        #: How many states were visited to try out likeness, and how many of these came to something else.
        self.tried = self.unlike = 0
        self._most = len(states) if most is None else most
        self._random = Random(seed)
        self._waiting = deque(range(len(states)))
        self._begun = 0
        self._trials: dict[int, Visit] = {}
        self._turn = threading.Lock()

    @property
    def judged(self) -> int:
        """How many states are judged by now."""
        return len(self.visits) + sum(len(visit.alike) for visit in self.visits)

    def answers(self) -> dict[int, tuple[Answer, bool]]:
        """By the place of each state that is judged: what the job does, and whether that was seen."""
        found = {index: (visit.answer, False) for visit in self.visits for index in visit.alike}
        return found | {visit.index: (visit.answer, True) for visit in self.visits}

    def take(self) -> int | None:
        """The next state to visit; None if there is none, or no visit left."""
        with self._turn:
            while self._waiting and self._begun < self._most:
                index = self._waiting.popleft()
                if not self._judge_alike(index):
                    self._begun += 1
                    return index
            return self._trial()

    def put(self, index: int, answer: Answer) -> None:
        """A state was visited."""
        sight = Sight.of(self.states[index].tree, (Look(what, path) for what, path in answer.looks))  # type: ignore[arg-type]
        with self._turn:
            visit = Visit(index, answer, sight)
            model = self._trials.pop(index, None)
            if model is not None:
                self.tried += 1
                if model.answer.said != answer.said:
                    self._distrust()
            self.visits.append(visit)

    def _judge_alike(self, index: int) -> bool:
        if self.unlike:
            return False
        tree = self.states[index].tree
        for visit in self.visits:
            if visit.sight.fits(tree):
                visit.alike.append(index)
                return True
        return False

    def _trial(self) -> int | None:
        """One of those that were judged by likeness, if not enough of them have been visited."""
        wanted = max(TRIED, round(TRIED_SHARE * (len(self.visits) - self.tried)))
        from_these = [visit for visit in self.visits if visit.alike]
        if not from_these or self._begun >= self._most or self.tried + len(self._trials) >= wanted:
            return None
        model = self._random.choice(from_these)
        index = model.alike.pop(self._random.randrange(len(model.alike)))
        self._trials[index] = model
        self._begun += 1
        return index

    def _distrust(self) -> None:
        self.unlike += 1
        for visit in self.visits:
            self._waiting.extend(visit.alike)
            visit.alike.clear()
