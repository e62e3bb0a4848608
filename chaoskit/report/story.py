"""The story of one run in chronological order: launches, faults, saves, resumes with the origin of each component, the
first divergence from the reference, and the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaoskit.analysis.alignment.alignment import Alignment, show_positions
from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints.resumes import Resume
from chaoskit.analysis.comparison import Difference
from chaoskit.analysis.finding import STREAMS, WORDS, show_ranks
from chaoskit.analysis.record.harness_record import BEFORE_WINDOW
from chaoskit.analysis.record.history import Incarnation
from chaoskit.analysis.record.rank_lifetime import component_order
from chaoskit.checks.explanation import components, parts
from chaoskit.report.headline import ENDS, NO_END
from chaoskit.verdict import Verdict

#: Maximum number of steps shown of the propagation of a corruption.
STEPS = 8


@dataclass(frozen=True)
class StoryEntry:
    """One event, `t` seconds after the start of the run; None for a statement about the whole run."""

    t: float | None
    text: str

    def __str__(self) -> str:
        return f"{'' if self.t is None else f'{self.t:.1f} s':>8}  {self.text}"


def story(case: Case, verdicts: Sequence[Verdict] = ()) -> list[StoryEntry]:
    """Tell the run from its first launch to its verdicts."""
    parts = (_launches(case), _faults(case), _lives(case), _returns(case), _notices(case), _saves(case))
    happened = sorted((one for part in parts for one in part), key=lambda one: one[0])
    begun = happened[0][0] if happened else 0.0
    entries = [StoryEntry(t - begun, text) for t, text in happened]
    entries.append(StoryEntry(None, ENDS.get(case.history.end or "", NO_END)))
    entries += [
        StoryEntry(None, text)
        for part in (_errors(case), _divergence(case), _corruptions(case), map(str, case.history.cut_logs))
        for text in part
    ]
    for verdict in verdicts:
        codes = f" ({', '.join(verdict.codes)})" if verdict.codes else ""
        entries.append(StoryEntry(None, f"{verdict.outcome.value} {verdict.check}{codes}: {verdict.sentence}"))
    return entries


Happened = Iterator[tuple[float, str]]


def _launches(case: Case) -> Happened:
    causes = {
        "fault": ", caused by the fault",
        "hang": ", stopped because the job hung",
        "deadline": ", stopped at the deadline",
        "interrupted": ", interrupted",
    }
    for launch in case.history.launches:
        before = launch.cause == BEFORE_WINDOW
        begun = "an uninterrupted run, whose state is kept" if before else f"relaunch {launch.index}"
        yield launch.begun, begun if launch.index or before else "launch"
        if before:
            yield launch.ended or launch.begun, "the window begins: everything before is from the uninterrupted run"
        elif launch.ended is not None:
            how = (
                f"signal {-launch.code}" if launch.code is not None and launch.code < 0 else f"code {launch.code}"
            )
            left = f"; {len(launch.survivors)} processes are still running" if launch.survivors else ""
            code = how if launch.code is not None else "no exit code"
            why = f": {launch.why}" if launch.why else ""
            yield launch.ended, f"the launch ended with {code}{causes.get(launch.cause or '', '')}{left}{why}"


def _faults(case: Case) -> Happened:
    for fault in case.history.faults:
        if fault.applied is None:
            yield fault.requested or float("inf"), f"fault: {fault.name}: never injected"
            continue
        seen = ", observed to take effect" if fault.observed is not None else ", not observed to take effect"
        # Two events may have the same time: the fault comes before its effect.
        yield fault.applied - 1e-6, f"fault: {fault.name}{seen}"
        if fault.healed is not None:
            yield fault.healed, f"healed: {fault.name}"


def _notices(case: Case) -> Happened:
    """Who learnt of a notice of preemption, and what became of it."""
    for one in case.emergencies:
        if one.received is not None:
            yield one.since + one.received, f"  '{one.fault.name}': the job learnt of it after {one.received:.2f} s"
        if one.settled is not None and one.saved_seconds is not None:
            text = f"a checkpoint of step {one.settled.position} was settled {one.saved_seconds:.2f} s after the notice"
            yield one.since + one.saved_seconds, f"  '{one.fault.name}': {text}"
        for node in one.killed:
            yield one.since + one.over, f"  '{one.fault.name}': everything on {node} was killed"


def _saves(case: Case) -> Happened:
    for one in case.checkpoints:
        whole = "" if one.complete else ", not completed"
        yield one.begun, f"checkpoint at step {one.position}{whole}"


def _lives(case: Case) -> Happened:
    resumes = {resume.incarnation: resume for resume in case.resumes}
    for inc in case.history.incarnations:
        if inc.index:
            how = "reload a checkpoint without a restart" if inc.taken else "start"
            yield inc.start, f"incarnation {inc.index}: {len(inc.ranks)} of {inc.world_size} ranks {how}"
            if inc.first_step is None:
                errors = {load.error for own in inc.ranks.values() for load in own.loads if load.error}
                yield inc.start, f"incarnation {inc.index} takes no step{': ' + min(errors) if errors else ''}"
        resume = resumes.get(inc.index)
        if resume is not None and inc.first_step is not None:
            yield from ((inc.first_step, text) for text in _resume(case, inc, resume))


def _returns(case: Case) -> Happened:
    """The recovery times, placed at the first step after the recovery."""
    for one in case.recoveries:
        back = case.history.incarnations[one.incarnation].first_step if one.incarnation is not None else None
        if back is None or one.recovery_seconds is None:
            continue
        times = {"a rank noticed": one.noticed_seconds, "all ranks had stopped": one.stopped_seconds}
        phases = [f"{text} after {seconds:.1f} s" for text, seconds in times.items() if seconds is not None]
        yield back, f"  '{one.name}': {', '.join([*phases, f'recovered in {one.recovery_seconds:.1f} s'])}"


def _resume(case: Case, inc: Incarnation, resume: Resume) -> Iterator[str]:
    start = case.timeline.starts[inc.index]
    base = "an unknown step" if start.base is None else f"step {start.base}"
    due = " or ".join(str(position) for position in sorted(resume.acceptable))
    yield (
        f"incarnation {inc.index} resumes from {base}; expected: step {due} "
        f"(the job had reached step {resume.position})"
    )
    expected = case.expected(resume)
    alike: dict[str, list[int]] = {}
    for rank, own in start.ranks.items():
        alike.setdefault(_sources(own, expected), []).append(rank)
    for text, ranks in alike.items():
        whom = "every rank" if len(ranks) == inc.world_size > 1 else show_ranks(ranks)
        yield f"  {whom}: {text}"


def _sources(own: Alignment, expected: int) -> str:
    """'model, optimizer from step 30; RNG torch CPU from step 0'."""
    places: dict[str, list[str]] = {}
    known = own.positions.keys() - own.silent(expected)
    names = sorted(known, key=component_order)
    for name in names:
        found = own.positions[name]
        if found is None:
            where = "not observed"
        elif expected in found:
            where = f"from step {expected}"
        else:
            where = f"from step {show_positions(found)}" if found else "equal to no step of the reference"
        family, _, stream = name.partition(".")
        word = WORDS.get(family, family)
        places.setdefault(where, []).append(f"{word} {STREAMS.get(stream, stream)}" if stream else word)
    return "; ".join(f"{', '.join(names)} {where}" for where, names in places.items())


def _errors(case: Case) -> Iterator[str]:
    yield from (f"error of the probe: {error}" for error in case.probe_errors)


def _divergence(case: Case) -> Iterator[str]:
    if case.reference is None:
        yield "no comparison: this run has no reference"
        return
    if case.reference.divergence is not None:
        yield f"the job is not deterministic: {case.reference.divergence.sentence}"
    seen = case.comparison
    if seen.differences:
        yield f"first divergence: {_first(case, seen.differences[0])}"
    elif seen.names:
        compared = ", ".join(sorted(seen.names))
        other = "other " * bool(case.propagations)  # corruptions have their own entries
        yield f"no {other}divergence: {seen.compared} executed steps are equal to the reference in {compared}"
    if case.ledger is not None and case.ledger.codes:
        yield f"data: {case.ledger.sentence}"


def _corruptions(case: Case) -> Iterator[str]:
    """The effect of each corruption: the first divergence, then its propagation step by step."""
    for spread in case.propagations:
        first, *others = parts(case, spread)
        yield f"corruption: {first}"
        yield from (f"  {text}" for text in others)
        rows = sorted(spread.until_noticed().items())
        for step, ranks in rows[:STEPS] if not spread.diverged_before else ():
            off = "; ".join(f"{components(set(names))} of rank {rank}" for rank, names in sorted(ranks.items()))
            yield f"  step {step}: {off}"
        if len(rows) > STEPS and not spread.diverged_before:
            yield f"  ... up to step {rows[-1][0]}"


def _first(case: Case, difference: Difference) -> str:
    one = difference.execution
    where = f"incarnation {one.incarnation}, step {one.step}, rank {one.rank}"
    if "steps" in difference.values:
        return f"{where}: the reference ends before this step"
    text = f"{where}: {', '.join(sorted(difference.values))}"
    if "loss" in difference.values:
        got, wanted = difference.values["loss"]
        text += f" (loss {got}, reference {wanted})"
    assert case.reference is not None
    own_rank = case.history.incarnations[one.incarnation].ranks[one.rank]
    own, wanted_tensors = own_rank.tensors.get(one.record.n, {}), case.reference.tensors(one.rank, one.step)
    apart = [
        f"{component}: {name}"
        for component in difference.values
        for name, value in own.get(component, {}).items()
        if wanted_tensors.get(component, {}).get(name, value) != value
    ]
    if apart:
        more = f" and {len(apart) - 3} more" if len(apart) > 3 else ""
        text += f"; tensors that differ: {', '.join(apart[:3])}{more}"
    return text
