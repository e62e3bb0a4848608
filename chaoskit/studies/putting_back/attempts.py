"""`rerun`: repeats an experiment with lost components put back, and judges it by the same checks.

When random streams must be put back depends on the job: some draw from them for the data, some for the model only, and
what a sampler draws as an epoch begins comes even earlier. So several moments are tried, until one makes the run exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chaoskit import environments
from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.analysis.reference.divergence import part
from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.kept_state import KeptState, keep
from chaoskit.engine.runner import Run, Runner, replay
from chaoskit.errors import Undecided
from chaoskit.protocol.events import rank_events
from chaoskit.protocol.putting_back import MOMENTS, WAYS, PutBack
from chaoskit.studies.problems.component_words import words
from chaoskit.studies.putting_back.lost import LostState
from chaoskit.verdict import Outcome

#: For sentences: when the random streams were put back.
WHEN = {
    "draw": "as the first batch after the resume was drawn",
    "forward": "as the first forward pass after the resume began",
    "load": "as the checkpoint had been loaded",
}


@dataclass(frozen=True)
class PutBackRun:
    """A further run of an experiment, judged. `changed` are the components that were other ones before they were put
    back. `problem` says, as a sentence, why the run proves nothing; it is empty where all was put back as planned."""

    run: Run
    moment: str
    changed: tuple[str, ...]
    problem: str = ""

    @property
    def exact(self) -> bool:
        """Whether every check passed, and the components were put back."""
        return not self.problem and self.run.outcome is Outcome.PASS

    @property
    def codes(self) -> tuple[str, ...]:
        """What the checks still found, each code once; of checks that failed, where some did."""
        outcome = self.run.outcome
        found = (code for one in self.run.verdicts if one.outcome is outcome for code in one.codes)
        return tuple(dict.fromkeys(found))


def rerun(runner: Runner, run: Run, lost: LostState) -> PutBackRun:
    """Repeat `run` with the lost components put back: the exact run, if one is, else the one with the fewest codes.

    Raises Undecided where the state of the reference cannot be kept, and what `Runner.run` raises.
    """
    environments.must_share_files(runner.environment, to="putting back")
    reference = runner.reference(run.job)
    _must_be_the_same_job(run, reference)
    whole = lost.with_position(reference.world_size)
    attempts = _Attempts(
        runner,
        run,
        keep(
            runner.store,
            run.job,
            reference,
            environment=runner.environment,
            progress=runner.progress,
            positions=lost.positions,
            components={name.partition(".")[0] for name in whole.components},
        ),
    )
    for moment in _moments(lost):
        if attempts.make(lost, moment):
            return attempts.best
    moment = attempts.best.moment if lost.components else MOMENTS[0]
    if lost.data or any(code.startswith("data-") for code in attempts.best.codes):
        for way in WAYS:
            if attempts.make(whole, moment, way):
                break
    return attempts.best


class _Attempts:
    """The further runs of one experiment. `best` is the exact one, else the one with the fewest codes."""

    def __init__(self, runner: Runner, run: Run, kept: KeptState) -> None:
        self._runner, self._run, self._kept = runner, run, kept
        self._made: list[PutBackRun] = []

    @property
    def best(self) -> PutBackRun:
        return min(self._made, key=lambda made: (not made.exact, bool(made.problem), len(made.codes)))

    def make(self, lost: LostState, moment: str, way: str = WAYS[0]) -> bool:
        """Repeat the experiment; returns whether it was exact."""
        self._runner.progress.phase(f"with {words(lost.components)} put back")
        order = PutBack(self._kept.directory, lost.resumed, self._kept.digests, moment, way)
        again = replay(self._run, self._runner, put_back=order)
        changed = _changed(again)
        self._made.append(PutBackRun(again, moment, tuple(changed), _problem(again, lost, changed)))
        return self._made[-1].exact


def _moments(lost: LostState) -> tuple[str, ...]:
    """The moments to try; only random streams depend on them. None where the position in the data alone is lost."""
    if not lost.components:
        return ()
    return MOMENTS if any(name.partition(".")[0] == "rng" for name in lost.components) else MOMENTS[:1]


def _must_be_the_same_job(run: Run, reference: Reference) -> None:
    """The components are known from the old record: they mean nothing for another program."""
    assert run.reference is not None
    if part(run.reference.controls[0], reference.controls[0], reference.idle) is not None:
        raise Undecided(
            "the job is not what it was when it was judged: without a fault it now does something else; run the "
            "experiment again",
            code="not-deterministic",
        )


def _changed(run: Run) -> dict[str, None]:
    """The components that were put back and had been other ones, on any rank."""
    found: dict[str, None] = {}
    for event in rank_events(run.dir, "state.put"):
        values: Mapping[str, list[str]] = event["components"]
        found.update(dict.fromkeys(name for name, (before, after) in values.items() if before != after))
    return found


def _problem(run: Run, lost: LostState, changed: Mapping[str, None]) -> str:
    """Why the run is no proof; empty if it is one."""
    errors = [event for event in rank_events(run.dir, "probe.error") if event["where"] == "put back"]
    if errors:
        return f"a component could not be put back: {errors[0]['error']}"
    if missed := next(_missed(run.history.faults), None):
        return f"the fault did not strike in the further run as it had before: {missed}"
    due = {(one.launch, one.restart): one.position for one in lost.resumed}
    came = {}
    for resume in run.case.resumes:
        incarnation = run.history.incarnations[resume.incarnation]
        came[incarnation.launch, incarnation.restart] = run.case.expected(resume)
    for at, position in due.items():
        if at not in came:
            return f"the further run did not come to the resume from step {position}"
        if came[at] != position:
            return f"the further run resumed from step {came[at]}, and not from step {position} as before"
    events = list(rank_events(run.dir, "state.put"))
    told = {event.source for event in events}
    if len(told) < sum(len(one.ranks) for one in lost.resumed):
        return "a rank did not come to its first step after the resume, so it put nothing back"
    named = {name for event in events for name in event["components"]}
    families = {*named, *(name.partition(".")[0] for name in named)}
    if left := [name for name in lost.components if name not in families]:
        return f"{words(left)} was not put back: the ranks did not find it"
    if not changed:
        return (
            f"{words(lost.components)} had the right value before chaoskit put it back, so this run shows nothing"
        )
    return ""


def _missed(faults: list[FaultRecord]) -> Iterator[str]:
    return (str(fault.name) for fault in faults if fault.observed is None)
