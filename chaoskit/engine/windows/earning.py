"""`prepare`: the states that experiments of a job may begin from, once the job has earned to be run in windows.

It takes two runs without faults. The *keeping run* equals the reference, and its `{out}` is kept at some saves. The
*late run* begins from one of these states, in a directory of its own while that of the keeping run is gone. It must
equal the reference to its end, make the same saves, and leave the same checkpoints behind: state that nobody records
may show at any later step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypedDict

from filelock import FileLock
from xxhash import xxh3_128

from chaoskit import checks
from chaoskit.analysis.case import Case
from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.divergence import part
from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import STEPS, unequal
from chaoskit.checks import judge
from chaoskit.engine import reference_store
from chaoskit.engine.execution import execute
from chaoskit.engine.progress import Progress
from chaoskit.engine.reference_maker import CONTROL_DEADLINE
from chaoskit.engine.run_store import Store
from chaoskit.engine.stored_json import read_json, write_json
from chaoskit.engine.windows import kept_outs
from chaoskit.engine.windows.kept_outs import KeptOuts, OutState
from chaoskit.engine.windows.late_begin import begin_late
from chaoskit.engine.windows.left_files import listed, names_below, unlike, varying
from chaoskit.engine.windows.out_keeper import PATIENCE, OutKeeper
from chaoskit.environments.launch.mode import Mode
from chaoskit.errors import StoreError
from chaoskit.files.removal import remove
from chaoskit.job import Job
from chaoskit.protocol.stored_files import LONGEST_RECORD, read_stored
from chaoskit.verdict import Outcome

#: The directories of the two runs beside the controls, that of the states in the first, and the file with the result.
KEEPING, LATE, OUTS, RESULT = "windows", "late", "outs", "windows.json"


#: What holds of a run without a fault that began late.
_CHECKS = (
    checks.completed(), checks.resumed_from_last_valid(), checks.state_restored(), checks.same_data(),
    checks.checkpoints_faithful(), checks.matches_reference(), checks.no_checkpoint_lost(), checks.no_orphans(),
    checks.replicas_agree(), checks.stays_finite(),
)  # fmt: skip


class EarnedRecord(TypedDict):
    """The content of windows.json: why the job is not run in windows, empty if it is; the controls to which that
    applies, by the ids of their runs; and the digests of the record of the keeping run, by file name."""

    why: str
    controls: list[str]
    record: Mapping[str, str]


@dataclass(frozen=True)
class Windows:
    """The states of one job's uninterrupted run in `source`, which windows may begin from. `why` says why there are no
    windows; empty if there are. `controls` are the ids of the controls, `record` the digests of the run's record."""

    source: Path
    states: KeptOuts
    why: str
    controls: tuple[str, ...]
    record: Mapping[str, str]

    def verify(self) -> None:
        """Raises StoreError if the record of the run was altered."""
        if _digests(self.source) != self.record:
            raise StoreError(f"{self.source / 'events'} was altered since it was recorded", path=str(self.source))


def prepare(store: Store, job: Job, reference: Reference, *, environment: str, progress: Progress) -> Windows:
    """What is stored for the job, if it is whole, else what two further runs give."""
    store.prepare()
    source = store.references / reference.digest / KEEPING
    controls = _ids(store, reference)
    with FileLock(store.references / f"{reference.digest}.windows.lock"):
        stored = _stored(source, controls)
        if stored is None:
            why = _Earning(store, job, reference, environment, progress).earn()
            stored = {"why": why, "controls": list(controls), "record": _digests(source)}
            with store.writing():
                source.mkdir(parents=True, exist_ok=True)
                write_json(source / RESULT, stored)
        return Windows(source, KeptOuts.read(source / OUTS), stored["why"], controls, stored["record"])


def give_up(windows: Windows, why: str) -> None:
    """From now on run the job whole: a window of it was wrong."""
    content = {"why": why, "controls": list(windows.controls), "record": dict(windows.record)}
    write_json(windows.source / RESULT, content)


def _ids(store: Store, reference: Reference) -> tuple[str, ...]:
    """The ids of the controls: a reference that was made again, of a job that has changed, has others."""
    directory = store.references / reference.digest
    return tuple(store.read(directory / f"control-{n}")["id"] for n in range(len(reference.controls)))


