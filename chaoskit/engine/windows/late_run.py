"""`LateRun`: a run without a fault that begins from a kept state, and shows whether the job may be run in windows.

It begins in a new directory; that of the run in which the state was kept no longer exists. For a whole epoch, and for
at least `STEPS` steps and `SAVES` saves, or to its end, it must equal the reference, make the same saves, and have the
same files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from chaoskit import checks
from chaoskit.analysis.case import Case
from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import converged, unequal
from chaoskit.analysis.windows.rest import with_rest
from chaoskit.checks import judge
from chaoskit.engine.execution import execute_uninterrupted
from chaoskit.engine.progress import Progress
from chaoskit.engine.run_store import Store
from chaoskit.engine.windows.keeping import patience
from chaoskit.engine.windows.kept_outs import KeptOuts, OutState
from chaoskit.engine.windows.late_begin import begin_late
from chaoskit.engine.windows.left_files import listed, names_below, unlike, varying
from chaoskit.engine.windows.out_keeper import OutKeeper
from chaoskit.engine.windows.stops import KnownStops
from chaoskit.engine.windows.window_watch import WindowWatch
from chaoskit.files.removal import remove
from chaoskit.job import Job
from chaoskit.verdict import Outcome

#: The directory of the run beside the controls.
LATE = "late"
#: The run takes at least this many steps, and makes this many saves, unless it ends before: if a resume sets back a
#: counter or a retention, that shows only later.
STEPS, SAVES = 96, 8

#: The checks that a run without a fault that began late must not fail.
_CHECKS = (
    checks.completed(), checks.resumed_from_last_valid(), checks.state_restored(), checks.same_data(),
    checks.checkpoints_faithful(), checks.matches_reference(), checks.no_checkpoint_lost(), checks.no_orphans(),
    checks.replicas_agree(), checks.stays_finite(),
)  # fmt: skip


@dataclass(frozen=True)
class LateRun:
    """The late run of one job."""

    store: Store
    job: Job
    reference: Reference
    environment: str
    progress: Progress

    def why_not(self, states: KeptOuts) -> str:
        """Make the run; returns how it differs from the reference, empty if it does not."""
        reference = self.reference
        state = _to_begin_from(states.states, reference)
        least = _enough(state, reference)
        until = "to its end" if least is None else f"to step {state.save + least:,} at least"
        self.progress.phase(f"a run without a fault, from step {state.save + 1:,} {until}, of {reference.steps:,}")
        source = states.root.parent
        run_dir = self.store.new_run_beside(
            reference.digest, LATE, job=self.job.to_json(), environment=self.environment
        )
        with self.store.writing():
            # A job that remembers the directory of the keeping run must not find it.
            remove(source / "out", within=self.store.root)
            begin_late(run_dir, run_dir / "out", state, source, steps=reference.steps)
        later = {one.at: one for one in states.states if one.at > state.at + 1}
        found: dict[int, set[str]] = {}

        def look(at: int, save: int) -> bool:
            found[at] = names_below(run_dir / "out")
            return True

        keeper = OutKeeper(
            KnownStops({at: one.save for at, one in later.items()}),
            look,
            world_size=reference.world_size,
            patience=patience(reference),
        )
        watch = WindowWatch(run_dir, reference, least=least) if least is not None else None
        status = execute_uninterrupted(
            run_dir,
            self.job,
            reference,
            store=self.store,
            environment=self.environment,
            progress=self.progress,
            keeper=keeper,
            late=True,
            watch=watch,
        )
        why = next(self._differences(status, run_dir, state, states, later, found, least), "")
        return f"a run that began at step {state.save + 1}, without a fault, {why}" if why else ""

    def _differences(
        self,
        status: str,
        run_dir: Path,
        state: OutState,
        states: KeptOuts,
        later: Mapping[int, OutState],
        found: Mapping[int, set[str]],
        least: int | None,
    ) -> Iterator[str]:
        """How the late run differs, in words that follow 'the run'. Its files are compared at the steps of the `later`
        states, where they were `found`, and at its end."""
        late, end = History.read(run_dir), self.reference.steps
        stepped = [inc for inc in late.incarnations if inc.launch == 1 and inc.first_step is not None]
        if status not in ("finished", "window") or len(stepped) != 1:
            yield f"did not train to its end ({status})"
            return
        over = status == "finished"
        why = unequal(late, self.reference, incarnation=stepped[0].index, base=state.save, to_end=over)
        yield from [why] if why else ()
        if not over:
            seen = converged(late, self.reference, least=least or 0)
            if seen is None:
                yield "differs from the reference in its last steps"
                return
            late, end = with_rest(late, self.reference, seen), seen.end
        kept = History.read(states.root.parent)
        about = {
            "known": {*listed(kept), *(name for one in states.states for name in names_below(one.path))},
            "varying": varying([*self.reference.controls, kept]),
        }
        for at in (at for at in later if at <= end):
            if at not in found:
                yield f"did not stop at step {at}, where its files were to be compared"
                break
            yield from (f"{why} at step {at}" for why in unlike(names_below(later[at].path), found[at], **about))
        if over:
            yield from (f"{why} at its end" for why in unlike(listed(kept), listed(late), **about))
        for verdict in judge(Case(late, self.reference), _CHECKS):
            if verdict.outcome is Outcome.FAIL:
                yield f"fails {verdict.check}: {verdict.sentence}"


def _epoch(reference: Reference) -> int:
    """The steps of the longest epoch that was seen whole; all steps for a job of one epoch."""
    starts = [*reference.epochs, reference.steps]
    return max((b - a for a, b in pairwise(starts)), default=reference.steps)


def _to_begin_from(states: list[OutState], reference: Reference) -> OutState:
    """The state inside an epoch from which the run takes the fewest steps. If it has to train to its end, that is the
    last state after which a third of the training and `SAVES` saves are left; if there is none, the first."""
    inside = [one for one in states if not {one.save, one.at} & {*reference.epochs}] or states
    enough = [(least, one.save, one) for one in inside if (least := _enough(one, reference)) is not None]
    if enough:
        return min(enough)[-1]
    third = reference.steps - max(reference.steps // 3, STEPS)
    before = [
        one for one in inside if one.save <= third and sum(save > one.save for save in reference.saves) > SAVES
    ]
    return before[-1] if before else inside[0]


def _enough(state: OutState, reference: Reference) -> int | None:
    """For how many steps the run must equal the reference: for a whole epoch from its beginning, for `STEPS` steps, and
    for `SAVES` saves. None if it trains to its end."""
    begun = next((start for start in reference.epochs if start >= state.save), state.save)
    saves = [save for save in reference.saves if save > state.save]
    if len(saves) <= SAVES:
        return None
    least = max(begun + _epoch(reference), state.save + STEPS, saves[SAVES - 1])
    return least - state.save if least + 2 < reference.steps else None
