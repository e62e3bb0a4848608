"""`Diagnosis`: what was not restored, derived from the differences; shared by the checks of state and of trajectory.

At the first step of a resume each component is judged by itself: one that is not at the model's position was not
restored. At later steps one difference causes the next, so only those are named that no earlier difference explains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from chaoskit.analysis.alignment.alignment import PROOF, Alignment
from chaoskit.analysis.alignment.resume_point import Start
from chaoskit.analysis.alignment.segment import last_known
from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints.resumes import Resume
from chaoskit.analysis.closer_look import look_closer, without_followers
from chaoskit.analysis.comparison import Comparison
from chaoskit.analysis.consequences import began_right, passes_differ
from chaoskit.analysis.finding import WORDS, Finding, show_ranks
from chaoskit.analysis.kept_averages import lost_averages
from chaoskit.analysis.record.rank_lifetime import COMPONENTS, RankLifetime
from chaoskit.analysis.record.steps import Step
from chaoskit.analysis.unused_streams import ranked
from chaoskit.errors import WEAKNESSES

CODES = {
    "model": "model-not-restored",
    "buffers": "buffers-not-restored",
    "optimizer": "optimizer-not-restored",
    "options": "options-not-restored",
    "lr": "lr-schedule-off",
    "scaler": "scaler-not-restored",
    "ema": "ema-not-restored",
    "rng": "rng-not-restored",
}

#: What depends on how the forward pass went: without determinism, a difference of these proves nothing.
COMPUTED = ("buffers", "rng", "batch")

#: What explains a later departure of a component: departures of these on the same rank, at the same step or before
#: (`batch`: before). Besides, a loss that was off before explains everything but the data and the RNG.
CAUSES = {
    "model": ("optimizer", "lr", "scaler", "buffers", "rng", "batch"),
    "buffers": ("model", "rng", "batch"),
    "optimizer": ("model", "lr", "scaler", "buffers", "rng", "batch"),
    "options": (),
    "lr": (),
    "scaler": (),
    "ema": ("model",),
    "rng": ("batch",),
    "batch": ("rng",),
}


@dataclass(frozen=True)
class Diagnosis:
    """`findings` in the order of incarnations and components. `scratch` are resumes that began again at the first
    step though a checkpoint was due. `unseen` says, for a person, what the record lacks to judge the state at a
    resume, `undecided` what cannot be judged because the job is not deterministic; `loose` are the components of that
    kind that depend on how a forward pass went, and that no run need have in common with another."""

    findings: tuple[Finding, ...] = ()
    scratch: tuple[Resume, ...] = ()
    unseen: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    comparison: Comparison = field(default_factory=Comparison)

    @property
    def codes(self) -> tuple[str, ...]:
        """Each code once, a restart from scratch first, then in the order of the table's columns, weaknesses last."""
        order = {name: place for place, name in enumerate(COMPONENTS)}
        ordered = sorted(self.findings, key=lambda one: (one.code in WEAKNESSES, order[one.family]))
        scratch = ["restarted-from-scratch"] if self.scratch else []
        return tuple(dict.fromkeys([*scratch, *(code for one in ordered for code in (one.code, *one.more))]))

    @property
    def advice(self) -> dict[str, str]:
        """By code what to change, where the findings tell it better than their code does: all of those with that code
        say the same."""
        said: dict[str, set[str]] = {}
        for one in self.findings:
            said.setdefault(one.code, set()).add(one.advice)
        return {code: texts.copy().pop() for code, texts in said.items() if len(texts) == 1 and "" not in texts}


def diagnose(case: Case) -> Diagnosis:
    """Return what the run lost. The case must have a reference and steps."""
    assert case.reference is not None
    comparison = case.comparison
    findings: list[Finding] = []
    scratch: list[Resume] = []
    unseen: list[str] = []
    undecided: list[str] = []
    loose: list[str] = []
    resumed = {resume.incarnation: resume for resume in case.resumes}
    for index, start in case.timeline.starts.items():
        resume = resumed.get(index)
        if resume is not None and 0 not in resume.acceptable and start.base == 0:
            scratch.append(resume)
        if resume is not None:
            own = _at_resume(case, resume, start, unseen, undecided, loose)
            findings += [*own, *lost_averages(case, index)]
        findings += _later(case, index, comparison, findings)
    findings = [_by_ledger(case, one) if one.component == "batch" else one for one in findings]
    findings = ranked(case, findings)
    return Diagnosis(
        tuple(findings), tuple(scratch), tuple(unseen), tuple(undecided), tuple(dict.fromkeys(loose)), comparison
    )


