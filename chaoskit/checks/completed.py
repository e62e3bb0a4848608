"""`completed`: the job came to its last step on every rank and ended by itself with exit code 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.checkpoints import checkpoints, resume_after
from chaoskit.checks.check import Case, Check, unmeasured
from chaoskit.checks.stacks import explain, waits_in
from chaoskit.history import lives
from chaoskit.life import Load
from chaoskit.segment import Execution
from chaoskit.verdict import Outcome, Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class Completed:
    """See `completed`."""

    name = "completed"

    def __call__(self, case: Case) -> Verdict:
        end = case.history.end
        if end == "deadline":
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
            return failed(self.name, f"the job ended with exit code {code}", "exited-early", **evidence)
        if not missing and not unsure and _last_save_open(case, last):
            sentence = (
                f"every rank took its last step, {last}, but the save after it was struck and never completed, and the "
                "job ended with 0 without making it again: what it left behind may be torn"
            )
            return inconclusive(self.name, sentence, "probe-blind", **evidence)
        if not missing and not unsure:
            sentence = f"every rank took its last step, {last}, and the job ended with 0"
            return passed(self.name, sentence, **evidence)
        if blind := blind_spots(case):
            sentence = f"the job ended with 0; whether it took every step is not known: {blind[0]}"
            return inconclusive(self.name, sentence, "probe-blind", **evidence)
        if any(step < last for step in reached.values()):
            short = ", ".join(f"rank {rank} got to step {step}" for rank, step in reached.items() if step < last)
            sentence = f"the job ended with 0 before step {last}: {short}"
            return failed(self.name, sentence, "exited-early", **evidence)
        if missing:
            sentence = f"the job took step {last}, but rank {missing[0][0]} never took step {missing[0][1]}"
            return failed(self.name, sentence, "exited-early", **evidence)
        sentence = (
            f"rank {unsure[0].rank} was struck as it took step {last}; nothing shows that the step was finished, "
            "and the job ended without taking it again"
        )
        return failed(self.name, sentence, "exited-early", **evidence)

    def _hang(self, case: Case) -> Verdict:
        stacks = case.history.stacks
        # A rank that is gone left no stack, and that is part of the explanation.
        told = {rank: stacks.get(rank, "") for rank in sorted({*range(case.history.world_size), *stacks})}
        where = f": {explain(told)}" if told else ""
        waits = {str(rank): own for rank, text in told.items() if (own := waits_in(text)) is not None}
        codes, why = _torn(case, "hung")
        return failed(
            self.name,
            f"the job made no end before its deadline{why}{where}",
            *codes,
            "hang",
            stacks={str(rank): text for rank, text in stacks.items()},
            waits={rank: {"collective": own.collective, "where": own.where} for rank, own in waits.items()},
            reached=case.timeline.highest(),
        )

    def _crash_loop(self, case: Case) -> Verdict:
        launches = case.history.launches
        last = f", the last with exit code {launches[-1].code}" if launches else ""
        if launches and launches[-1].cause == "too-few-nodes":
            last = ", for fewer nodes are left than it needs"
        codes, why = _torn(case, "failed")
        uncaught = _uncaught(case)
        return failed(
            self.name,
            f"the job did not come back in {max(0, len(launches) - 1)} relaunches{last}{why}{uncaught}",
            *codes,
            "crash-loop",
            exit_codes=[launch.code for launch in launches],
            load_errors=[load.error for load in _failed_loads(case)],
            reached=case.timeline.highest(),
        )


def last_step(case: Case) -> int:
    """The last step that is due: after a rollback past which bad batches were left out there are fewer steps."""
    assert case.reference is not None
    return case.reference.steps - len(case.omitted)


def missing_steps(case: Case) -> list[tuple[int, int]]:
    """The steps that were never seen to be taken, as (rank, true step)."""
    assert case.reference is not None
    last = last_step(case)
    return [
        (rank, step) for rank in range(case.reference.world_size) for step in case.timeline.missing(rank, last)
    ]


def blind_spots(case: Case) -> list[str]:
    """Why steps may have been taken that the record does not show; empty where there is no such reason."""
    spots = [f"the record of {gap.source} is damaged at line {gap.line}" for gap in case.history.gaps]
    for inc, life in lives(case.history):
        spots += [f"rank {life.rank}: {error}" for error in life.errors]
        if list(life.steps.numbers) != list(range(1, len(life.steps) + 1)):
            spots.append(f"steps of rank {life.rank} are missing in incarnation {inc.index}")
    return spots + [f"the state of incarnation {index} matches nothing" for index in case.timeline.unplaced]


def incomplete(name: str, case: Case, evidence: Mapping[str, Any]) -> Verdict | None:
    """The verdict of the check `name` on a run of which all that was seen is right, and of which something was not
    seen."""
    missing = missing_steps(case)
    if not missing and not case.timeline.unplaced:
        return None
    end = completed()(case)
    rank, step = missing[0] if missing else (0, 0)
    sentence = f"step {step} of rank {rank} is missing" if missing else "some steps cannot be placed"
    if end.outcome is Outcome.FAIL:
        return failed(name, f"{sentence}: {end.sentence}", *end.codes, **evidence)
    why = "; ".join(blind_spots(case)[:1]) or end.sentence
    return inconclusive(name, f"{sentence}: {why}", "probe-blind", **evidence)


def _last_save_open(case: Case, last: int) -> bool:
    """Whether the checkpoint of the last step was begun and no life of the run has completed it."""
    written = [one for one in checkpoints(case.history, case.timeline) if one.position == last]
    # A life that takes no step may make it again; its position is not known.
    stepless = [life for _, life in lives(case.history) if not life.steps]
    again = any(save.ok and save.ended is not None for life in stepless for save in life.saves)
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
    saved = any(save.n >= last.record.n for life in inc.ranks.values() for save in life.saves)
    last_life = inc.index == len(case.history.incarnations) - 1
    # A relaunch that brought no rank up has not seen to it either.
    whole = last_life and all(launch.index <= inc.launch for launch in case.history.launches)
    ended = inc.ranks[rank].end is not None or whole
    return None if saved or ended else last


def _uncaught(case: Case) -> str:
    """A clause: what the first rank of the last launch that ended with an exception ended with."""
    last = case.history.launches[-1].index if case.history.launches else None
    ended = [life for inc, life in lives(case.history) if inc.launch == last and life.uncaught and life.left]
    first = min(ended, key=lambda life: life.left or 0.0, default=None)
    if first is None:
        return ""
    return f"; in the last one rank {first.rank} ended with {' '.join(first.uncaught.split())}"


def _failed_loads(case: Case) -> list[Load]:
    return [load for _, life in lives(case.history) for load in life.loads if not load.ok or load.ended is None]


def _torn(case: Case, verb: str) -> tuple[tuple[str, ...], str]:
    """Codes and a clause, where every life after a fault inside a save ended without a step, or died reading what
    was being saved."""
    incs = case.history.incarnations
    stepped = max(case.timeline.starts, default=0)
    later = incs[stepped + 1 :]
    if not later:
        return (), ""
    written = checkpoints(case.history, case.timeline)
    resume = resume_after(case.history, case.timeline, written, later[0])
    unsettled = [one for one in resume.seen if one.settled_at is None or one.settled_at > resume.struck]
    open_paths = {path for one in unsettled for path in one.paths}
    died_reading = any(load.path in open_paths for load in _failed_loads(case))
    if not resume.faults or not (resume.torn or died_reading):
        return (), ""
    position = max(resume.torn, default=max(one.position for one in unsettled or resume.seen))
    clause = f": the fault left the save of step {position} unfinished, and each life after {verb} before a step"
    if resume.destroyed:
        clause += f"; that save was overwriting the last valid checkpoint, of step {resume.last_valid}"
        return ("torn-checkpoint", "checkpoint-lost"), clause
    if resume.removed:
        clause += f"; of the last valid checkpoint, of step {resume.last_valid}, no file was left"
        return ("torn-checkpoint", "checkpoint-lost") if died_reading else ("checkpoint-lost",), clause
    return ("torn-checkpoint",), clause


def completed() -> Check:
    """The job took every step up to the reference's last on every rank, and ended by itself with exit code 0.

    Fails with `hang` (with the stacks), `crash-loop`, `exited-early`; with `torn-checkpoint` (and
    `checkpoint-lost`) before these where the lives after a fault inside a save all ended before a step.
    """
    return Completed()
