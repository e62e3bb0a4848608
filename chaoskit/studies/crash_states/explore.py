"""Crash states: records one save of a job, and resumes the job from every state that a crash could have left.

record    the job runs once on a file system with a journal, until after the save
model     computes from the journal the states that kills and power cuts could leave (`chaoskit.analysis.crash_model`)
try       the job resumes from each state for a few steps (`chaoskit.studies.crash_states.resume_trial`)
judge     the expected position depends on whether the save had settled before the crash, as in any other run
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from chaoskit import environments, faults
from chaoskit.analysis.checkpoints.checkpoint import Checkpoint
from chaoskit.analysis.crash_model import CrashStates, State, crash_states
from chaoskit.analysis.reference.reference import Reference
from chaoskit.capabilities import CanShowDirectory
from chaoskit.engine.progress import Progress
from chaoskit.engine.runner import Run, Runner
from chaoskit.errors import Undecided, UsageError
from chaoskit.files.removal import remove
from chaoskit.job import NEWEST, Job
from chaoskit.protocol.io_journal import Journal, Operation
from chaoskit.studies.crash_states.result import Class, Exploration, JudgedState
from chaoskit.studies.crash_states.resume_trial import Answer, Recorded, TrialSlot
from chaoskit.studies.crash_states.scheduler import TrialScheduler

#: Maximum number of steps to record after the save.
STEPS_AFTER = 50


def explore(
    runner: Runner,
    job: Job,
    *,
    profiles: Sequence[str],
    save: int | None = None,
    most: int | None = None,
    seed: int = 0,
    workers: int = 1,
) -> Exploration:
    """Record save number `save` (from 1; default: the second one, so that an older checkpoint exists), and judge every
    state that a crash during it could leave, with at most `most` resume trials (None: no limit).

    Raises UsageError if the job does not make that save, Undecided if the job cannot be judged, and the errors of
    `Runner.run`.
    """
    environments.must_offer(runner.environment, [CanShowDirectory], to="a resume trial")
    environments.must_store(runner.environment, "recorded")
    run, position = record(runner, job, save)
    journal = Journal.read(run.dir)
    written = run.case.checkpoints
    first, last = window(journal.operations, run, position, written)
    runner.progress.phase("computing the states that a crash could leave")
    found = crash_states(journal, first=first, last=last, profiles=profiles, seed=seed)
    assert run.reference is not None
    recorded = Recorded(run.dir, run.job, run.reference)
    begun = time.monotonic()
    runner.progress.phase("resuming from the intact checkpoint")
    intact = resume_from_intact(recorded, runner, found)
    if intact.base != position:
        # Whatever a crash does to the checkpoint, this job cannot show it.
        return Exploration(run, position, found, (), time.monotonic() - begun, intact=intact)
    scheduler = TrialScheduler(found.states, most=most, seed=seed)
    run_trials(recorded, runner, scheduler, workers=workers)
    seconds = time.monotonic() - begun
    judged = tuple(
        judge(
            found.states[index],
            answer,
            lambda done: due(done, journal.operations, written),
            seen=seen,
            usual=intact.wrong,
        )
        for index, (answer, seen) in sorted(scheduler.answers().items())
    )
    return Exploration(
        run, position, found, judged, seconds, tried=scheduler.tried, unlike=scheduler.unlike, intact=intact
    )


def resume_from_intact(recorded: Recorded, runner: Runner, found: CrashStates) -> Answer:
    """Resume from what is on the disk when the save has settled and nothing was lost. What is wrong then is a bug of
    the resume, and no crash has caused it."""
    kills = [(crash.done, one) for one in found.states for crash in one.crashes if crash.profile == "kill"]
    whole = max(kills, key=lambda pair: pair[0])[1]
    with TrialSlot(0, recorded, runner.store) as slot:
        return slot.resume(whole.materialise)


def record(runner: Runner, job: Job, save: int | None) -> tuple[Run, int]:
    """Record the save; returns the run and the position of the save."""
    reference = runner.reference(job)
    if not reference.deterministic:
        raise Undecided(
            "two uninterrupted runs differ, so chaoskit cannot decide whether a resume is exact: make the job "
            "deterministic first",
            code="not-deterministic",
        )
    position = _position(reference, save)
    later = [step for step in reference.saves if step > position]
    step = min([position + STEPS_AFTER, reference.steps, *later])
    # The recording must end before the next save begins.
    fault = faults.kill(launcher=True).at_step(step)
    run = runner.run(replace(job, relaunches=0), fault, storage="recorded")
    parting = run.case.timeline.departure
    if parting is not None:
        raise Undecided(parting.sentence, code="not-deterministic")
    told = run.job.resume_args
    if position == reference.saves[0] and told and not any(NEWEST.search(word) for word in told):
        raise UsageError(
            f"a crash during the first save leaves nothing to resume from, and {shlex.join(told)!r} makes the job "
            "resume: record a later save (--save 2), or name the checkpoint by a pattern such as {newest:step-*}"
        )
    return run, position


def _position(reference: Reference, save: int | None) -> int:
    usable = [position for position in reference.saves if position + 3 <= reference.steps]
    if not usable:
        raise UsageError(
            "no save can be recorded, because none is followed by at least three steps: let the job run longer or save "
            "earlier"
        )
    number = save if save is not None else min(2, len(usable))
    if number > len(usable):
        raise UsageError(
            f"--save {number}: the job has only {len(usable)} saves that are followed by at least three steps"
        )
    return usable[number - 1]


def window(
    operations: Sequence[Operation], run: Run, position: int, written: Iterable[Checkpoint]
) -> tuple[int, int]:
    """Return the range of operations that belong to the save: from the previous step until the save had settled."""
    made = [one for one in written if one.position == position]
    settled = made[0].settled_at if made else None
    if settled is None:
        raise Undecided(
            f"the recorded run ended before the save after step {position} had settled", code="probe-blind"
        )
    ranks = run.history.incarnations[0].ranks.values()
    begun = min(own.steps.times[position - 1] for own in ranks)
    own = [operation.n for operation in operations if begun < operation.t <= settled]
    if not any(operations[n].kind == "write" for n in own):
        raise Undecided(
            f"the job wrote nothing below {{out}} during the save after step {position}: let it store its checkpoints "
            "there",
            code="probe-blind",
        )
    return own[0], own[-1] + 1


def due(done: int, operations: Sequence[Operation], written: Sequence[Checkpoint]) -> frozenset[int]:
    """Return the positions that a job may resume from after a crash between operation `done` and the next one."""
    until = operations[done].t if done < len(operations) else float("inf")
    settled = [one.position for one in written if one.settled_at is not None and one.settled_at <= until]
    last = max(settled, default=0)
    unsettled = {one.position for one in written if one.ok and one.position > last and one.begun <= until}
    return frozenset({last, *unsettled})


def judge(
    state: State,
    answer: Answer,
    due: Callable[[int], frozenset[int]],
    *,
    seen: bool = True,
    usual: frozenset[str] = frozenset(),
) -> JudgedState:
    """Judge the answer of the job. Several crashes may leave the same state: the answer must be right for all of them,
    and the failing ones are kept as the crashes of the state. `usual` are the components that are wrong after a resume
    from an intact checkpoint, too: the state is not to blame for them, nor for the loss that follows from them."""
    becomes: Class
    if answer.how in ("crashed", "hung"):
        becomes = "crashed" if answer.how == "crashed" else "hung"
    elif answer.base is None or answer.wrong - usual - ({"loss"} if usual else set()):
        becomes = "wrong"
    else:
        wrong = tuple(crash for crash in state.crashes if answer.base not in due(crash.done))
        becomes = "lost-work" if wrong else "exact"
        state = replace(state, crashes=wrong) if wrong else state
    return JudgedState(state, answer, becomes, tuple(sorted(due(state.crashes[0].done))), seen)


def run_trials(recorded: Recorded, runner: Runner, scheduler: TrialScheduler, *, workers: int) -> None:
    """Run the resume trials of the scheduler, `workers` in parallel."""
    errors: list[BaseException] = []
    over = threading.Event()

    def work(number: int) -> None:
        try:
            with TrialSlot(number, recorded, runner.store) as slot:
                while not over.is_set() and (index := scheduler.take()) is not None:
                    scheduler.put(index, slot.resume(scheduler.states[index].materialise))
        except BaseException as error:
            errors.append(error)
            over.set()

    _in_parallel(work, min(workers, len(scheduler.states)), over, _Counter(runner.progress, scheduler))
    remove(recorded.run_dir / "slots", within=runner.store.root)
    if errors:
        raise errors[0]


class _Counter:
    """Reports the progress every ten trials."""

    def __init__(self, progress: Progress, scheduler: TrialScheduler) -> None:
        self._progress, self._scheduler, self._next = progress, scheduler, 0

    def __call__(self) -> None:
        done, of = len(self._scheduler.trials), len(self._scheduler.states)
        if done >= self._next:
            self._progress.phase(f"judged {self._scheduler.judged} of {of} states with {done} resume trials")
            self._next = done + 10


def _in_parallel(
    work: Callable[[int], None], workers: int, over: threading.Event, report: Callable[[], None]
) -> None:
    """Run `work` in threads; waits for them also after an exception."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            report()
            for thread in threads:
                thread.join(1.0 / len(threads))
    finally:
        over.set()
        for thread in threads:
            thread.join()