def _stored(source: Path, controls: Sequence[str]) -> EarnedRecord | None:
    """What is stored for these controls; None if nothing is."""
    try:
        found = read_json(source / RESULT, EarnedRecord, missing="does not exist")
    except StoreError:
        return None
    return found if found["controls"] == list(controls) else None


def _digests(source: Path) -> dict[str, str]:
    """The digests of the files in the record of a run, by name."""
    paths = sorted((source / "events").glob("*.jsonl"))
    return {path.name: xxh3_128(read_stored(path, longest=LONGEST_RECORD)).hexdigest() for path in paths}


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
            return (
                states,
                keeper.missed or states.unkept or states.skipped or "no rank stopped where a state was to be kept",
            )
        with self.store.writing():
            states.write()
        return states, ""

    def _begin_late(self, states: KeptOuts) -> str:
        """Make the late run; returns in what it differs from the reference, empty if in nothing."""
        reference = self.reference
        state = _to_begin_from(states.states, reference, _epoch(reference))
        self.progress.phase(f"a run that begins at step {state.save + 1} of {reference.steps}, without a fault")
        source = states.root.parent
        run_dir = self._new_run(LATE)
        with self.store.writing():
            # A job that remembers the directory of the keeping run does not find it.
            remove(source / "out", within=self.store.root)
            begin_late(run_dir, run_dir / "out", state, source, steps=reference.steps)
        later = {one.at: one for one in states.states if one.at > state.at + 1}
        found: dict[int, set[str]] = {}

        def look(at: int, save: int) -> bool:
            found[at] = names_below(run_dir / "out")
            return True

        keeper = OutKeeper(
            {at: one.save for at, one in later.items()},
            look,
            world_size=reference.world_size,
            patience=self._patience,
        )
        status = self._execute(run_dir, keeper=keeper, late=True, reference=reference)
        history = History.read(run_dir)
        left = self._left(states, later, found, history)
        why = next(self._differences(status, history, state, left), "")
        return f"a run that began at step {state.save + 1}, without a fault, {why}" if why else ""

    def _differences(self, status: str, late: History, state: OutState, left: Iterator[str]) -> Iterator[str]:
        """In what the late run differs, in words that follow 'the run'."""
        stepped = [inc for inc in late.incarnations if inc.launch == 1 and inc.first_step is not None]
        if status != "finished" or len(stepped) != 1:
            yield f"did not train to its end ({status})"
            return
        why = unequal(late, self.reference, incarnation=stepped[0].index, base=state.save, to_end=True)
        yield from [why] if why else ()
        yield from left
        for verdict in judge(Case(late, self.reference), _CHECKS):
            if verdict.outcome is Outcome.FAIL:
                yield f"fails {verdict.check}: {verdict.sentence}"

    def _left(
        self, states: KeptOuts, later: Mapping[int, OutState], found: Mapping[int, set[str]], late: History
    ) -> Iterator[str]:
        """In which files the late run differs, at the steps at which states were kept and at its end."""
        kept = History.read(states.root.parent)
        ended = listed(kept)
        known = {*ended, *(name for one in states.states for name in names_below(one.path))}
        about = {"known": known, "varying": varying([*self.reference.controls, kept])}
        for at, state in later.items():
            if at not in found:
                yield f"did not stop at step {at}, where its files were to be compared"
                return
            for why in unlike(names_below(state.path), found[at], **about):
                yield f"{why} at step {at}"
        for why in unlike(ended, listed(late), **about):
            yield f"{why} at its end"


def _epoch(reference: Reference) -> int:
    """The steps of the longest epoch that was seen whole; of a job of one epoch, all."""
    starts = [*reference.epochs, reference.steps]
    return max((b - a for a, b in pairwise(starts)), default=reference.steps)


def _to_begin_from(states: list[OutState], reference: Reference, epoch: int) -> OutState:
    """The first state inside an epoch, which is followed by a whole one if there is such a state."""
    inside = [one for one in states if not {one.save, one.at} & {*reference.epochs}] or states
    return next((one for one in inside if one.save + epoch < reference.steps), inside[0])
