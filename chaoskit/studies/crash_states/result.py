"""`Exploration`: the judged states of one save: counts by outcome, and an explanation of each kind of failure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chaoskit.analysis.crash_model import CrashStates, State, shortest_stories
from chaoskit.engine.runner import Run
from chaoskit.files.whole_files import replace_file
from chaoskit.studies.crash_states.resume_trial import Answer
from chaoskit.verdict import Outcome, merge

#: The file in its run.
NAME = "crash-states.json"
Class = Literal["exact", "lost-work", "crashed", "wrong", "hung"]
#: The outcomes of a resume trial, from good to bad.
CLASSES: dict[Class, str] = {
    "exact": "resumed exactly",
    "lost-work": "lost work",
    "crashed": "crashed until manual cleanup",
    "wrong": "resumed with a wrong state",
    "hung": "hung",
}


@dataclass(frozen=True)
class JudgedState:
    """A state, the answer of the job, and the outcome. Without `seen`, the answer is that of an equivalent state."""

    state: State
    answer: Answer
    becomes: Class
    due: tuple[int, ...]
    seen: bool = True

    @property
    def profile(self) -> str:
        """The mildest crash profile that can leave the state."""
        return self.state.profile

    @property
    def codes(self) -> tuple[str, ...]:
        """The diagnosis codes; none for an exact resume."""
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
        """The reaction of the job, in words."""
        answer = self.answer
        due = " or ".join(map(str, self.due))
        if answer.how == "crashed":
            return f"every relaunch fails with exit code {answer.codes[-1]}: {answer.message}"
        if answer.how == "hung":
            return f"the relaunched job hangs before its first step: {answer.message}"
        if answer.how == "ended":
            return f"the relaunched job exits with code 0 without a step: {answer.message}"
        if answer.base is None:
            return (
                f"the job resumes with a model that equals no step of an uninterrupted run; expected: step {due}"
            )
        if answer.off:
            rank, names = next(iter(answer.off.items()))
            return f"the job resumes from step {answer.base} and accepts wrong {', '.join(names)} of rank {rank}"
        if self.becomes == "lost-work":
            return f"the job resumes from step {answer.base}; expected: step {due}"
        return f"the job resumes exactly from step {answer.base}"


@dataclass(frozen=True)
class FailureStory:
    """Failing states of one kind: the shortest explanation of the crash, and the reaction of the job."""

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
    """The results for one save. `position` is the step of the save; `seconds` the duration of the trials. `tried`
    equivalent states had their own trial for verification; `unlike` of them had a different result. `intact` is the
    answer of the job to the intact checkpoint, with which the others are compared."""

    run: Run
    position: int
    found: CrashStates
    judged: tuple[JudgedState, ...]
    seconds: float
    tried: int = 0
    unlike: int = 0
    intact: Answer | None = None

    @property
    def resume_bug(self) -> tuple[tuple[str, ...], str]:
        """What is wrong after a resume from the intact checkpoint, as codes and in words; empty if nothing is."""
        one = self.intact
        if one is None or (one.exact and one.base == self.position):
            return (), ""
        codes, did = one.lost, "the job resumes with a model that equals no step of an uninterrupted run"
        if one.how != "resumed":
            codes = ({"crashed": "crash-loop", "hung": "hang"}.get(one.how, "exited-early"),)
            did = {
                "crashed": f"every relaunch fails with exit code {one.codes[-1] if one.codes else '?'}: {one.message}",
                "hung": f"the job hangs before its first step: {one.message}",
            }.get(one.how, f"the job exits with code 0 without a step: {one.message}")
        elif one.base is not None and one.base != self.position:
            codes = ("restarted-from-scratch" if one.base == 0 else "stale-checkpoint",)
            did = f"the job resumes from step {one.base}"
        elif one.off:
            rank, names = next(iter(one.off.items()))
            did = f"the job resumes from step {one.base} with wrong {', '.join(names)} of rank {rank}"
        return codes, f"without any crash, from the intact checkpoint of step {self.position}: {did}"

    @property
    def visited(self) -> int:
        """The number of states with their own trial."""
        return sum(one.seen for one in self.judged)

    @property
    def outcome(self) -> Outcome:
        """Pass only if the job resumed exactly from every judged state."""
        if self.resume_bug[0]:
            return Outcome.FAIL
        if not self.judged:
            return Outcome.INCONCLUSIVE
        return merge(Outcome.PASS if one.becomes == "exact" else Outcome.FAIL for one in self.judged)

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.resume_bug[0], *(code for one in self.judged for code in one.codes)]))

    @property
    def per_minute(self) -> float:
        """The number of judged states per minute."""
        return 60.0 * len(self.judged) / self.seconds if self.seconds else 0.0

    def count(self, becomes: Class, profile: str | None = None) -> int:
        """Count the states with an outcome, of one profile or of all."""
        return sum(one.becomes == becomes and profile in (None, one.profile) for one in self.judged)

    def time(self) -> dict[str, float]:
        """Return the average seconds of a trial by part."""
        trials = [one.answer.seconds for one in self.judged if one.seen]
        parts = dict.fromkeys(name for seconds in trials for name in seconds)
        return {part: sum(seconds.get(part, 0.0) for seconds in trials) / len(trials) for part in parts}

    def stories(self) -> tuple[FailureStory, ...]:
        """Explain each kind of failure once: the most frequent of each outcome first, then the others by frequency."""
        kinds: dict[tuple[Class, str, tuple[str, ...]], list[JudgedState]] = {}
        for one in self.judged:
            if one.becomes != "exact":
                kinds.setdefault((one.becomes, one.profile, one.codes), []).append(one)
        found = [story for kind, many in kinds.items() for story in _stories(kind, many)]
        found.sort(key=lambda story: (story.profile != "kill", -story.count))
        first = {story.becomes: story for story in reversed(found)}
        return tuple(sorted(found, key=lambda story: story is not first[story.becomes]))

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON; `docs/reference/format.md` documents the fields."""
        return {
            "schema": 1,
            "verdict": self.outcome.value,
            "codes": list(self.codes),
            "run": str(self.run.dir),
            "save": self.position,
            "intact": {"codes": list(self.resume_bug[0]), "text": self.resume_bug[1]},
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


def keep(one: Exploration) -> None:
    """Write the result of all profiles into its run, where a certificate finds it."""
    replace_file(one.run.dir / NAME, (json.dumps(one.to_json(), indent=1) + "\n").encode())


def _stories(kind: tuple[Class, str, tuple[str, ...]], many: Sequence[JudgedState]) -> Iterator[FailureStory]:
    by_digest = {one.state.digest: one for one in many}
    for story in shortest_stories(one.state for one in many):
        yield FailureStory(*kind, story.text, by_digest[story.state.digest].did, story.count)
