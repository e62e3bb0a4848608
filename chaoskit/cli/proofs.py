"""Proofs of the problems of a battery: what was lost is put back, in the smallest experiment that shows each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from chaoskit.errors import FAMILIES, StoreError

if TYPE_CHECKING:
    from chaoskit.engine.result import Result
    from chaoskit.engine.run_store import Store
    from chaoskit.studies.problems.problem import Problem, Proof

#: Each takes a run without a fault and one or a few runs of an experiment.
MOST = 4
#: Families of codes that name a component, which can be put back.
HELD = ("state", "data")


def prove_problems(results: Sequence[Result], *, store: Store, launch: str, stream: TextIO) -> tuple[Proof, ...]:
    """Repeat the smallest experiment of each problem that names lost state, with that state put back; at most `MOST`
    experiments. Nothing is raised for what cannot be repeated: the proof then says why. Ctrl-C ends the proofs only."""
    from chaoskit.engine.progress import progress_on
    from chaoskit.engine.runner import Runner, stored
    from chaoskit.studies.putting_back import try_to_prove

    proofs: list[Proof] = []
    for problem in _to_prove(results):
        try:
            run = stored(Path(problem.run).absolute(), store)
            environment = str(store.read(run.dir)["environment"])
        except StoreError:
            continue  # its record was removed meanwhile
        progress = progress_on(stream, f"proof of {problem.code}")
        try:
            runner = Runner(
                store, environment=environment, experiment=run.experiment, progress=progress, launch=launch
            )
            proof = try_to_prove(runner, run)
        except KeyboardInterrupt:
            break  # the verdicts are there, and are to be shown
        finally:
            progress.stop()
        if proof is not None:
            proofs.append(proof)
    return tuple(proofs)


def _to_prove(results: Sequence[Result]) -> list[Problem]:
    """The problems whose state can be put back, one for each experiment: a further run puts back all that it lost."""
    from chaoskit.studies.problems.suite_problems import problems_of

    by_experiment: dict[str, Problem] = {}
    for problem in problems_of(results):
        if not problem.weakness and problem.run and FAMILIES.get(problem.code) in HELD:
            by_experiment.setdefault(problem.shown_by[0], problem)
    return list(by_experiment.values())[:MOST]
