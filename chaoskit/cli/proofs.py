"""Proofs of the problems of a battery: what was lost is put back, in the smallest experiment that shows each, or in all
of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from chaoskit.errors import StoreError
from chaoskit.studies.problems.problem import Proof

if TYPE_CHECKING:
    from chaoskit.engine.result import Result
    from chaoskit.engine.run_store import Store

#: Each takes a run without a fault and one or a few runs of an experiment.
MOST = 4
#: Why there is no proof of an experiment.
GONE = "the record of its run is gone: run the experiment again"
NOTHING = "its run is not known to have lost state"


def prove_problems(
    results: Sequence[Result], *, store: Store, launch: str, secrets: Mapping[str, str]
) -> tuple[Proof, ...]:
    """Repeat the smallest experiment of each problem that names lost state, with that state put back; at most `MOST`
    experiments. `secrets` are those of the job, which stored runs lack. Nothing is raised for what cannot be repeated:
    the proof then says why. Ctrl-C ends the proofs only."""
    from chaoskit.studies.problems.suite_problems import problems_of

    runs = {problem.shown_by[0]: problem.run for problem in problems_of(results) if problem.provable}
    repeater = Repeater(store, launch=launch, secrets=secrets, yes=True)  # they are this command's own
    proofs: list[Proof] = []
    for name, run in list(runs.items())[:MOST]:
        try:
            proof = repeater.proof(name, run)
        except KeyboardInterrupt:
            break  # the verdicts are there, and are to be shown
        if proof is not None:
            proofs.append(proof)
    return tuple(proofs)


def prove_all(results: Sequence[Result], repeater: Repeater, *, codes: Collection[str] = ()) -> tuple[Proof, ...]:
    """Repeat every experiment that shows lost state, with that state put back; with `codes`, those that show one of
    them, with only what they name put back. Each experiment is repeated once, and has a proof."""
    from chaoskit.studies.problems.suite_problems import problems_of

    known = {result.name: result for result in results}
    lost = [one for one in problems_of(results) if one.lost_state and (not codes or one.code in codes)]
    proofs = []
    for name in dict.fromkeys(name for problem in lost for name in problem.shown_by):
        run = known[name].run_path
        proof = repeater.proof(name, run, codes) if run else None
        proofs.append(proof or Proof("impossible", NOTHING if run else GONE, experiment=name))
    return tuple(proofs)


@dataclass(frozen=True)
class Repeater:
    """Repeats stored runs with lost state put back; those from elsewhere only after a question, unless `yes`. `secrets`
    are what the stored runs lack; without them it comes from the environment."""

    store: Store
    launch: str
    environment: str = ""
    timeout: float | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    yes: bool = False

    def proof(self, name: str, run_dir: str, codes: Collection[str] = ()) -> Proof | None:
        """What a further run of the experiment shows; None if it lost nothing that these codes name."""
        from chaoskit.cli.stored_runs import runner_for
        from chaoskit.engine.runner import stored
        from chaoskit.studies.putting_back import try_to_prove

        try:
            run = stored(Path(run_dir).absolute(), self.store)
            if self.secrets:
                run.job = run.job.with_secrets({**os.environ, **self.secrets})
            with runner_for(
                run,
                self.store,
                environment=self.environment,
                launch=self.launch,
                timeout=self.timeout,
                label=f"proof of {name}",
                yes=self.yes,
            ) as runner:
                return try_to_prove(runner, run, codes)
        except StoreError:
            return Proof("impossible", GONE, experiment=name)
