"""Rows that rest on more than the verdicts of checks: each function adds to what the experiments of a row showed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from chaoskit.studies.certificate.evidence import ReadinessEvidence
from chaoskit.studies.certificate.row import State
from chaoskit.studies.forecast.intervals import young

#: The interval between checkpoints may differ from the optimum by this factor.
FACTOR = 2.0
#: The code of a job that unpickles without restriction, and of one whose wrong numbers stay silent.
UNPICKLES, SILENT = "unpickles-freely", "corruption-accepted"


@dataclass(frozen=True)
class Sight:
    """What one piece of evidence says of a row."""

    state: State
    sentence: str = ""
    experiment: str = ""
    runs: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)


def crash_states(evidence: ReadinessEvidence, sights: Sequence[Sight]) -> Iterator[Sight]:
    """The study of crash states shows more than the experiment, and suffices alone; if both are there, both count."""
    studies = [
        Sight("proven", f"resumed exactly from {one.states} states of the disk", runs=(one.run,))
        if one.verdict == "pass"
        else Sight("failed", f"chaoskit crash-states: {', '.join(one.codes)}", runs=(one.run,), codes=one.codes)
        if one.verdict == "fail"
        else Sight("not-tested", "chaoskit crash-states was inconclusive")
        for one in evidence.crashes
    ]
    untested = all(sight.state == "not-tested" for sight in sights)
    yield from studies if studies and untested else (*sights, *studies)


def replica(evidence: ReadinessEvidence, sights: Sequence[Sight]) -> Iterator[Sight]:
    """The job trained while the checkpoints of its first store were gone: it did not wait until they were back."""
    for sight in sights:
        runs = [evidence.runs[name] for name in sight.runs]
        if sight.state == "proven" and not all(1 in run.trained for run in runs):
            why = "the job has copies of its checkpoints, and waited for the originals all the same"
            yield Sight("not-tested", why, sight.experiment)
        else:
            yield sight


def silent(evidence: ReadinessEvidence, sights: Sequence[Sight]) -> Iterator[Sight]:
    """The share of silent corruptions, with its interval, against the largest share that the user allows."""
    limit = evidence.demands.silent_share
    if not evidence.maps:
        yield Sight("not-tested", "no map of silent corruption of this job is in the store")
    for one in evidence.maps:
        interval = f"{one.low:.1%} to {one.high:.1%}"
        text = f"{one.silent} of {one.injections} corruptions stayed silent ({interval}; at most {limit:.1%} may)"
        figures = {"silent_share": one.share, "silent_low": one.low, "silent_high": one.high}
        if one.high <= limit:
            yield Sight("proven", text, runs=(one.run,), figures=figures)
        elif one.low > limit:
            yield _unless_accepted(SILENT, text, evidence, (one.run,), figures)
        else:
            yield Sight("not-tested", f"{text}: the measurement was too short to tell", figures=figures)


def interval(evidence: ReadinessEvidence, sights: Sequence[Sight]) -> Iterator[Sight]:
    """The time between two checkpoints of the production job against Young's optimum for its failures. What the small
    job does says nothing of that time; what a save costs there counts, unless the user knows better."""
    demands = evidence.demands
    if demands.mtbf_seconds is None:
        yield Sight("not-tested", "how often the production job fails was not given")
        return
    if demands.interval_seconds is None:
        yield Sight("not-tested", "the time between two checkpoints of the production job was not given")
        return
    seen = [one.blocking_seconds for one in evidence.costs if one.saves and one.blocking_seconds is not None]
    save = demands.save_seconds if demands.save_seconds is not None else max(seen, default=0.0)
    if save <= 0:
        yield Sight("not-tested", "the uninterrupted run does not say what a save costs: give --save-seconds")
        return
    gap, best = demands.interval_seconds, young(save, demands.mtbf_seconds)
    figures = {"interval_seconds": gap, "optimal_seconds": best, "save_seconds": save}
    text = f"a checkpoint each {_time(gap)}; with {_time(save)} a save, Young's optimum is {_time(best)}"
    near = best / FACTOR <= gap <= best * FACTOR
    yield Sight("proven" if near else "failed", text, figures=figures)


def formats(evidence: ReadinessEvidence, sights: Sequence[Sight]) -> Iterator[Sight]:
    """Which files of a checkpoint the resumes unpickled, and whether torch restricted it."""
    runs = {name: run for name, run in evidence.runs.items() if run.loads}
    loads = {load for run in runs.values() for load in run.loads}
    if not loads:
        yield Sight("not-tested", "no load of a checkpoint was seen")
        return
    free = sorted({f"torch.load(weights_only=False) of {one.name}" for one in loads
                   if one.api == "torch.load" and one.weights_only is False}
                  | {"torch.distributed.checkpoint, which unpickles .metadata without restriction" for one in loads
                     if one.api.startswith("dcp")})  # fmt: skip
    unknown = [one for one in loads if one.api == "torch.load" and one.weights_only is None]
    names = tuple(sorted(runs))
    if free:
        more = f" and {len(free) - 3} more" if len(free) > 3 else ""
        yield _unless_accepted(UNPICKLES, f"the resume uses {'; '.join(free[:3])}{more}", evidence, names, {})
    elif unknown:
        yield Sight("not-tested", "the record does not say how the job loads: make new runs with this chaoskit")
    else:
        kinds = sorted({one.api + ("(weights_only=True)" if one.api == "torch.load" else "") for one in loads})
        yield Sight("proven", f"the resumes used {', '.join(kinds)} alone", runs=names)


def rules(evidence: ReadinessEvidence, sights: Sequence[Sight]) -> Iterator[Sight]:
    """Rules of monitoring can be given to no command yet."""
    yield Sight("not-applicable", "no monitoring rules were given")


def _unless_accepted(
    code: str, text: str, evidence: ReadinessEvidence, runs: tuple[str, ...], figures: Mapping[str, float]
) -> Sight:
    """A failure that has no experiment of its own: accepted where the configuration says so without naming one."""
    standing = next((one for one in evidence.standing if one.code == code and not one.experiment), None)
    if standing is None:
        return Sight("failed", text, runs=runs, codes=(code,), figures=figures)
    reasons = {code: standing.reason}
    return Sight(
        "accepted", f"{standing.reason} ({text})", runs=runs, codes=(code,), reasons=reasons, figures=figures
    )


def _time(seconds: float) -> str:
    for size, name in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"


#: By the name in `Row.measure`.
MEASURES: dict[str, Callable[[ReadinessEvidence, Sequence[Sight]], Iterator[Sight]]] = {
    "crash-states": crash_states, "replica": replica, "silent": silent, "interval": interval, "formats": formats,
    "rules": rules,
}  # fmt: skip
