"""`no_poisoned_checkpoint`: no checkpoint holds a number that a fault corrupted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints import contents
from chaoskit.analysis.checkpoints.contents import show_keys
from chaoskit.analysis.checkpoints.postmortem_dumps import dumps, kind_of
from chaoskit.analysis.corruption.propagation import GIVEN, Propagation
from chaoskit.analysis.record.rank_lifetime import RankLifetime, Save
from chaoskit.analysis.record.steps import Step
from chaoskit.checks.check import Check
from chaoskit.checks.registry import check
from chaoskit.checks.struck import judge_each
from chaoskit.verdict import Verdict, failed, inconclusive, passed

#: The state that a checkpoint carries from one incarnation to the next, and that a corrupted number may have reached.
CARRIED = ("model", "buffers", "optimizer", "options", "scaler", "ema")


@dataclass(frozen=True)
class Written:
    """A save after the corruption, at a position; `equal`: it should equal the reference's to the bit."""

    incarnation: int
    lifetime: RankLifetime
    save: Save
    position: int
    equal: bool


@dataclass(frozen=True)
class NoPoisonedCheckpoint:
    """See `no_poisoned_checkpoint`."""

    name = "no_poisoned_checkpoint"

    def __call__(self, case: Case) -> Verdict:
        return judge_each(self.name, case, lambda propagation: self._judged(case, propagation))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _judged(self, case: Case, propagation: Propagation) -> Verdict:
        assert case.reference is not None
        written = list(_written(case, propagation))
        bad = {id(save): key for _, _, save, key in contents.poisoned(case.history, case.reference)}
        poisoned = next((one for one in written if id(one.save) in bad), None)
        if poisoned is not None:
            more = len(poisoned.save.nonfinite) - 1
            sentence = (
                f"{propagation.corruption}; rank {poisoned.lifetime.rank} saved a non-finite value at step "
                f"{poisoned.position}: {bad[id(poisoned.save)]}{f', and {more} more' if more else ''}"
            )
            return failed(self.name, sentence, "poisoned-checkpoint", path=poisoned.save.path)
        due = [one for one in written if one.equal]
        if due and (not case.timeline.bitwise or propagation.diverged_before):
            why = (
                "the job is not deterministic"
                if not case.timeline.bitwise
                else "the run had already diverged from it"
            )
            sentence = (
                f"{propagation.corruption}; {len(due)} later saves hold no non-finite value, but the reference "
                "cannot show "
                f"whether a finite value is wrong: {why}"
            )
            return inconclusive(
                self.name, sentence, "not-deterministic" if not case.timeline.bitwise else "probe-blind"
            )
        blind = 0
        clean = _clean(case, propagation)
        for one in due:
            keys = contents.wrong(one.lifetime, case.reference, one.save.n, one.position)
            keys = _live(case, propagation, one) if keys is None else keys
            if keys and one.incarnation not in clean:
                sentence = (
                    f"{propagation.corruption}; what rank {one.lifetime.rank} saved at step {one.position} "
                    "differs from the "
                    f"reference's save: {show_keys(keys)}"
                )
                return failed(self.name, sentence, "corruption-saved", path=one.save.path, keys=list(keys[:20]))
            blind += keys is None
        if blind:
            sentence = (
                f"{propagation.corruption}; the contents of {blind} of {len(due)} later saves were not recorded"
            )
            return inconclusive(self.name, sentence, "probe-blind")
        if not written:
            sentence = f"{propagation.corruption}; no save followed, so no save was tested"
            return inconclusive(self.name, sentence, "fault-not-observed")
        sentence = f"{propagation.corruption}; none of {len(written)} later saves holds a corrupted value"
        return passed(self.name, sentence, saves=len(written), compared=len(due))


def _written(case: Case, propagation: Propagation) -> Iterator[Written]:
    """The checkpoints that were made after the corruption, by the run's own numbers."""
    struck, seen = propagation.corruption, propagation.detection
    dumped = dumps(case.history)
    left_out = seen.step if seen is not None and seen.how == "left-out" else None
    # Of a job that goes on without bad batches or updates, nothing need be the reference's any more.
    again = case.skipped_batches(propagation)
    retried = left_out is None if propagation.recovery is None else again is not None and not again.steps
    for inc in case.history.incarnations[struck.incarnation :]:
        base = case.timeline.base(inc.index)
        if base is None or inc.index in case.timeline.resized:
            continue
        here = inc.index == struck.incarnation
        for lifetime in inc.ranks.values():
            for save in lifetime.saves:
                position = base + save.n
                before = here and position < struck.step and save.begun < struck.t
                if before or not save.ok or kind_of(save.path) in dumped:
                    continue
                equal = retried if not here else left_out is None or position < left_out
                yield Written(inc.index, lifetime, save, position, equal)


def _clean(case: Case, propagation: Propagation) -> frozenset[int]:
    """The later incarnations that began with the state of the reference in all that a corrupted number could have
    reached, or with that of such an incarnation. What differs in their saves has come from elsewhere: they drew other
    random numbers, for example, or read other data."""
    assert case.reference is not None
    found: list[int] = []
    for inc in case.history.incarnations[propagation.corruption.incarnation + 1 :]:
        base = case.timeline.base(inc.index)
        begun = {rank: lifetime.steps[0] for rank, lifetime in inc.ranks.items() if lifetime.steps}
        if base is None or inc.index in case.timeline.resized or len(begun) < inc.world_size:
            continue
        if all(_came_clean(case, found, rank, base, step) for rank, step in begun.items()):
            found.append(inc.index)
    return frozenset(found)


def _came_clean(case: Case, clean: Sequence[int], rank: int, base: int, begun: Step) -> bool:
    """Whether the first step of a lifetime, after `base` steps, began with what the reference or a clean one had."""
    assert case.reference is not None
    known = [case.reference.step(rank, base + begun.n)]
    for one in case.timeline.segments:
        if one.incarnation in clean and one.rank == rank and one.first <= base + begun.n <= one.last:
            known.append(one.execution(one.start + base + begun.n - one.first).record)
    carried = {name for name in begun.components if name.partition(".")[0] in CARRIED}
    return "model" in carried and any(
        step is not None and all(step.components.get(name) == begun.components[name] for name in carried)
        for step in known
    )


def _live(case: Case, propagation: Propagation, one: Written) -> tuple[str, ...] | None:
    """Return the components of the live state that differ from the reference at the next step (after the last step:
    at that step); None if that is unknown."""
    assert case.reference is not None
    place = one.lifetime.steps.past(one.save.n)
    at_end = (
        place == len(one.lifetime.steps) and one.position == case.reference.steps > propagation.corruption.step
    )
    place -= at_end
    wanted = case.reference.step(one.lifetime.rank, one.position + (not at_end))
    if wanted is None or not 0 <= place < len(one.lifetime.steps):
        return None
    own = one.lifetime.steps[place]
    if own.thin:
        return None
    names = [name for name in GIVEN if name in case.timeline.comparable and name in own.components]
    return tuple(name for name in names if own.components[name] != wanted.components.get(name))


@check("poisoned-checkpoint", "corruption-saved")
def no_poisoned_checkpoint() -> Check:
    """No save after a corruption holds a non-finite value that the reference does not have, or a finite value that
    differs from the reference's save at that step.

    Finite values are judged only in saves that should equal the reference's: those before the detection, and those of
    a job that went back and repeated the same batches. A dump for a post-mortem that nobody loads is not a
    checkpoint. Fails with `poisoned-checkpoint`, `corruption-saved`; inconclusive if no save followed.
    """
    return NoPoisonedCheckpoint()
