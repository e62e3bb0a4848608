"""`Suite`: what came of the experiments of one session, and the uninterrupted runs that they were held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from chaoskit.results import Result, overall
from chaoskit.suites.baseline import Baseline
from chaoskit.verdict import Outcome

#: What the JSON of an experiment may leave out, and what stands for it.
_DEFAULTS = {each.name: each for each in fields(Result)}


@dataclass(frozen=True)
class Suite:
    """One session of `chaoskit run` or of pytest. `id` sorts by time; `command` is what was typed, `created` when (ISO,
    UTC), `seconds` how long it took (None: its harness died). `status` is `finished`, `interrupted` or `running`
    (also one that died). `chaoskit` is its version, `machine` what is known of where it ran: `python`, `platform`,
    `processor`, `cores`, `host`. `baselines` are by the digest that a result's `references` give."""

    id: str
    created: str
    command: tuple[str, ...]
    results: tuple[Result, ...]
    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    seconds: float | None = None
    status: str = "finished"
    chaoskit: str = ""
    machine: Mapping[str, str] = field(default_factory=dict)

    @property
    def when(self) -> str:
        """When it was begun, as people write it: '2026-11-22 10:35 UTC'; empty where that is not known."""
        try:
            return f"{datetime.fromisoformat(self.created):%Y-%m-%d %H:%M} UTC"
        except ValueError:
            return self.created

    @property
    def outcome(self) -> Outcome:
        """Of all experiments that were not skipped."""
        return overall(self.results)

    @property
    def experiments(self) -> Mapping[str, Result]:
        """The results by a name that is theirs alone."""
        return {result.nodeid or result.name: result for result in self.results}

    def baseline(self, result: Result) -> Baseline | None:
        """The first uninterrupted run that an experiment was held to; None where that is not kept."""
        return next((self.baselines[name] for name in result.references if name in self.baselines), None)

    def head(self) -> dict[str, Any]:
        """Everything that is known before the first experiment has ended."""
        return {
            "id": self.id, "created": self.created, "command": list(self.command), "chaoskit": self.chaoskit,
            "machine": dict(self.machine),
        }  # fmt: skip


def result_of(data: Mapping[str, Any]) -> Result:
    """An experiment from JSON, of this version or of one that knew less; raises KeyError, TypeError or ValueError for
    what is none."""
    known = {name: value for name, value in data.items() if name in _DEFAULTS}
    lists = ("codes", "sentences", "table", "launched", "references", "runs")
    known.update({name: tuple(known[name]) for name in lists if name in known})
    if "name" not in known or known.get("verdict") not in ("pass", "fail", "inconclusive", "skipped"):
        raise ValueError("an experiment needs a name and a verdict")
    return Result(**known)
