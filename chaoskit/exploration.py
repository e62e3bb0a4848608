"""`Exploration`: what came of the states of one save: all of them judged and counted, the failures told in stories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chaoskit.crash import CrashStates, State, shortest_stories
from chaoskit.runner import Run
from chaoskit.verdict import Outcome, merge
from chaoskit.visits import Answer

Class = Literal["exact", "lost-work", "crashed", "wrong", "hung"]
#: What becomes of a job that is shown a state, from good to bad.
CLASSES: dict[Class, str] = {
    "exact": "resumed exactly",
    "lost-work": "lost work",
    "crashed": "crashed until a person cleans up",
    "wrong": "resumed silently wrong",
    "hung": "hung",
}


@dataclass(frozen=True)
class Judged:
    """A state, what the job did when it was shown it, and what that comes to. Not `seen`: it was shown one that looks
    the same wherever it looked."""

    state: State
    answer: Answer
    becomes: Class
    due: tuple[int, ...]
    seen: bool = True

    @property
    def profile(self) -> str:
        """The mildest kind of crash that comes to this."""
        return self.state.profile

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of diagnosis; none where it resumed exactly."""
        answer, found = self.answer, []
        if self.becomes == "exact":
            return ()
        if self.profile != "kill":
            found.append("checkpoint-not-durable")
        if self.becomes == "lost-work":
            found.append("restarted-from-scratch" if answer.base == 0 else "stale-checkpoint")
        elif self.becomes == "wrong":
            found.append("exited-early" if answer.how == "ended" else "corrupt-accepted")
        else:
            found.append("torn-checkpoint")
        return (*found, "hang") if self.becomes == "hung" else tuple(found)

    @property
    def did(self) -> str:
        """What the job did, in words."""
        answer = self.answer
        due = " or ".join(map(str, self.due))
        if answer.how == "crashed":
            return f"the resume fails each time, with exit code {answer.codes[-1]}: {answer.words}"
        if answer.how == "hung":
            return f"the resume takes no step: {answer.words}"
        if answer.how == "ended":
            return f"the job ends with 0 and has taken no step: {answer.words}"
        if answer.base is None:
            return f"the job resumes with a model that no step of an uninterrupted run had; due was {due}"
        if answer.off:
            rank, names = next(iter(answer.off.items()))
            return (
                f"the job resumes from {answer.base} and accepts what is wrong: {', '.join(names)} of rank {rank}"
            )
        if self.becomes == "lost-work":
            return f"the job resumes from {answer.base}, and {due} was due"
        return f"the job resumes from {answer.base}, exactly"


@dataclass(frozen=True)
class Story:
    """Failing states of one kind: the shortest way to say how they come about, and what the job makes of them."""

    becomes: Class
    profile: str
    codes: tuple[str, ...]
    text: str
    did: str
    count: int

    def __str__(self) -> str:
        return f"{self.text}; {self.did}"


@dataclass(frozen=True)
class Exploration:
    """What came of one save. `position` is the step after which it was made; `seconds` went by while visiting. Of the
    states that were judged by likeness `tried` were visited all the same, and `unlike` came to something else."""

    run: Run
    position: int
    found: CrashStates
    judged: tuple[Judged, ...]
    seconds: float
    tried: int = 0
    unlike: int = 0

    @property
    def visited(self) -> int:
        """How many states the job was shown."""
        return sum(one.seen for one in self.judged)

    @property
    def outcome(self) -> Outcome:
        """A pass only if the job resumed exactly from every state that was visited."""
        if not self.judged:
            return Outcome.INCONCLUSIVE
        return merge(Outcome.PASS if one.becomes == "exact" else Outcome.FAIL for one in self.judged)

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(code for one in self.judged for code in one.codes))

    @property
    def per_minute(self) -> float:
        """How many states were judged in a minute."""
        return 60.0 * len(self.judged) / self.seconds if self.seconds else 0.0

    def count(self, becomes: Class, profile: str | None = None) -> int:
        """How many states came to that, of those that take this profile at least."""
        return sum(one.becomes == becomes and profile in (None, one.profile) for one in self.judged)

    def time(self) -> dict[str, float]:
        """Seconds a visit, on average, by part."""
        visits = [one.answer.seconds for one in self.judged if one.seen]
        parts = dict.fromkeys(name for seconds in visits for name in seconds)
        return {part: sum(seconds.get(part, 0.0) for seconds in visits) / len(visits) for part in parts}

    def stories(self) -> tuple[Story, ...]:
        """The failing states, told in as few words as there are kinds of them: the commonest of each class first, then
        the others, the commonest first."""
        kinds: dict[tuple[Class, str, tuple[str, ...]], list[Judged]] = {}
        for one in self.judged:
            if one.becomes != "exact":
                kinds.setdefault((one.becomes, one.profile, one.codes), []).append(one)
        told = [story for kind, many in kinds.items() for story in _tell(kind, many)]
        told.sort(key=lambda story: (story.profile != "kill", -story.count))
        first = {story.becomes: story for story in reversed(told)}
        return tuple(sorted(told, key=lambda story: story is not first[story.becomes]))

    def to_json(self) -> dict[str, Any]:
        """For CI; `docs/format.md` says what each field is."""
        return {
            "schema": 1,
            "verdict": self.outcome.value,
            "codes": list(self.codes),
            "run": str(self.run.dir),
            "save": self.position,
            "states": len(self.judged),
            "visited": self.visited,
            "distinct": self.found.distinct,
            "tried": self.tried,
            "unlike": self.unlike,
            "sampling": self.found.sampling,
            "judged_per_minute": round(self.per_minute, 1),
            "visited_per_minute": round(60.0 * self.visited / self.seconds, 1) if self.seconds else 0.0,
            "seconds_a_visit": {name: round(value, 4) for name, value in self.time().items()},
            "outcomes": {name: self.count(name) for name in CLASSES},
            "profiles": {
                profile: {name: self.count(name, profile) for name in CLASSES}
                for profile in dict.fromkeys(one.profile for one in self.judged)
            },
            "stories": [
                {**story.__dict__, "codes": list(story.codes), "text": str(story)} for story in self.stories()
            ],
        }


def _tell(kind: tuple[Class, str, tuple[str, ...]], many: Sequence[Judged]) -> Iterator[Story]:
    by_digest = {one.state.digest: one for one in many}
    for told in shortest_stories(one.state for one in many):
        yield Story(*kind, told.text, by_digest[told.state.digest].did, told.count)
