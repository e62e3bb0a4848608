"""The formats of stored suites: the lines of a file of the archive, and the document of `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from chaoskit.analysis.checkpoints.cost import CheckpointCost
from chaoskit.engine.result import Result
from chaoskit.schema import Count, FileName, Seconds
from chaoskit.studies.nights.conditions import Conditions
from chaoskit.studies.problems.problem import Proof


class _EveryLine(TypedDict):
    e: str


class SuiteLine(_EveryLine, total=False):
    """Any line of a suite's file. `conditions` is in that of a result."""

    conditions: FileName | Literal[""]


class _EveryHead(TypedDict):
    id: FileName
    created: str
    command: tuple[str, ...]
    chaoskit: str
    machine: Mapping[str, str]


class SuiteHead(_EveryHead, total=False):
    """The first line of a suite's file. `after` is the id of the newest suite that the store had then, "" for none."""

    after: FileName | Literal[""]


class _EveryEnd(TypedDict):
    status: str
    seconds: Seconds
    baselines: Mapping[str, FileName]


class EndLine(_EveryEnd, total=False):
    """The last line but for proofs: `results` is how many there are before it, `checkpoint_costs` what the checkpoints
    of each reference cost, by its digest."""

    results: Count
    checkpoint_costs: Mapping[str, CheckpointCost]


class DocumentHead(SuiteHead, total=False):
    """What a document of `--json` says of its suite."""

    status: str
    seconds: Seconds | None


class _EveryDocument(TypedDict):
    verdict: str
    experiments: list[Result]


class SuiteDocument(_EveryDocument, total=False):
    """A document of `--json`."""

    suite: DocumentHead
    baselines: Mapping[str, dict[str, Any]]
    checkpoint_costs: Mapping[str, CheckpointCost]
    proofs: tuple[Proof, ...]
    conditions: Mapping[str, Conditions]
    rests_on: Mapping[str, str]
