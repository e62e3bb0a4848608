"""`Suite`: the results of the experiments of one session, and their uninterrupted runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chaoskit.analysis.checkpoints.cost import CheckpointCost
from chaoskit.engine.result import Result, overall
from chaoskit.studies.nights.baseline import Baseline
from chaoskit.studies.nights.conditions import Conditions
from chaoskit.studies.problems.problem import Problem, Proof
from chaoskit.studies.problems.suite_problems import problems_of
from chaoskit.verdict import Outcome


@dataclass(frozen=True)
class Suite:
    """One session of `chaoskit run` or of pytest. `id` sorts by time; `command` is as typed, `created` the start
    (ISO, UTC), `seconds` the duration (None: chaoskit was killed). `status` is `finished`, `interrupted` or `running`
    (also after chaoskit was killed). `chaoskit` is the version, `machine` has `python`, `platform`, `processor`,
    `cores`, `host`. The keys of `baselines` are the digests in the `references` of the results, those of `conditions`
    the names of `experiments`: what each rests on, as far as that is known. `checkpoint_costs` is what
    the checkpoints of each reference cost, by its digest. `proofs` are those of runs in which lost state was put back.
    `after` is the id of the newest suite that the store had as this one began, "" for none."""

    id: str
    created: str
    command: tuple[str, ...]
    results: tuple[Result, ...]
    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    conditions: Mapping[str, Conditions] = field(default_factory=dict, kw_only=True)
    seconds: float | None = None
    status: str = "finished"
    chaoskit: str = ""
    machine: Mapping[str, str] = field(default_factory=dict)
    checkpoint_costs: Mapping[str, CheckpointCost] = field(default_factory=dict, kw_only=True)
    proofs: tuple[Proof, ...] = field(default=(), kw_only=True)
    after: str = field(default="", kw_only=True)

    @property
    def when(self) -> str:
        """The start as '2026-11-22 10:35 UTC'; empty if unknown."""
        try:
            return f"{datetime.fromisoformat(self.created):%Y-%m-%d %H:%M} UTC"
        except ValueError:
            return self.created

    @property
    def outcome(self) -> Outcome:
        """The combined outcome of all experiments that were not skipped."""
        return overall(self.results)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that the results come to, with what was proved of them."""
        return problems_of(self.results, proofs=self.proofs)

    @property
    def experiments(self) -> Mapping[str, Result]:
        """The results by unique name."""
        return {key_of(result): result for result in self.results}

    def baseline(self, result: Result) -> Baseline | None:
        """Return the first uninterrupted run of an experiment; None if it is not stored."""
        return next((self.baselines[name] for name in result.references if name in self.baselines), None)

    def head(self) -> dict[str, Any]:
        """Return the facts known before the first experiment has ended."""
        return {
            "id": self.id, "created": self.created, "command": list(self.command), "chaoskit": self.chaoskit,
            "machine": dict(self.machine),
        }  # fmt: skip


def key_of(result: Result) -> str:
    """The unique name of an experiment in its suite."""
    return result.nodeid or result.name
