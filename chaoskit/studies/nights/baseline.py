"""`Baseline`: the uninterrupted run of experiments in a compact form that can be archived and copied.

A stored reference is replaced when the job's sources change, and exists on one machine only. A baseline has the part
that is needed to compare two versions: every loss and fingerprint, without files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypedDict

from xxhash import xxh3_128_hexdigest

from chaoskit.analysis.record.steps import LOSS
from chaoskit.analysis.reference.reference import Reference
from chaoskit.schema import Count, conform

#: The losses of a step, or the fingerprint of a component, as text; None where the step has none.
Column = Sequence[str | None]


class StoredBaseline(TypedDict):
    """What JSON has of a baseline: a column is a text with a word for each step, or a list."""

    ranks: Mapping[int, Mapping[str, str | list[str | None]]]


@dataclass(frozen=True)
class Baseline:
    """`job` is the command. `ranks` maps each rank to its columns: `loss` (the `float.hex` of a step's losses, with
    spaces between) and the components, one entry per step. `idle` are the random streams that the job never uses,
    `settings` the versions and flags that are the same on all ranks."""

    job: tuple[str, ...]
    steps: Count
    deterministic: bool
    ranks: Mapping[int, Mapping[str, Column]]
    idle: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, reference: Reference, *, job: Sequence[str]) -> Baseline:
        """Make a baseline from a reference."""
        ranks: dict[int, dict[str, Column]] = {
            rank: {LOSS: steps.losses, **steps.columns} for rank, steps in reference.traces()
        }
        idle = tuple(sorted(reference.idle))
        return cls(tuple(job), reference.steps, reference.deterministic, ranks, idle, reference.settings)

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return len(self.ranks)

    @cached_property
    def digest(self) -> str:
        """A digest of everything except the command."""
        content = {name: value for name, value in self.to_json().items() if name != "job"}
        return xxh3_128_hexdigest(json.dumps(content, sort_keys=True).encode())

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; a column becomes one string if every step has one word, which is much smaller."""
        ranks = {
            str(rank): {name: _packed(column) for name, column in columns.items()}
            for rank, columns in self.ranks.items()
        }
        return {
            "job": list(self.job), "steps": self.steps, "deterministic": self.deterministic, "ranks": ranks,
            "idle": list(self.idle), "settings": dict(self.settings),
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Baseline:
        """Inverse of `to_json`; raises ValueError, naming the field, for invalid data."""
        ranks = {
            rank: {name: _unpacked(column) for name, column in columns.items()}
            for rank, columns in conform(StoredBaseline, data)["ranks"].items()
        }
        made = replace(conform(cls, {**data, "ranks": {}}), ranks=ranks)
        if wrong := [rank for rank, own in ranks.items() if any(len(each) != made.steps for each in own.values())]:
            raise ValueError(f"ranks.{wrong[0]} does not have {made.steps} steps")
        return made


def _packed(column: Column) -> str | list[str | None]:
    whole = [value for value in column if value and " " not in value]
    return " ".join(whole) if len(whole) == len(column) else list(column)


def _unpacked(column: str | list[str | None]) -> Column:
    return column if isinstance(column, list) else column.split(" ") if column else []