def _at_resume(
    case: Case, resume: Resume, start: Start, unseen: list[str], undecided: list[str], loose: list[str]
) -> Iterable[Finding]:
    expected = case.expected(resume)
    inc = case.history.incarnations[resume.incarnation]
    lifetimes, resized = inc.ranks, inc.index in case.timeline.resized
    if resume.incarnation == max(case.timeline.starts):
        silent = [rank for rank in range(inc.world_size) if rank not in start.ranks]
        unseen += [f"rank {rank}: no step was recorded after the resume" for rank in silent]
    assert case.reference is not None
    sharded = case.reference.sharded
    found: list[Finding] = []
    for rank, own in start.ranks.items():
        offset = lifetimes[rank].steps.numbers[0] - 1
        position = expected + offset
        if offset or not own.positions:
            why = "its first steps are" if offset else "a rank of that number in the reference is"
            unseen.append(f"rank {rank}, incarnation {resume.incarnation}: {why} missing")
        unseen += [f"rank {rank}: {name} was not recorded after the resume" for name in own.absent(position)]
        if resized:
            unseen += _unknown(own, lifetimes[rank], position)
        for name in own.positions:
            if position not in own.known[name] and not case.timeline.bitwise and name not in own.loose:
                undecided.append(f"{name} of rank {rank} at step {position}")
        off = own.off(position)
        own_findings: list[Finding] = []
        for name in off:
            family = name.partition(".")[0]
            if (resume.incarnation, rank, name) in case.comparison.unused:
                continue
            if family == "rng" and passes_differ(case, rank, lifetimes[rank], position):
                continue  # streams are looked at after the forward passes, of which there were more or fewer
            if (
                family == "buffers"
                and not own.positions[name]
                and passes_differ(case, rank, lifetimes[rank], position)
            ):
                continue  # saved between two forward passes of a step: they are of no step, and not lost
            if family == "rng" and "batch" in off and began_right(case, name, lifetimes[rank], position):
                continue  # another batch, perhaps of another shape, draws other random numbers
            if family in COMPUTED and name not in case.timeline.comparable:
                loose.append(name)
                continue
            places = tuple(sorted(own.positions[name] or ()))
            finding = Finding("", name, rank, resume.incarnation, position + 1, position, places)
            redrawn = (
                family == "batch" and not places and _redrawn(case, rank, lifetimes[rank].steps[0], position + 1)
            )
            known = family != "batch" or _samples_are_known(case, lifetimes[rank].steps[0])
            code = CODES.get(family) or data_code(places, position, redrawn=redrawn, known=known)
            finding = replace(finding, code=code, redrawn=redrawn)
            look = not redrawn and not (resized and (name == "batch" or name in sharded))
            own_findings.append(look_closer(case, finding, lifetimes[rank]) if look else finding)
        found += without_followers(own_findings, lifetimes[rank], case)
    return found


def _unknown(own: Alignment, lifetime: RankLifetime, position: int) -> Iterator[str]:
    """What of the state after a resume at another world size has no measure."""
    for name in PROOF:
        if name in own.loose:
            yield (
                f"the {name} differs from rank to rank, and its shards were not recorded (CHAOSKIT_ELASTIC=1), so it "
                "cannot be compared between different numbers of ranks"
            )
        elif name in lifetime.steps.columns and position not in own.known.get(name, ()):
            yield f"rank {lifetime.rank}: the {name} at step {position} was not recorded at the other world size"


def _by_ledger(case: Case, finding: Finding) -> Finding:
    """What became of the data is told by all of it, and not by the first batch that is off. Where a later lifetime made
    it good, the ledger is clean, and the batch speaks for itself."""
    codes = case.ledger.codes if case.ledger is not None else ()
    return replace(finding, code=codes[0], more=codes[1:]) if codes else finding


def _samples_are_known(case: Case, own: Step) -> bool:
    """Whether the reference has all samples of this step, too: only then is it known what became of them."""
    assert case.reference is not None
    return bool(own.samples) and case.reference.samples.issuperset(own.samples)


def data_code(places: Sequence[int], position: int, *, redrawn: bool = False, known: bool = True) -> str:
    """Return the code of a batch that is that of `places` where that of `position` was due. `known`: the reference has
    all its samples."""
    if not places and not redrawn:
        return "data-reordered" if known else "data-differs"
    if not places:
        return "rng-not-restored"
    return "data-replayed" if min(places) < position else "data-skipped"


def _redrawn(case: Case, rank: int, own: Step, step: int) -> bool:
    """Whether a rank was handed the very rows of the data set that are due in that step, and what was made of them is
    made of no others in the reference: as where a data set augments its rows at random."""
    assert case.reference is not None
    wanted = case.reference.step(rank, step)
    if wanted is None or not own.rows or own.rows != wanted.rows:
        return False
    return all(case.reference.may_be(sample, row) for sample, row in zip(own.samples, own.rows, strict=False))


