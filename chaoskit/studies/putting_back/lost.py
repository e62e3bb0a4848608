"""`LostState`: the components that a run lost, and where they would have to be put back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from chaoskit.analysis.case import Case
from chaoskit.analysis.checkpoints.resumes import Resume
from chaoskit.analysis.diagnosis import CODES, Diagnosis, diagnose
from chaoskit.analysis.finding import Finding
from chaoskit.errors import Undecided
from chaoskit.protocol.putting_back import Resumed

#: What the position in the data has in common with no component: it is held by the script and its samplers.
DATA = (
    "the position in the data is kept by the script itself, in its loops and samplers, where chaoskit cannot put it "
    "back"
)


@dataclass(frozen=True)
class LostState:
    """`codes` are those of the lost components; `resumed` says what each rank must put back in which incarnation."""

    codes: tuple[str, ...]
    resumed: tuple[Resumed, ...]

    @property
    def components(self) -> tuple[str, ...]:
        """Every component, on whichever rank it was lost."""
        return tuple(dict.fromkeys(name for one in self.resumed for own in one.ranks.values() for name in own))

    @property
    def positions(self) -> frozenset[int]:
        """The positions from which the job resumed."""
        return frozenset(one.position for one in self.resumed)


def lost_state(case: Case, codes: Collection[str] = ()) -> LostState | None:
    """The components that a run lost, or those with these `codes`; None if it lost none.

    Raises Undecided, with a sentence, where what was lost cannot be put back.
    """
    if case.reference is None or not case.resumes:
        return None
    diagnosis = diagnose(case)
    findings = [one for one in diagnosis.findings if not codes or {one.code, *one.more} & {*codes}]
    held = [one for one in findings if component_of(one)]
    if not held and not diagnosis.scratch and not findings:
        return None
    _must_be_possible(case, diagnosis, held)
    return LostState(tuple(dict.fromkeys(one.code for one in held)), _resumed(case, held))


def component_of(finding: Finding) -> str:
    """The component to put back; empty for one that no rank holds."""
    if finding.component == "batch":
        return "rng" if finding.redrawn and finding.code == "rng-not-restored" else ""
    return finding.component if finding.family in CODES else ""


def _must_be_possible(case: Case, diagnosis: Diagnosis, held: Collection[Finding]) -> None:
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
    if not held:
        raise Undecided(DATA, code="data-replayed")
    resumed = {resume.incarnation for resume in case.resumes}
    for finding in held:
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
        ranks[finding.rank] = tuple(dict.fromkeys((*ranks.get(finding.rank, ()), component_of(finding))))
    return tuple(
        Resumed(incarnation.launch, incarnation.restart, position, ranks)
        for resume in case.resumes
        if (position := expected(case, resume)) > 0
        for incarnation in [case.history.incarnations[resume.incarnation]]
        if not incarnation.taken and incarnation.index not in case.timeline.resized
    )


def expected(case: Case, resume: Resume) -> int:
    """The position that the job resumed from."""
    return case.expected(resume)
