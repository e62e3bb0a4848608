"""`Keeping`: an uninterrupted run during which the job's `{out}` is kept at some of its saves.

The run is the second control, if windows are wanted when the reference is made; else it is a further run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.controls import require_complete
from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import STEPS
from chaoskit.engine.progress import Progress
from chaoskit.engine.run_store import Store
from chaoskit.engine.windows import kept_outs
from chaoskit.engine.windows.earned import OUTS
from chaoskit.engine.windows.kept_outs import KeptOuts
from chaoskit.engine.windows.out_keeper import PATIENCE, OutKeeper
from chaoskit.engine.windows.stops import MOST, FollowedStops, KnownStops
from chaoskit.errors import ReferenceFailed, UsageError

#: When to use windows. `auto`: if they save time; `always`: whenever the job earns them; `never`.
WISHES = ("auto", "always", "never")
#: Seconds that the steps of a job must take for windows to save time: a window costs one more launch.
PAY_FROM = 15.0


def wish(text: str) -> str:
    """One of WISHES. Raises UsageError for anything else."""
    if text not in WISHES:
        raise UsageError(f"windows: {text!r} is none of {', '.join(WISHES)}")
    return text


@dataclass
class Keeping:
    """Keeps the states of one run in `run_dir`. `keeper` makes its ranks wait."""

    run_dir: Path
    states: KeptOuts
    keeper: OutKeeper

    @classmethod
    def of(cls, run_dir: Path, reference: Reference, *, store: Store) -> Keeping | None:
        """Make it for a run of the job of a reference; None if there is nothing to keep (see `why_nothing_to_keep`)."""
        if why_nothing_to_keep(reference):
            return None
        states = kept_outs.fresh(run_dir / OUTS, within=store.root)
        keeper = OutKeeper(
            KnownStops({save + 1: save for save in _saves(reference)}),
            lambda at, save: states.keep(run_dir / "out", save=save, at=at),
            world_size=reference.world_size,
            patience=patience(reference),
        )
        return cls(run_dir, states, keeper)

    @classmethod
    def beside(cls, run_dir: Path, first: Path, *, store: Store) -> Keeping:
        """Make it for a run that follows the one in `first`, which trains at the same time. If states need too much
        room, or are too many, every second one is removed, and further ones are kept at every second save."""
        states = kept_outs.fresh(run_dir / OUTS, within=store.root)
        stops = FollowedStops(first)

        def keep(at: int, save: int) -> bool:
            while not states.keep(run_dir / "out", save=save, at=at):
                if not states.full or not stops.thin():
                    return False
                states.keep_only(stops.wanted())
                if save not in stops.wanted():
                    break
            while len(states.states) > MOST and stops.thin():
                states.keep_only(stops.wanted())
            return True

        reference = Reference((History.read(first),))
        keeper = OutKeeper(stops, keep, world_size=reference.world_size, patience=patience(reference))
        return cls(run_dir, states, keeper)

    @property
    def why_none(self) -> str:
        """Why no state was kept; empty if one was."""
        missed = self.keeper.missed or self.states.unkept or self.states.skipped
        return "" if self.states.states else missed or "no rank stopped where a state was to be kept"

    def write(self, store: Store, progress: Progress) -> None:
        """Store the list of the states, if there are any, and say if there are fewer than were wanted."""
        if self.states.unkept:
            count = len(self.states.states)
            progress.phase(f"{count} state{'' if count == 1 else 's'} kept for windows: {self.states.unkept}")
        if self.states.states:
            with store.writing():
                self.states.write()


def of_second_control(run_dir: Path, first: Path, *, wish: str, store: Store) -> Keeping | None:
    """Keep states of the second control, at saves that the record of the `first` control shows; None if windows are not
    wanted, or do not save time."""
    if wish == "never":
        return None
    history = History.read(first)
    try:
        require_complete(history, "control 1")
    except ReferenceFailed:
        return None
    reference = Reference((history,))
    return Keeping.of(run_dir, reference, store=store) if pays(reference, wish=wish) else None


def pays(reference: Reference, *, wish: str) -> bool:
    """Whether windows are worth their cost: a short job is run whole sooner."""
    return wish == "always" or (wish == "auto" and training_seconds(reference) >= PAY_FROM)


def training_seconds(reference: Reference) -> float:
    """Seconds from the first step of the first control to its last one."""
    ranks = reference.controls[0].incarnations[0].ranks.values()
    return max((own.steps.times[-1] - own.steps.times[0] for own in ranks if own.steps), default=0.0)


def why_nothing_to_keep(reference: Reference) -> str:
    """Why no state of the job could be used; empty if one could."""
    if reference.steps < 2 * STEPS:
        return f"the job takes {reference.steps} steps only"
    return "" if _saves(reference) else "the job makes no save that is followed by two more steps"


def _saves(reference: Reference) -> list[int]:
    near = [reference.middle_of_epoch(n) for n in range(1, min(4, len(reference.epochs)) + 1)]
    near += [reference.steps // 2, *(start + 2 for start in reference.epochs[1:3])]
    return kept_outs.positions(reference.saves, steps=reference.steps, near=near)


def patience(reference: Reference) -> float:
    """Seconds for which ranks may wait for each other at a step: less than the timeout of a collective."""
    timeout = reference.group_timeout
    return PATIENCE if timeout is None else min(PATIENCE, timeout / 3)
