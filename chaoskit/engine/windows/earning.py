"""`prepare`: the states that experiments of a job may begin from, once the job has earned to be run in windows.

It takes two runs without faults. The *keeping run* equals the reference, and its `{out}` is kept at some saves. The
*late run* begins from one of these states and must equal the reference through an epoch or to the end, whichever is
shorter, and leave the same checkpoints behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypedDict

from filelock import FileLock

from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.divergence import part
from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import STEPS, converged, unequal
from chaoskit.engine import reference_store
from chaoskit.engine.execution import execute
from chaoskit.engine.progress import Progress
from chaoskit.engine.reference_maker import CONTROL_DEADLINE
from chaoskit.engine.run_store import Store
from chaoskit.engine.stored_json import read_json, write_json
from chaoskit.engine.windows import kept_outs
from chaoskit.engine.windows.kept_outs import KeptOut, KeptOuts
from chaoskit.engine.windows.late_begin import begin_late
from chaoskit.engine.windows.out_keeper import PATIENCE, OutKeeper
from chaoskit.engine.windows.window_watch import WindowWatch
from chaoskit.environments.launch.mode import Mode
from chaoskit.errors import StoreError
from chaoskit.job import Job

#: The directories of the two runs beside the controls, that of the states in the first, and the file with the result.
KEEPING, LATE, OUTS, RESULT = "windows", "late", "outs", "windows.json"


class EarnedRecord(TypedDict):
    """The content of windows.json: why the job is not run in windows; empty if it is."""

    why: str


@dataclass(frozen=True)
class Windows:
    """The states of one job's uninterrupted run in `source`, which windows may begin from. `why` says why there are no
    windows; empty if there are."""

    source: Path
    states: KeptOuts
    why: str = ""


def prepare(store: Store, job: Job, reference: Reference, *, environment: str, progress: Progress) -> Windows:
    """What is stored for the job, if it is whole, else what two further runs give."""
    store.prepare()
    source = store.references / reference.digest / KEEPING
    with FileLock(store.references / f"{reference.digest}.windows.lock"):
        why = _stored(source)
        if why is None:
            why = _Earning(store, job, reference, environment, progress).earn()
            with store.writing():
                source.mkdir(parents=True, exist_ok=True)
                write_json(source / RESULT, {"why": why})
        return Windows(source, KeptOuts.read(source / OUTS), why)


def give_up(windows: Windows, why: str) -> None:
    """From now on run the job whole: a window of it was wrong."""
    write_json(windows.source / RESULT, {"why": why})


def _stored(source: Path) -> str | None:
    try:
        return read_json(source / RESULT, EarnedRecord, missing="does not exist")["why"]
    except StoreError:
        return None


@dataclass(frozen=True)
class _Earning:
    store: Store
    job: Job
    reference: Reference
    environment: str
    progress: Progress

    def earn(self) -> str:
        """Make both runs; returns why the job is not run in windows, empty if it is."""
        reference = self.reference
        if reference.steps < 2 * STEPS:
            return f"the job takes {reference.steps} steps only"
        near = [reference.middle_of_epoch(n) for n in range(1, min(4, len(reference.epochs)) + 1)]
        near += [reference.steps // 2, *(start + 2 for start in reference.epochs[1:3])]
        saves = kept_outs.positions(reference.saves, steps=reference.steps, near=near)
        if not saves:
            return "the job makes no save that is followed by two more steps"
        states, why = self._keep(saves)
        return why or self._begin_late(states)

    def _execute(self, run_dir: Path, **options: object) -> str:
        with reference_store.own_port(self.store, self.reference, self.environment, self.progress):
            return execute(
                run_dir,
                replace(self.job, relaunches=0),
                store=self.store,
                environment=self.environment,
                progress=self.progress,
                deadline=self.job.timeout or CONTROL_DEADLINE,
                mode=Mode.from_json(self.reference.mode),
                **options,  # type: ignore[arg-type]
            )

    @property
    def _patience(self) -> float:
        timeout = self.reference.group_timeout
        return PATIENCE if timeout is None else min(PATIENCE, timeout / 3)

    def _new_run(self, name: str) -> Path:
        return self.store.new_run_beside(
            self.reference.digest, name, job=self.job.to_json(), environment=self.environment
        )

    def _keep(self, saves: Iterable[int]) -> tuple[KeptOuts, str]:
        """Make the keeping run."""
        self.progress.phase("keeping states of an uninterrupted run")
        run_dir = self._new_run(KEEPING)
        states = kept_outs.fresh(run_dir / OUTS, within=self.store.root)
        keeper = OutKeeper(
            {save + 1: save for save in saves},
            lambda at, save: states.keep(run_dir / "out", save=save, at=at),
            world_size=self.reference.world_size,
            patience=self._patience,
        )
        status = self._execute(run_dir, keeper=keeper)
        history = History.read(run_dir)
        if status != "finished" or len(history.incarnations) != 1:
            return states, f"the run whose states chaoskit keeps did not finish ({status})"
        if (divergence := part(self.reference.controls[0], history, self.reference.idle)) is not None:
            return states, f"the run whose states chaoskit keeps differs from the reference: {divergence.sentence}"
        if states.unkept:
            self.progress.phase(states.unkept)
        if not states.states:
            return states, keeper.missed or states.unkept or "no rank stopped where a state was to be kept"
        with self.store.writing():
            states.write()
        return states, ""

    def _begin_late(self, states: KeptOuts) -> str:
        """Make the late run; returns in what it differs from the reference, empty if in nothing."""
        reference = self.reference
        epoch = _epoch(reference)
        state = _to_begin_from(states.states, reference, epoch)
        self.progress.phase(f"a run that begins at step {state.save + 1} of {reference.steps}, without a fault")
        run_dir = self._new_run(LATE)
        with self.store.writing():
            begin_late(run_dir, run_dir / "out", state, states.root.parent, steps=reference.steps)
        found: dict[int, set[str]] = {}
        later = {one.at: one for one in states.states if one.at > state.at + 1}

        def look(at: int, save: int) -> bool:
            found[at] = set(_names(run_dir / "out"))
            return True

        keeper = OutKeeper(
            {at: one.save for at, one in later.items()}, look, world_size=reference.world_size, patience=self._patience
        )
        watch = WindowWatch(run_dir, reference, least=min(epoch, reference.steps))
        status = self._execute(run_dir, keeper=keeper, late=True, watch=watch, reference=reference)
        history = History.read(run_dir)
        why = self._differs(history, status, state, least=epoch)
        if why:
            return f"a run that began at step {state.save + 1}, without a fault, {why}"
        for at, names in found.items():
            before, after = (self._checkpoints(each, at) for each in (later[at].files, names))
            if before != after:
                name = min(before ^ after)
                had = "left no" if name in before else "left"
                return f"a run that began at step {state.save + 1}, without a fault, {had} {name} at step {at}"
        return ""

    def _differs(self, history: History, status: str, state: KeptOut, *, least: int) -> str:
        stepped = [inc for inc in history.incarnations if inc.launch == 1 and inc.first_step is not None]
        if status not in ("finished", "window") or len(stepped) != 1:
            return f"did not train to its end ({status})"
        if status == "window":
            found = converged(history, self.reference, least=least)
            if found is None or found.base != state.save:
                return "was not equal to the reference any more when it was ended"
            return ""
        return unequal(history, self.reference, incarnation=stepped[0].index, base=state.save, to_end=True)

    def _checkpoints(self, names: Iterable[str], at: int) -> set[str]:
        """The paths of the reference's saves up to position `at`, relative to `{out}`, that are among these files."""
        control = self.reference.controls[0]
        out = next((launch.out for launch in control.launches if launch.out), "")
        own = control.incarnations[0].ranks.values()
        paths = {os.path.relpath(save.path, out) for one in own for save in one.saves if 0 < save.n <= at}
        there = set(names)
        return {path for path in paths if any(name == path or name.startswith(path + os.sep) for name in there)}


def _names(out: Path) -> Iterable[str]:
    for directory, _, names in os.walk(out):
        for name in names:
            yield os.path.relpath(os.path.join(directory, name), out)


def _epoch(reference: Reference) -> int:
    """The steps of the longest epoch that was seen whole; of a job of one epoch, all."""
    starts = [*reference.epochs, reference.steps]
    return max((b - a for a, b in pairwise(starts)), default=reference.steps)


def _to_begin_from(states: list[KeptOut], reference: Reference, epoch: int) -> KeptOut:
    """The first state inside an epoch, which is followed by a whole one if there is such a state."""
    inside = [one for one in states if not {one.save, one.at} & {*reference.epochs}] or states
    return next((one for one in inside if one.save + epoch < reference.steps), inside[0])
