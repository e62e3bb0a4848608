"""Crash states: one save of a job is recorded, and the job is shown every state that a crash could have left of it.

record    the job runs once on a file system that keeps a journal, past the end of the save
model     the journal tells what kills and power cuts could have left on the disk (`chaoskit.crash`)
visit     the job resumes from each of these, far enough to tell from where and how exactly (`chaoskit.visits`)
judge     from where it had to resume depends on whether the save had settled by then, as in any other run
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from chaoskit import faults
from chaoskit.board import Board
from chaoskit.checkpoints import Checkpoint, checkpoints
from chaoskit.crash import State, crash_states
from chaoskit.errors import Undecided, UsageError
from chaoskit.exploration import Class, Exploration, Judged
from chaoskit.job import Job
from chaoskit.journal import Journal, Operation
from chaoskit.progress import Progress
from chaoskit.reference import Reference
from chaoskit.runner import Run, Runner
from chaoskit.visits import Answer, Recorded, Slot

#: A recording goes on for so many steps after the save at most.
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
    """Record save number `save` (from 1; by default the second, so that there is an older one to fall back on), and
    judge every state that a crash could have left of it, by at most `most` visits (None: as many as it takes).

    Raises UsageError for a save that the job does not make, Undecided where nothing can be told of it, and what
    `Runner.run` raises.
    """
    run, position = record(runner, job, save)
    journal = Journal.read(run.dir)
    written = checkpoints(run.history, run.case.timeline)
    first, last = window(journal.operations, run, position, written)
    runner.progress.phase("working out what crashes could leave")
    found = crash_states(journal, first=first, last=last, profiles=profiles, seed=seed)
    assert run.reference is not None
    recorded = Recorded(run.dir, run.job, run.reference)
    begun = time.monotonic()
    board = Board(found.states, most=most, seed=seed)
    visit(recorded, runner, board, workers=workers)
    seconds = time.monotonic() - begun
    judged = tuple(
        judge(found.states[index], answer, lambda done: due(done, journal.operations, written), seen=seen)
        for index, (answer, seen) in sorted(board.answers().items())
    )
    return Exploration(run, position, found, judged, seconds, tried=board.tried, unlike=board.unlike)


def record(runner: Runner, job: Job, save: int | None) -> tuple[Run, int]:
    """The run that was recorded, and the position of the save."""
    reference = runner.reference(job)
    if not reference.deterministic:
        raise Undecided(
            "two uninterrupted runs differ, so nobody can tell whether a resume is exact", code="not-deterministic"
        )
    position = _position(reference, save)
    later = [step for step in reference.saves if step > position]
    step = min([position + STEPS_AFTER, reference.steps, *later])
    # Before the next save begins: what that does to the disk is another story.
    fault = faults.kill(launcher=True).at_step(step)
    run = runner.run(replace(job, relaunches=0), fault, storage="recorded")
    parting = run.case.timeline.departure
    if parting is not None:
        raise Undecided(parting.sentence, code="not-deterministic")
    return run, position


def _position(reference: Reference, save: int | None) -> int:
    usable = [position for position in reference.saves if position + 3 <= reference.steps]
    if not usable:
        raise UsageError("the job makes no save that it takes three more steps after, so none can be recorded")
    number = save if save is not None else min(2, len(usable))
    if number > len(usable):
        raise UsageError(
            f"--save {number}: the job makes {len(usable)} saves that it takes three more steps after"
        )
    return usable[number - 1]


def window(
    operations: Sequence[Operation], run: Run, position: int, written: Iterable[Checkpoint]
) -> tuple[int, int]:
    """The operations that belong to the save: from the step before it until it had settled."""
    made = [one for one in written if one.position == position]
    settled = made[0].settled_at if made else None
    if settled is None:
        raise Undecided(
            f"the save after step {position} was not seen to settle in the recorded run", code="probe-blind"
        )
    lives = run.history.incarnations[0].ranks.values()
    begun = min(life.steps.times[position - 1] for life in lives)
    own = [operation.n for operation in operations if begun < operation.t <= settled]
    if not any(operations[n].kind == "write" for n in own):
        raise Undecided(
            f"nothing was written below {{out}} while the save after step {position} was made: does the job keep its "
            "checkpoints elsewhere?",
            code="probe-blind",
        )
    return own[0], own[-1] + 1


def due(done: int, operations: Sequence[Operation], written: Sequence[Checkpoint]) -> frozenset[int]:
    """The positions that a job may resume from after a crash that came once `done` operations were done, and may have
    come as late as just before the next."""
    until = operations[done].t if done < len(operations) else float("inf")
    settled = [one.position for one in written if one.settled_at is not None and one.settled_at <= until]
    last = max(settled, default=0)
    unsettled = {one.position for one in written if one.ok and one.position > last and one.begun <= until}
    return frozenset({last, *unsettled})


def judge(state: State, answer: Answer, due: Callable[[int], frozenset[int]], *, seen: bool = True) -> Judged:
    """What the job's answer comes to. The same state may come of several crashes: it has to be right after all of them,
    and is told of as what comes of those after which it is wrong."""
    becomes: Class
    if answer.how in ("crashed", "hung"):
        becomes = "crashed" if answer.how == "crashed" else "hung"
    elif not answer.exact:
        becomes = "wrong"
    else:
        wrong = tuple(crash for crash in state.crashes if answer.base not in due(crash.done))
        becomes = "lost-work" if wrong else "exact"
        state = replace(state, crashes=wrong) if wrong else state
    return Judged(state, answer, becomes, tuple(sorted(due(state.crashes[0].done))), seen)


def visit(recorded: Recorded, runner: Runner, board: Board, *, workers: int) -> None:
    """Show the job the states of the board, `workers` at a time."""
    troubles: list[BaseException] = []
    over = threading.Event()

    def work(number: int) -> None:
        try:
            with Slot(number, recorded, runner.store) as slot:
                while not over.is_set() and (index := board.take()) is not None:
                    board.put(index, slot.visit(board.states[index].materialise))
        except BaseException as error:
            troubles.append(error)
            over.set()

    _side_by_side(work, min(workers, len(board.states)), over, _Counter(runner.progress, board))
    shutil.rmtree(recorded.run_dir / "slots", ignore_errors=True)
    if troubles:
        raise troubles[0]


class _Counter:
    """Says now and then how far it is."""

    def __init__(self, progress: Progress, board: Board) -> None:
        self._progress, self._board, self._next = progress, board, 0

    def __call__(self) -> None:
        visited, of = len(self._board.visits), len(self._board.states)
        if visited >= self._next:
            self._progress.phase(f"judged {self._board.judged} of {of} states, {visited} of them by visiting")
            self._next = visited + 10


def _side_by_side(
    work: Callable[[int], None], workers: int, over: threading.Event, say: Callable[[], None]
) -> None:
    """Carry `work` out in threads, and wait for them however this ends."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            say()
            for thread in threads:
                thread.join(1.0 / len(threads))
    finally:
        over.set()
        for thread in threads:
            thread.join()
