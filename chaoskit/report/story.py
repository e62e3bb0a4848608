"""The story of one run, in order: what was broken, what was seen, what was resumed from and what should have been,
where each component came from, and where the run first parted from the uninterrupted one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaoskit.alignment import Alignment, show_positions
from chaoskit.checkpoints import Resume, checkpoints
from chaoskit.checks.check import Case
from chaoskit.checks.comparison import Difference
from chaoskit.checks.diagnosis import show_ranks
from chaoskit.checks.explanation import components, parts
from chaoskit.checks.finding import STREAMS, WORDS
from chaoskit.history import Incarnation
from chaoskit.life import COMPONENTS
from chaoskit.verdict import Verdict

#: So many steps are told of how a wrong number spread.
STEPS = 8


@dataclass(frozen=True)
class Moment:
    """One thing that happened, `t` seconds after the run began (None: what is said of all of it)."""

    t: float | None
    text: str

    def __str__(self) -> str:
        return f"{'' if self.t is None else f'{self.t:.1f} s':>8}  {self.text}"


def story(case: Case, verdicts: Sequence[Verdict] = ()) -> list[Moment]:
    """The run from its first launch to its verdicts."""
    parts = (_launches(case), _faults(case), _lives(case), _returns(case), _saves(case))
    happened = sorted((one for part in parts for one in part), key=lambda one: one[0])
    begun = happened[0][0] if happened else 0.0
    told = [Moment(t - begun, text) for t, text in happened]
    end = {"finished": "the job came to its end", "gave-up": "the relaunches were used up",
           "deadline": "the deadline came", "interrupted": "it was interrupted"}  # fmt: skip
    told.append(Moment(None, end.get(case.history.end or "", "the record has no end: the harness died")))
    told += [Moment(None, text) for part in (_parting(case), _corruptions(case)) for text in part]
    for verdict in verdicts:
        codes = f" ({', '.join(verdict.codes)})" if verdict.codes else ""
        told.append(Moment(None, f"{verdict.outcome.value} {verdict.check}{codes}: {verdict.sentence}"))
    return told


Happened = Iterator[tuple[float, str]]


def _launches(case: Case) -> Happened:
    causes = {
        "fault": ", struck by the fault",
        "deadline": ", ended at the deadline",
        "interrupted": ", interrupted",
    }
    for launch in case.history.launches:
        yield launch.begun, "the job is launched" if not launch.index else f"relaunch {launch.index}"
        if launch.ended is not None:
            how = (
                f"signal {-launch.code}" if launch.code is not None and launch.code < 0 else f"code {launch.code}"
            )
            left = f"; {len(launch.survivors)} processes were left" if launch.survivors else ""
            code = how if launch.code is not None else "no exit code"
            yield launch.ended, f"the launch has ended with {code}{causes.get(launch.cause or '', '')}{left}"


def _faults(case: Case) -> Happened:
    for fault in case.history.faults:
        if fault.applied is None:
            yield fault.requested or float("inf"), f"fault: {fault.name}: never struck"
            continue
        seen = ", seen to take effect" if fault.observed is not None else ", and nothing shows that it took effect"
        # Two events may share an instant: the fault comes before what it causes.
        yield fault.applied - 1e-6, f"fault: {fault.name}{seen}"
        if fault.healed is not None:
            yield fault.healed, f"healed: {fault.name}"


def _saves(case: Case) -> Happened:
    for one in checkpoints(case.history, case.timeline):
        whole = "" if one.complete else ", which was not finished"
        yield one.begun, f"a checkpoint at step {one.position}{whole}"


def _lives(case: Case) -> Happened:
    resumes = {resume.incarnation: resume for resume in case.resumes}
    for inc in case.history.incarnations:
        if inc.index:
            how = "go back to a checkpoint, in their processes" if inc.taken else "come up"
            yield inc.start, f"life {inc.index}: {len(inc.ranks)} of {inc.world_size} ranks {how}"
            if inc.first_step is None:
                errors = {load.error for life in inc.ranks.values() for load in life.loads if load.error}
                yield inc.start, f"life {inc.index} takes no step{': ' + min(errors) if errors else ''}"
        resume = resumes.get(inc.index)
        if resume is not None and inc.first_step is not None:
            yield from ((inc.first_step, text) for text in _resume(case, inc, resume))


def _returns(case: Case) -> Happened:
    """How long it took, beside the first step that was taken again."""
    for one in case.recoveries:
        back = case.history.incarnations[one.incarnation].first_step if one.incarnation is not None else None
        if back is None or one.recovery_seconds is None:
            continue
        times = {"a rank had noticed": one.noticed_seconds, "all ranks had stopped": one.stopped_seconds}
        told = [f"{text} after {seconds:.1f} s" for text, seconds in times.items() if seconds is not None]
        yield back, f"  of '{one.name}': {', '.join([*told, f'back after {one.recovery_seconds:.1f} s'])}"


def _resume(case: Case, inc: Incarnation, resume: Resume) -> Iterator[str]:
    start = case.timeline.starts[inc.index]
    base = "an unknown step" if start.base is None else f"step {start.base}"
    due = " or ".join(str(position) for position in sorted(resume.acceptable))
    yield f"life {inc.index} takes its first step, from {base}; due was {due} (step {resume.position} had been reached)"
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
    told = own.positions.keys() - own.silent(expected)
    names = sorted(told, key=lambda name: (COMPONENTS.index(name.partition(".")[0]), name))
    for name in names:
        found = own.positions[name]
        if found is None:
            where = "not seen"
        elif expected in found:
            where = f"from step {expected}"
        else:
            where = f"from step {show_positions(found)}" if found else "from no step of the reference"
        family, _, stream = name.partition(".")
        word = WORDS.get(family, family)
        places.setdefault(where, []).append(f"{word} {STREAMS.get(stream, stream)}" if stream else word)
    return "; ".join(f"{', '.join(names)} {where}" for where, names in places.items())


def _parting(case: Case) -> Iterator[str]:
    if case.reference is None:
        yield "there is no reference to compare with"
        return
    if case.reference.parting is not None:
        yield f"the job is not deterministic: {case.reference.parting.sentence}"
    seen = case.comparison
    if seen.differences:
        yield f"first divergence: {_first(case, seen.differences[0])}"
    elif seen.names:
        compared = ", ".join(sorted(seen.names))
        other = "other " * bool(case.courses)  # what was corrupted is told of beside it
        yield f"no {other}divergence: {seen.compared} executed steps are equal to the reference in {compared}"
    if case.ledger is not None and case.ledger.codes:
        yield f"data: {case.ledger.sentence}"


def _corruptions(case: Case) -> Iterator[str]:
    """What became of each wrong number: where the run left the reference, and then step by step, who noticed."""
    for course in case.courses:
        first, *others = parts(case, course)
        yield f"corruption: {first}"
        yield from (f"  {text}" for text in others)
        rows = sorted(course.until_noticed().items())
        for step, ranks in rows[:STEPS] if not course.parted else ():
            off = "; ".join(f"{components(set(names))} of rank {rank}" for rank, names in sorted(ranks.items()))
            yield f"  step {step}: {off}"
        if len(rows) > STEPS and not course.parted:
            yield f"  and so on, to step {rows[-1][0]}"


def _first(case: Case, difference: Difference) -> str:
    one = difference.execution
    where = f"life {one.incarnation}, step {one.step}, rank {one.rank}"
    if "steps" in difference.values:
        return f"{where}: a step past the reference's last"
    text = f"{where}: {', '.join(sorted(difference.values))}"
    if "loss" in difference.values:
        got, wanted = difference.values["loss"]
        text += f" (loss {got} against {wanted})"
    assert case.reference is not None
    life = case.history.incarnations[one.incarnation].ranks[one.rank]
    own, wanted_tensors = life.tensors.get(one.record.n, {}), case.reference.tensors(one.rank, one.step)
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
