"""The propagation of a corruption: where the run diverged from the reference, how far that spread, and when the job
detected it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chaoskit.analysis.alignment.timeline import Timeline, struck_at
from chaoskit.analysis.corruption.injected import InjectedCorruption, corruptions, is_corruption
from chaoskit.analysis.record.harness_record import LaunchRecord
from chaoskit.analysis.record.history import Incarnation
from chaoskit.analysis.record.steps import LOSS, Steps, finite
from chaoskit.analysis.reference.reference import Reference

#: So many steps after the corruption are looked at one by one.
LOOKED_AT = 1000
#: What only an update moves: none of it can be off in the very step that was struck. (The others may have moved when a
#: step whose update is left out is seen.)
GIVEN = ("model", "optimizer", "options")


@dataclass(frozen=True)
class Detection:
    """How the job reacted to a wrong number: it `stopped`, it left the update out of the state (`left-out`), or it
    `rolled-back` in its processes. `after` is the number of steps taken after the corrupted one."""

    how: str
    step: int
    after: int

    def __str__(self) -> str:
        how = {
            "stopped": "the job stopped by itself",
            "left-out": f"the job skipped the update of step {self.step}",
            "rolled-back": "the job rolled back without a restart",
        }
        when = (
            "before the next step" if not self.after else f"after {self.after} more step{'s' * (self.after > 1)}"
        )
        return f"{how[self.how]} {when}"


@dataclass(frozen=True)
class Propagation:
    """The effect of a corruption in the incarnation that it struck, whose last step was `last`.

    `off` maps true steps to ranks to the components that differ from the reference; it is empty if none ever did.
    `diverged_before`: the incarnation had diverged from the reference before, so no difference can be attributed to
    this corruption. `left_out` are the steps, from the corrupted one on, whose update changed nothing. `nonfinite`:
    the job trained on a non-finite value. `recovery` is the incarnation that continued after a stop or a rollback.
    """

    corruption: InjectedCorruption
    off: Mapping[int, Mapping[int, tuple[str, ...]]]
    last: int
    diverged_before: bool = False
    left_out: tuple[int, ...] = ()
    nonfinite: bool = False
    detection: Detection | None = None
    recovery: int | None = None

    @property
    def departure(self) -> int | None:
        """The first true step at which something differs."""
        return min(self.off, default=None)

    def until_noticed(self) -> Mapping[int, Mapping[int, tuple[str, ...]]]:
        """Return what differed at each step before the detection, if there was one."""
        until = self.detection.step if self.detection is not None else self.last
        return {step: ranks for step, ranks in self.off.items() if step <= until}


def propagations(timeline: Timeline) -> tuple[Propagation, ...]:
    """Return the propagation of every corruption whose step is known. The timeline must have a reference."""
    assert timeline.reference is not None
    return tuple(_propagation(timeline, timeline.reference, one) for one in corruptions(timeline))


def _propagation(timeline: Timeline, reference: Reference, one: InjectedCorruption) -> Propagation:
    inc = timeline.history.incarnations[one.incarnation]
    view = _View(timeline, reference, inc)
    last = min(view.last, one.step + LOOKED_AT)
    off = {step: found for step in range(one.step, last + 1) if (found := view.off(step))}
    known = min(one.step, view.last)
    before = view.off(known)
    diverged_before = any(known < one.step or name in GIVEN for names in before.values() for name in names)
    left_out = tuple(step for step in range(one.step, last) if view.left_out(step))
    detection, recovery = _detected(timeline, inc, one, view.last, left_out)
    nonfinite = any(view.nonfinite(step) for step in range(one.step, last + 1) if step not in left_out)
    return Propagation(one, off, view.last, diverged_before, left_out, nonfinite, detection, recovery)


class _View:
    """One incarnation beside the reference, by true steps."""

    def __init__(self, timeline: Timeline, reference: Reference, inc: Incarnation) -> None:
        self.base = timeline.base(inc.index) or 0
        self.steps = {rank: steps for rank, steps in timeline.steps(inc.index).items() if steps}
        self.expected = timeline.expected(inc.index)
        self.reported = {rank: frozenset(lifetime.left_out) for rank, lifetime in inc.ranks.items()}
        self.names = {*timeline.comparable, *([LOSS] if timeline.bitwise else [])} - reference.idle
        self.usual = {name for _, steps in reference.traces() for own in steps.nonfinite.values() for name in own}
        self.last = max((self.base + steps.numbers[-1] for steps in self.steps.values()), default=self.base)

    def _places(self, step: int) -> Iterator[tuple[int, Steps, int]]:
        """The ranks that took a step, and where it stands among theirs."""
        for rank, steps in self.steps.items():
            place = steps.past(step - self.base - 1)
            if place < len(steps) and steps.numbers[place] == step - self.base:
                yield rank, steps, place

    def off(self, step: int) -> dict[int, tuple[str, ...]]:
        """What of each rank differs at a step."""
        found: dict[int, tuple[str, ...]] = {}
        for rank, steps, place in self._places(step):
            wanted = self.expected.get(rank, Steps())
            if not 1 <= step <= len(wanted):
                continue
            pairs = ((name, steps.column(name), wanted.column(name)) for name in sorted(self.names))
            names = tuple(
                name
                for name, own, other in pairs
                if own is not None and other is not None
                if own[place] and other[step - 1] and own[place] != other[step - 1]
            )
            if names:
                found[rank] = names
        return found

    def left_out(self, step: int) -> bool:
        """Whether the job skipped the update of a step, which changes the reference's model, on every rank on
        purpose: a wrong number too may keep an update from changing anything."""
        after = {rank: place for rank, _, place in self._places(step + 1)}
        return bool(after) and all(
            rank in after and self._left_out(rank, steps, place, after[rank], step)
            for rank, steps, place in self._places(step)
        )

    def _left_out(self, rank: int, steps: Steps, place: int, after: int, step: int) -> bool:
        expected = self.expected.get(rank, Steps())

        def moved(name: str) -> tuple[bool, bool]:
            """Return whether the step changed the component here, and in the reference."""
            own, wanted = steps.column(name), expected.column(name)
            if own is None or wanted is None or not 1 <= step < len(wanted):
                return False, False
            return own[place] != own[after], wanted[step - 1] != wanted[step]

        if moved("model") != (False, True) or {"model"} & set(steps.nonfinite.get(after, ())) - self.usual:
            return False
        if steps.numbers[place] in self.reported.get(rank, ()):
            return True
        # An optimizer that keeps nothing tells nothing, unless a scaler decides for it.
        return moved("optimizer") == (False, True) or (
            steps.column("scaler") is not None and not moved("optimizer")[0]
        )

    def nonfinite(self, step: int) -> bool:
        """Whether a rank trained on a non-finite value where the reference does not."""
        return any(
            not finite(steps.losses[place]) or set(steps.nonfinite.get(place, ())) - self.usual
            for _, steps, place in self._places(step)
        )


def _detected(
    timeline: Timeline, inc: Incarnation, one: InjectedCorruption, last: int, left_out: tuple[int, ...]
) -> tuple[Detection | None, int | None]:
    """Return the earliest detection, and the incarnation that continued."""
    history = timeline.history
    later = history.incarnations[inc.index + 1 :]
    following = next((each for each in later if each.first_step is not None), None)
    again = next((each for each in later if each.launch == inc.launch), None)
    launch = next((each for each in history.launches if each.index == inc.launch), None)
    ended = again.start if again is not None else launch.ended if launch is not None else None
    # What was dealt with at once has not ended the lifetime if another fault came after it.
    otherwise = _struck_otherwise(timeline, one, ended, corrupted=bool(left_out))
    went_back = again is not None and again.taken > 0 and not (left_out and otherwise)
    stopped = (again is not None or _ended_itself(launch)) and not otherwise
    found: list[Detection] = []
    if left_out:
        found.append(Detection("left-out", left_out[0], left_out[0] - one.step))
    if went_back or stopped:
        how = "rolled-back" if went_back else "stopped"
        found.append(Detection(how, max(last, one.step), max(0, last - one.step)))
    recovery = following.index if following is not None and (went_back or stopped) else None
    return min(found, key=lambda each: each.after, default=None), recovery


def _ended_itself(launch: LaunchRecord | None) -> bool:
    return launch is not None and launch.cause == "itself" and launch.code not in (0, None)


def _struck_otherwise(
    timeline: Timeline, one: InjectedCorruption, ended: float | None, *, corrupted: bool
) -> bool:
    """Whether another fault, possibly another corruption, may have ended the incarnation."""
    return any(
        fault.observed is not None and (t := struck_at(fault)) is not None and one.t <= t <= (ended or t)
        for fault in timeline.history.faults
        if fault.index != one.fault and (corrupted or not is_corruption(fault))
        if fault.kind != "noop"
    )