def _later(case: Case, incarnation: int, comparison: Comparison, known: Sequence[Finding]) -> Iterator[Finding]:
    """Departures past the first step of an incarnation that nothing before them explains."""
    start = case.timeline.starts[incarnation]
    if start.base is None:
        return
    first: dict[int, dict[str, int]] = {rank: {} for rank in start.ranks}
    for (own, rank, name), step in comparison.first.items():
        if own == incarnation:
            first.setdefault(rank, {})[name] = step
    losses = [steps["loss"] for steps in first.values() if "loss" in steps]
    loss = min(losses, default=None)
    resumed = any(resume.incarnation == incarnation for resume in case.resumes)
    begun = start.base + 1
    for rank, steps in first.items():
        for name, step in steps.items():
            family = name.partition(".")[0]
            # The model alone cannot depart by itself past the first step: that is a loss that diverged.
            if family not in CAUSES or family == "model" or (resumed and step == begun):
                continue
            if any(one.component == name and one.rank == rank and one.incarnation == incarnation for one in known):
                continue
            # A schedule may go by the loss; not one that moves in every step.
            alone = family in ("batch", "rng") or (family == "lr" and (step <= begun + 1 or _moves(case, rank)))
            if not alone and loss is not None and loss < step:
                continue
            if _explained(family, step, steps):
                continue
            if family == "batch":
                taken = _executed(case, rank, incarnation, step)
                places = case.timeline.expected(incarnation)[rank].places("batch", taken.components["batch"])
                redrawn = not places and _redrawn(case, rank, taken, step)
                seen = _samples_are_known(case, taken)
                code = data_code(places, step - 1, redrawn=redrawn, known=seen)
                yield Finding(code, name, rank, incarnation, step, step - 1, places, redrawn=redrawn)
            else:
                since = last_known(case.timeline.segments, incarnation, rank, step, names=[name])
                yield Finding(CODES[family], name, rank, incarnation, step, step - 1, since=since)


def _moves(case: Case, rank: int) -> bool:
    """Whether the reference's learning rate goes by the steps: it moves every few of them. (Not in each, where several
    optimizers step by turns.)"""
    assert case.reference is not None
    steps = dict(case.reference.traces()).get(rank)
    rates = steps.columns.get("lr", []) if steps is not None else []
    return sum(one != other for one, other in pairwise(rates)) > len(rates) / 8


def _explained(family: str, step: int, departed: dict[str, int]) -> bool:
    for name, at in departed.items():
        if name.partition(".")[0] in CAUSES[family] and (at < step or (at == step and family != "batch")):
            return True
    return False


def _executed(case: Case, rank: int, incarnation: int, step: int) -> Step:
    """What a rank did in a true step of that incarnation."""
    ran = next(
        one
        for one in case.timeline.segments
        if (one.rank, one.incarnation) == (rank, incarnation) and one.first <= step <= one.last
    )
    return ran.steps[ran.start + step - ran.first]


def tell(case: Case, findings: Sequence[Finding], scratch: Sequence[Resume] = ()) -> str:
    """One sentence: what was not restored, on which ranks, and what was."""
    parts = []
    for resume in scratch:
        parts.append(
            f"incarnation {resume.incarnation} restarted from the first step, "
            f"although the checkpoint of step {resume.last_valid} was valid"
        )
    grouped: dict[tuple[int, str], list[int]] = {}
    for finding in findings:
        grouped.setdefault((finding.incarnation, str(finding)), []).append(finding.rank)
    for incarnation in dict.fromkeys(key[0] for key in grouped):
        ranks = case.history.incarnations[incarnation].world_size
        by_ranks: dict[tuple[int, ...], list[str]] = {}
        for (index, text), own in grouped.items():
            if index == incarnation:
                by_ranks.setdefault(tuple(dict.fromkeys(own)), []).append(text)
        for own_ranks, texts in by_ranks.items():
            whom = "every rank" if len(own_ranks) == ranks > 1 else show_ranks(own_ranks)
            parts.append(f"{whom}: {', '.join(texts)}{_restored(case, incarnation, own_ranks, findings)}")
        base = case.timeline.starts[incarnation].base
        if any(one.incarnation == incarnation and base in one.torn - {one.last_valid} for one in case.resumes):
            parts.append(f"the fault had left the save of step {base} unfinished, and the job resumed from it")
    return "; ".join(parts)


def _restored(case: Case, incarnation: int, ranks: Sequence[int], findings: Sequence[Finding]) -> str:
    resume = next((one for one in case.resumes if one.incarnation == incarnation), None)
    if resume is None:
        return ""
    expected = case.expected(resume)
    own = case.timeline.starts[incarnation].ranks[ranks[0]]
    here = [one for one in findings if one.incarnation == incarnation and one.rank in ranks]
    off = {one.family for one in here}
    good = [name for name in COMPONENTS if expected in (own.columns.get(name) or ()) and name not in off]
    words = ", ".join(WORDS.get(name, name) for name in good)
    return f"; {words} restored from step {expected}" if good else ""
