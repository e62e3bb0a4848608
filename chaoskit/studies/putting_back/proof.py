"""`prove`: is what a run is said to have lost all that it lost? It is put back, and the run is repeated."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from chaoskit.engine.runner import Run, Runner
from chaoskit.errors import ChaoskitError, Undecided
from chaoskit.studies.problems.component_words import words
from chaoskit.studies.problems.problem import Proof
from chaoskit.studies.putting_back.attempts import WHEN, PutBackRun, rerun
from chaoskit.studies.putting_back.lost import DATA, LostState, lost_state
from chaoskit.verdict import Outcome

#: Why a stream may be lost although those of the rank were put back.
ELSEWHERE = (
    "random numbers are drawn elsewhere, too: in the workers of a data loader, or from a generator of the job's own, "
    "which chaoskit does not put back"
)


def prove(runner: Runner, run: Run, codes: Collection[str] = ()) -> Proof | None:
    """What a further run of the experiment shows, in which chaoskit put back what `run` had lost; with `codes`, only
    the components that these name. None if the run lost no such state: then there is nothing to prove.

    `run` must have been judged. Where the state cannot be put back, the proof says why. Raises what `Runner.run` raises
    for a job that cannot be run.
    """
    name = run.experiment or run.id
    try:
        lost = lost_state(run.case, codes)
        if lost is None:
            return None
        return _proof(name, lost, rerun(runner, run, lost))
    except Undecided as error:
        return Proof("impossible", str(error).removeprefix(f"{error.code}: "), experiment=name)


def try_to_prove(runner: Runner, run: Run, codes: Collection[str] = ()) -> Proof | None:
    """As `prove`, but an error of chaoskit's while it repeats the run is no proof, and no error: the verdicts on `run`
    stay valid."""
    try:
        return prove(runner, run, codes)
    except ChaoskitError as error:
        return Proof("impossible", str(error), experiment=run.experiment or run.id)


def _proof(name: str, lost: LostState, found: PutBackRun) -> Proof:
    put_back = found.changed or lost.components
    proof = Proof("impossible", found.problem, put_back=put_back, experiment=name, run=str(found.run.dir))
    if found.problem:
        return proof
    what = f"with {words(put_back)} put back{_when(lost, found)}"
    if found.exact:
        return replace(
            proof, outcome="proven", sentence=f"{what}, the run is exact to the bit: nothing else is lost"
        )
    if found.run.outcome is Outcome.INCONCLUSIVE:
        said = next(one.sentence for one in found.run.verdicts if one.outcome is Outcome.INCONCLUSIVE)
        return replace(proof, sentence=f"{what}, the run cannot be judged: {said}")
    rest = f"{what}, the run is still not exact: {', '.join(found.codes)}"
    if any(code.startswith("data-") for code in found.codes):
        rest += f"; {DATA}"
    streams = any(name.partition(".")[0] == "rng" for name in put_back)
    if streams and "rng-not-restored" in found.codes:
        rest += f"; {ELSEWHERE}"
    return replace(proof, outcome="more-lost", sentence=rest, codes=found.codes)


def _when(lost: LostState, found: PutBackRun) -> str:
    """When the random streams were put back, if some were."""
    streams = any(name.partition(".")[0] == "rng" for name in lost.components)
    return f" {WHEN[found.moment]}" if streams else ""
