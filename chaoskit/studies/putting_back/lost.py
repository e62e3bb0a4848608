"""`LostState`: the components that a run lost, and where they would have to be put back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from chaoskit.analysis.case import Case
from chaoskit.analysis.diagnosis import CODES, Diagnosis, diagnose
from chaoskit.analysis.finding import Finding
from chaoskit.errors import Undecided
from chaoskit.protocol.putting_back import Resumed
from chaoskit.studies.problems.component_words import POSITION

#: Why the position in the data cannot always be put back.
DATA = "the position in the data cannot be put back: the script holds it in loops and counters of its own"


@dataclass(frozen=True)
class LostState:
    """`codes` are those of all that was lost; `resumed` says what each rank must put back in which incarnation. `data`:
    the position in the data is lost as well. It is not among these, because it may follow from another loss."""

    codes: tuple[str, ...]
    resumed: tuple[Resumed, ...]
    data: bool = False

    @property
    def components(self) -> tuple[str, ...]:
        """Every component, on whichever rank it was lost."""
        return tuple(dict.fromkeys(name for one in self.resumed for own in one.ranks.values() for name in own))

    @property
    def positions(self) -> frozenset[int]:
        """The positions from which the job resumed."""
        return frozenset(one.position for one in self.resumed)

    def with_position(self, ranks: int) -> LostState:
        """The same and the position in the data, which all `ranks` put back."""
        resumed = tuple(
            replace(one, ranks={rank: (*one.ranks.get(rank, ()), POSITION) for rank in range(ranks)})
            for one in self.resumed
        )
        return replace(self, resumed=resumed, data=False)


def lost_state(case: Case, codes: Collection[str] = ()) -> LostState | None:
    """The components that a run lost, or those with these `codes`; None if it lost none.

    Raises Undecided, with a sentence, where it is not known what was lost, or what was lost cannot be put back.
    """
    if case.reference is None:
        raise Undecided("the run has no reference, so it is not known what was lost", code="reference-failed")
    if not case.resumes:
        if any(fault.observed is not None for fault in case.history.faults) and case.history.end != "finished":
            raise Undecided(
                "the job did not train again after the fault, so it restored nothing", code="crash-loop"
            )
        return None
    diagnosis = diagnose(case)
    findings = [one for one in diagnosis.findings if not codes or {one.code, *one.more} & {*codes}]
    if not findings and not diagnosis.scratch:
        if unknown := (*diagnosis.unseen, *diagnosis.undecided):
            raise Undecided(f"it is not known what was lost: {unknown[0]}", code="probe-blind")
        return None
    held = [one for one in findings if components_of(case, one)]
    _must_be_possible(case, diagnosis, findings)
    named = tuple(dict.fromkeys(code for one in findings for code in (one.code, *one.more)))
    resumed = _resumed(case, held)
    if not resumed:
        raise Undecided(
            "no resume from a checkpoint is known to which the state belongs", code="nothing-to-resume"
        )
    return LostState(named, resumed, data=any(one not in held for one in findings))


def components_of(case: Case, finding: Finding) -> tuple[str, ...]:
    """The components to put back; none for what no rank holds."""
    if finding.component == "batch":
        # It is not known from which stream the data set drew.
        return _streams(case, finding.rank) if finding.redrawn and finding.code == "rng-not-restored" else ()
    if finding.component == "ema" and finding.found is None and finding.tensors:
        return ("average",)  # the job keeps it by hand, so it is no component of a step
    return (finding.component,) if finding.family in CODES else ()


def _streams(case: Case, rank: int) -> tuple[str, ...]:
    """Every random stream that is drawn from."""
    assert case.reference is not None
    columns = dict(case.reference.traces())[rank].columns
    streams = {name: column for name, column in columns.items() if name.startswith("rng.")}
    return tuple(name for name, column in streams.items() if len(set(column)) > 1)


def _must_be_possible(case: Case, diagnosis: Diagnosis, findings: Collection[Finding]) -> None:
    if not case.timeline.bitwise:
        divergence = case.timeline.departure or (case.reference.divergence if case.reference is not None else None)
        why = f": {divergence.sentence}" if divergence is not None else ""
        raise Undecided(
            f"the job is not deterministic, so no run of it can be exact{why}", code="not-deterministic"
        )
    if diagnosis.scratch:
        raise Undecided(
            "the job began again at its first step: it loaded no checkpoint, so it lost everything and no component "
            "alone",
            code="restarted-from-scratch",
        )
    resumed = {resume.incarnation for resume in case.resumes}
    for finding in findings:
        incarnation = case.history.incarnations[finding.incarnation]
        if finding.incarnation not in resumed or incarnation.taken:
            raise Undecided(
                f"the {finding.component} was lost in processes that were not restarted, where chaoskit puts nothing "
                "back",
                code=finding.code,
            )
        if finding.incarnation in case.timeline.resized:
            raise Undecided(
                f"the job resumed with another number of ranks ({incarnation.world_size}), and the state of the "
                "reference belongs to the ranks that it had",
                code=finding.code,
            )


def _resumed(case: Case, held: Collection[Finding]) -> tuple[Resumed, ...]:
    """What was lost once is put back at every resume: behind the first loss the later ones are seen less clearly."""
    ranks: dict[int, tuple[str, ...]] = {}
    for finding in held:
        ranks[finding.rank] = tuple(dict.fromkeys((*ranks.get(finding.rank, ()), *components_of(case, finding))))
    return tuple(
        Resumed(incarnation.launch, incarnation.restart, position, ranks)
        for resume in case.resumes
        if (position := case.expected(resume)) > 0
        for incarnation in [case.history.incarnations[resume.incarnation]]
        if not incarnation.taken and incarnation.index not in case.timeline.resized
    )
