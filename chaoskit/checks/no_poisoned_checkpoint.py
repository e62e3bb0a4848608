"""`no_poisoned_checkpoint`: no checkpoint holds a number that a fault made wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit import contents
from chaoskit.checks.check import Case, Check
from chaoskit.checks.struck import judge_each
from chaoskit.contents import show_keys
from chaoskit.course import GIVEN, Course
from chaoskit.dumps import dumps, kind_of
from chaoskit.life import Life, Save
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class Written:
    """A save after the corruption, at a position; `equal`: it should be the reference's, to the bit."""

    incarnation: int
    life: Life
    save: Save
    position: int
    equal: bool


@dataclass(frozen=True)
class NoPoisonedCheckpoint:
    """See `no_poisoned_checkpoint`."""

    name = "no_poisoned_checkpoint"

    def __call__(self, case: Case) -> Verdict:
        return judge_each(self.name, case, lambda course: self._judged(case, course))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _judged(self, case: Case, course: Course) -> Verdict:
        assert case.reference is not None
        written = list(_written(case, course))
        bad = {id(save): key for _, _, save, key in contents.poisoned(case.history, case.reference)}
        poisoned = next((one for one in written if id(one.save) in bad), None)
        if poisoned is not None:
            more = len(poisoned.save.nonfinite) - 1
            sentence = (
                f"{course.corruption}; rank {poisoned.life.rank} saved a value that is not finite at step "
                f"{poisoned.position}: {bad[id(poisoned.save)]}{f', and {more} more' if more else ''}"
            )
            return failed(self.name, sentence, "poisoned-checkpoint", path=poisoned.save.path)
        due = [one for one in written if one.equal]
        if due and (not case.timeline.bitwise or course.parted):
            why = "the job is not deterministic" if not case.timeline.bitwise else "the run had left it before"
            sentence = (
                f"{course.corruption}; {len(due)} saves followed that hold no value that is not finite, and whether "
                f"a finite one is wrong the reference does not tell: {why}"
            )
            return inconclusive(
                self.name, sentence, "not-deterministic" if not case.timeline.bitwise else "probe-blind"
            )
        blind = 0
        for one in due:
            keys = contents.wrong(one.life, case.reference, one.save.n, one.position)
            keys = _live(case, course, one) if keys is None else keys
            if keys:
                sentence = (
                    f"{course.corruption}; what rank {one.life.rank} saved at step {one.position} is not what the "
                    f"reference saves there: {show_keys(keys)}"
                )
                return failed(self.name, sentence, "corruption-saved", path=one.save.path, keys=list(keys[:20]))
            blind += keys is None
        if blind:
            sentence = f"{course.corruption}; what {blind} of {len(due)} saves after it hold was not seen"
            return inconclusive(self.name, sentence, "probe-blind")
        if not written:
            sentence = f"{course.corruption}, and nothing was saved after it: no save was tested"
            return inconclusive(self.name, sentence, "fault-not-observed")
        sentence = f"{course.corruption}; none of {len(written)} saves after it holds that"
        return passed(self.name, sentence, saves=len(written), compared=len(due))


def _written(case: Case, course: Course) -> Iterator[Written]:
    """The checkpoints that were made after the corruption, by the run's own numbers."""
    struck, seen = course.corruption, course.detection
    dumped = dumps(case.history)
    left_out = seen.step if seen is not None and seen.how == "left-out" else None
    # Of a job that goes on without bad batches or updates, nothing need be the reference's any more.
    again = case.omission(course)
    retried = left_out is None if course.recovery is None else again is not None and not again.steps
    for inc in case.history.incarnations[struck.incarnation :]:
        base = case.timeline.base(inc.index)
        if base is None or inc.index in case.timeline.resized:
            continue
        here = inc.index == struck.incarnation
        for life in inc.ranks.values():
            for save in life.saves:
                position = base + save.n
                before = here and position < struck.step and save.begun < struck.t
                if before or not save.ok or kind_of(save.path) in dumped:
                    continue
                equal = retried if not here else left_out is None or position < left_out
                yield Written(inc.index, life, save, position, equal)


def _live(case: Case, course: Course, one: Written) -> tuple[str, ...] | None:
    """What of the live state is not the reference's, as the next step finds it, or at the very end the last one; None
    where nothing tells."""
    assert case.reference is not None
    place = one.life.steps.past(one.save.n)
    at_end = place == len(one.life.steps) and one.position == case.reference.steps > course.corruption.step
    place -= at_end
    wanted = case.reference.step(one.life.rank, one.position + (not at_end))
    if wanted is None or not 0 <= place < len(one.life.steps):
        return None
    own = one.life.steps[place]
    names = [name for name in GIVEN if name in case.timeline.comparable and name in own.components]
    return tuple(name for name in names if own.components[name] != wanted.components.get(name))


def no_poisoned_checkpoint() -> Check:
    """No save after a number was corrupted holds a value that is not finite, except where the reference has them too,
    or a finite one that is not what the reference saves at that step.

    The latter is judged of saves that should be the reference's: those made before anybody noticed, and those of a job
    that went back and tried the same batches again. What is written for the post-mortem, and never read, is no
    checkpoint. Fails with `poisoned-checkpoint`, `corruption-saved`; inconclusive where no save followed.
    """
    return NoPoisonedCheckpoint()
