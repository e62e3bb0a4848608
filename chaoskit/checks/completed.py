"""`completed`: the job took its last step on every rank and exited by itself with code 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.alignment.segment import Execution
from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints.resumes import resume_after
from chaoskit.analysis.record.history import lifetimes
from chaoskit.analysis.record.rank_lifetime import Load
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.registry import check
from chaoskit.checks.stacks import Waiting, explain, waits_in
from chaoskit.verdict import Outcome, Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class Completed:
    """See `completed`."""

    name = "completed"

    def __call__(self, case: Case) -> Verdict:
        end = case.history.end
        if end in ("hang", "deadline"):
            return self._hang(case)
        if end == "gave-up":
            return self._crash_loop(case)
        if end != "finished":
            why = "the run was interrupted" if end == "interrupted" else "the record of the run has no end"
            return inconclusive(self.name, why, "probe-blind")
        return unmeasured(self.name, case) or self._finished(case)

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _finished(self, case: Case) -> Verdict:
        assert case.reference is not None
        last, ranks = last_step(case), case.reference.world_size
        code = case.history.launches[-1].code if case.history.launches else 0
        missing = missing_steps(case)
        unsure = [one for rank in range(ranks) if (one := _unfinished(case, rank)) is not None]
        reached = {rank: case.timeline.highest(rank) for rank in range(ranks)}
        evidence = {"steps": last, "reached": {str(rank): step for rank, step in reached.items()}, "code": code}
        if code != 0:
            return failed(self.name, f"the job exited with code {code}", "exited-early", **evidence)
        if not missing and not unsure and _last_save_open(case, last):
            sentence = (
                f"every rank took its last step, {last}, and the job exited with code 0; but a fault interrupted "
                "the save "
                "after that step and the job did not repeat it, so the checkpoint may be incomplete"
            )
            return inconclusive(self.name, sentence, "probe-blind", **evidence)
        if not missing and not unsure:
            sentence = f"every rank took its last step, {last}, and the job exited with code 0"
            if (window := case.history.window) is not None and window.end is not None:
                sentence = (
                    f"the job equals the reference again, up to step {window.end}, where chaoskit ended it; "
                    f"its last step, {last}, follows"
                )
            return passed(self.name, sentence, **evidence)
        if blind := blind_spots(case):
            sentence = (
                f"the job exited with code 0, but the record does not show whether it took every step: {blind[0]}"
            )
            return inconclusive(self.name, sentence, "probe-blind", **evidence)
        if any(step < last for step in reached.values()):
            short = ", ".join(f"rank {rank} reached step {step}" for rank, step in reached.items() if step < last)
            sentence = f"the job exited with code 0 before step {last}: {short}"
            return failed(self.name, sentence, "exited-early", **evidence)
        if missing:
            sentence = f"the job reached step {last}, but rank {missing[0][0]} never took step {missing[0][1]}"
            return failed(self.name, sentence, "exited-early", **evidence)
        sentence = (
            f"a fault struck rank {unsure[0].rank} during step {last}; nothing shows that the step finished, "
            "and the job exited without repeating it"
        )
        return failed(self.name, sentence, "exited-early", **evidence)

    def _hang(self, case: Case) -> Verdict:
        stacks = case.history.stacks
        # A rank that is gone left no stack, and that is part of the explanation.
        every_stack = {rank: stacks.get(rank, "") for rank in sorted({*range(case.history.world_size), *stacks})}
        where = f": {explain(every_stack)}" if every_stack else ""
        waits = {str(rank): own for rank, text in every_stack.items() if (own := waits_in(text)) is not None}
        codes, why = _torn(case, "hung")
        how = "the job did not finish before its deadline"
        if case.history.quiet is not None:
            how = f"the job hung: it did nothing for {case.history.quiet:.0f} s"
            if case.history.longest_quiet:
                how += f" (before, for at most {case.history.longest_quiet:.1f} s)"
        return failed(
            self.name,
            f"{how}{why}{where}{_shared_store(case, list(waits.values()))}",
            *codes,
            "hang",
            stacks={str(rank): text for rank, text in stacks.items()},
            waits={rank: {"collective": own.collective, "where": own.where} for rank, own in waits.items()},
            reached=case.timeline.highest(),
        )

    def _crash_loop(self, case: Case) -> Verdict:
        launches = case.history.launches
        last = f"; the last one exited with code {launches[-1].code}" if launches else ""
        if launches and launches[-1].why:
            last += f" ({launches[-1].why})"
        if launches and launches[-1].cause == "too-few-nodes":
            last = ", because fewer nodes are left than it needs"
        codes, why = _torn(case, "failed")
        uncaught = _uncaught(case)
        ending, ended = "crash-loop", f"did not recover in {max(0, len(launches) - 1)} relaunches{last}"
        if (gave_up := case.history.gave_up) is not None:
            ending, ended = gave_up["code"], f"did not recover: {gave_up['text']}"
        return failed(
            self.name,
            f"the job {ended}{why}{uncaught}{_added(case)}",
            *codes,
            ending,
            exit_codes=[launch.code for launch in launches],
            load_errors=[load.error for load in _failed_loads(case)],
            reached=case.timeline.highest(),
        )


def last_step(case: Case) -> int:
    """Return the last step that is due. A rollback that skips bad batches leaves fewer steps."""
    assert case.reference is not None
    return case.reference.steps - len(case.skipped_steps)


def missing_steps(case: Case) -> list[tuple[int, int]]:
    """Return the steps that no record shows, as (rank, true step)."""
    assert case.reference is not None
    last = last_step(case)
    return [
        (rank, step) for rank in range(case.reference.world_size) for step in case.timeline.missing(rank, last)
    ]


def blind_spots(case: Case) -> list[str]:
    """Return reasons why the record may lack steps that the job took."""
    spots = [str(gap) for gap in case.history.gaps]
    for inc, lifetime in lifetimes(case.history):
        spots += [f"rank {lifetime.rank}: {error}" for error in lifetime.errors]
        if not lifetime.steps.is_whole:
            spots.append(f"the record of rank {lifetime.rank} lacks steps of incarnation {inc.index}")
    for gap in case.timeline.unrecorded:
        if gap.taken is None:
            spots.append(
                f"rank {gap.rank} was killed before it recorded step {gap.first}, which the job kept; nothing shows "
                "whether the gradients of that rank are in it"
            )
    return spots + [f"the state of incarnation {index} matches no known step" for index in case.timeline.unplaced]


def incomplete(name: str, case: Case, evidence: Mapping[str, Any]) -> Verdict | None:
    """Return the verdict of the check `name` on a run whose record is right as far as it goes, if the record lacks
    steps."""
    missing = missing_steps(case)
    if not missing and not case.timeline.unplaced:
        return None
    end = completed()(case)
    rank, step = missing[0] if missing else (0, 0)
    sentence = f"step {step} of rank {rank} is missing" if missing else "the numbers of some steps are unknown"
    if end.outcome is Outcome.FAIL:
        return failed(name, f"{sentence}: {end.sentence}", *end.codes, **evidence)
    why = "; ".join(blind_spots(case)[:1]) or end.sentence
    return inconclusive(name, f"{sentence}: {why}", "probe-blind", **evidence)


def _last_save_open(case: Case, last: int) -> bool:
    """Whether the checkpoint of the last step was begun and no lifetime of the run has completed it."""
    written = [one for one in case.checkpoints if one.position == last]
    # A lifetime that takes no step may make it again, at a position that is not known, or read it, whole.
    stepless = [lifetime for _, lifetime in lifetimes(case.history) if not lifetime.steps]
    again = any(save.ok and save.ended is not None for lifetime in stepless for save in lifetime.saves)
    contents = [
        save.content
        for inc, lifetime in lifetimes(case.history)
        for save in lifetime.saves
        if (base := case.timeline.base(inc.index)) is not None and base + save.n == last
    ]
    again |= any(
        load.ok and load.content and load.content in contents for lifetime in stepless for load in lifetime.loads
    )
    struck = any(fault.observed is not None for fault in case.history.faults)
    return struck and bool(written) and not again and not any(one.ended is not None for one in written)


def _unfinished(case: Case, rank: int) -> Execution | None:
    """The execution of the last step, if the rank was struck around it: a step is recorded as it is about to be
    taken, so something has to show that it was (the rank's own end, a save after it, the end of the whole job)."""
    assert case.reference is not None
    last = case.timeline.kept(rank, last_step(case))
    if last is None:
        return None
    inc = case.history.incarnations[last.incarnation]
    saved = any(save.n >= last.record.n for lifetime in inc.ranks.values() for save in lifetime.saves)
    last_incarnation = inc.index == len(case.history.incarnations) - 1
    # A relaunch that brought no rank up has not seen to it either.
    ended_with_job = last_incarnation and all(launch.index <= inc.launch for launch in case.history.launches)
    ended = inc.ranks[rank].end is not None or ended_with_job
    return None if saved or ended else last


def _shared_store(case: Case, waits: Sequence[Waiting]) -> str:
    """Return a clause: a cause in torchrun itself, if all ranks wait for each other after it has restarted them.

    Its agent keeps one store for all restarts, with the addresses of earlier ranks in it (pytorch/pytorch#135712; seen
    with torch 2.13).
    """
    last = case.history.incarnations[-1] if case.history.incarnations else None
    meeting = {"init_process_group", "the rendezvous"}
    if last is None or not last.restarted or last.first_step is not None or len(waits) < last.world_size:
        return ""
    if not {wait.collective for wait in waits} <= meeting:
        return ""
    return (
        ". torchrun had restarted these ranks. They may have read the addresses of the ranks before them from its "
        "store: set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in the job's environment"
    )


def _uncaught(case: Case) -> str:
    """Return a clause: the exception of the first rank that failed in the last launch."""
    last = case.history.launches[-1].index if case.history.launches else None
    ended = [
        lifetime
        for inc, lifetime in lifetimes(case.history)
        if inc.launch == last and lifetime.uncaught and lifetime.left
    ]
    first = min(ended, key=lambda lifetime: lifetime.left or 0.0, default=None)
    if first is None:
        return ""
    # Some exceptions hold the tracebacks of other ranks; the log has them.
    said = first.uncaught.partition("Traceback (most recent call last)")[0]
    return f"; in the last launch rank {first.rank} failed with {' '.join(said.split()).rstrip(': ')}"


def _added(case: Case) -> str:
    """Return a clause if the job was told to resume, and no launch that was told so came to a step: what it was told
    may be the cause, and that came of us."""
    told = {launch.index: launch.added for launch in case.history.launches if launch.added}
    stepped = any(inc.launch in told and lifetime.steps for inc, lifetime in lifetimes(case.history))
    if not told or stepped:
        return ""
    words = " ".join(told[max(told)])
    return f"; chaoskit had appended '{words}' (--resume-args): run the command with that by hand, it may be wrong"


def _failed_loads(case: Case) -> list[Load]:
    return [
        load
        for _, lifetime in lifetimes(case.history)
        for load in lifetime.loads
        if not load.ok or load.ended is None
    ]


def _torn(case: Case, verb: str) -> tuple[tuple[str, ...], str]:
    """Return codes and a clause, if every restart after a fault inside a save ended before a step or failed while it
    loaded that save."""
    incs = case.history.incarnations
    stepped = max(case.timeline.starts, default=0)
    later = incs[stepped + 1 :]
    if not later:
        return (), ""
    written = case.checkpoints
    resume = resume_after(case.history, case.timeline, written, later[0])
    unsettled = [one for one in resume.seen if one.settled_at is None or one.settled_at > resume.struck]
    open_paths = {path for one in unsettled for path in one.paths}
    died_reading = any(load.path in open_paths for load in _failed_loads(case))
    if not resume.faults or not (resume.torn or died_reading):
        return (), ""
    position = max(resume.torn, default=max(one.position for one in unsettled or resume.seen))
    clause = (
        f": the fault left the save of step {position} unfinished, and every later restart {verb} before a step"
    )
    if resume.destroyed:
        clause += f"; that save was overwriting the last valid checkpoint (step {resume.last_valid})"
        return ("torn-checkpoint", "checkpoint-lost"), clause
    if resume.removed:
        clause += f"; no file of the last valid checkpoint (step {resume.last_valid}) was left"
        return ("checkpoint-lost", "torn-checkpoint") if died_reading else ("checkpoint-lost",), clause
    return ("torn-checkpoint",), clause


@check(
    "hang", "crash-loop", "exited-early", "failure-policy-final", "restart-budget-spent", "torn-checkpoint",
    "checkpoint-lost",
)  # fmt: skip
def completed() -> Check:
    """The job took every step of the reference on every rank, and exited by itself with code 0.

    Fails with `hang` (with the stacks), `crash-loop`, `exited-early`; with `failure-policy-final` or
    `restart-budget-spent` if the controller of the job starts nothing again; with `torn-checkpoint` (and
    `checkpoint-lost`) before these if every restart after a fault inside a save ended before a step.
    """
    return Completed()
