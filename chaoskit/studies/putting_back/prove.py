"""`prove`: is what a run is said to have lost all that it lost? The components are put back, and the run is repeated."""

from __future__ import annotations

from collections.abc import Collection

from chaoskit.analysis.finding import STREAMS, WORDS
from chaoskit.engine.runner import Run, Runner
from chaoskit.errors import Undecided
from chaoskit.studies.problems.problem import Proof
from chaoskit.studies.putting_back.lost import LostState, lost_state
from chaoskit.studies.putting_back.rerun import WHEN, PutBackRun, rerun
from chaoskit.verdict import Outcome


def prove(runner: Runner, run: Run, codes: Collection[str] = ()) -> Proof | None:
    """What a further run of the experiment shows, in which chaoskit put back what `run` had lost; with `codes`, only
    the components that these name. None if the run lost no state: then there is nothing to prove.

    `run` must have been judged. Raises what `Runner.run` raises; where the state cannot be put back, the proof says so.
    """
    name = run.experiment or run.id
    try:
        lost = lost_state(run.case, codes)
        if lost is None:
            return None
        return _proof(name, lost, rerun(runner, run, lost))
    except Undecided as error:
        return Proof("impossible", str(error).removeprefix(f"{error.code}: "), experiment=name)


def _proof(name: str, lost: LostState, found: PutBackRun) -> Proof:
    put_back = tuple(one for one in found.changed) or lost.components
    told = {"put_back": put_back, "experiment": name, "run": str(found.run.dir)}
    if found.problem:
        return Proof("impossible", found.problem, **told)  # type: ignore[arg-type]
    what = f"with {words(put_back)} put back{_when(lost, found)}"
    if found.exact:
        return Proof("proven", f"{what}, the run is exact to the bit: nothing else is lost", **told)  # type: ignore[arg-type]
    if found.run.outcome is Outcome.INCONCLUSIVE:
        sentence = next(one.sentence for one in found.run.verdicts if one.outcome is Outcome.INCONCLUSIVE)
        return Proof("impossible", f"{what}, the run cannot be judged: {sentence}", **told)  # type: ignore[arg-type]
    rest = f"{what}, the run is still not exact: {', '.join(found.codes)}"
    return Proof("more-lost", rest, codes=found.codes, **told)  # type: ignore[arg-type]


def words(components: Collection[str]) -> str:
    """'the LR and the torch CPU stream'."""
    shown = []
    for name in components:
        family, _, stream = name.partition(".")
        shown.append(f"the {STREAMS.get(stream, stream)} stream" if stream else f"the {WORDS.get(family, family)}")
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _when(lost: LostState, found: PutBackRun) -> str:
    """When the random streams were put back, if some were."""
    streams = any(name.partition(".")[0] == "rng" for name in lost.components)
    return f" {WHEN[found.moment]}" if streams else ""
