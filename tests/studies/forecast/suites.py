"""Suites for forecasts: experiments that killed a rank of a job on two ranks, and what its checkpoints cost."""

from __future__ import annotations

from typing import Any

from chaoskit.analysis.checkpoints.cost import CheckpointCost, SaveCost
from chaoskit.engine.result import Result
from chaoskit.studies.nights.suite import Suite

COST = CheckpointCost(
    ranks=2,
    saves=(
        SaveCost("dcp.save", 6, True, False, blocking_seconds=4.0, whole_seconds=4.0, bytes=2_000_000_000),
        SaveCost("safetensors", 1, False, False, blocking_seconds=9.0, whole_seconds=9.0, bytes=1_000_000_000),
    ),
    interval_steps=10.0,
    step_seconds=0.5,
    kept_bytes=6_000_000_000,
    give_up_seconds=120.0,
)


def killed(name: str = "test_kill", **changed: Any) -> Result:
    """An experiment whose job was back 30 s after all ranks had stopped, which took 8 s."""
    about = {
        "verdict": "pass", "recovery_seconds": 38.0, "stopped_seconds": 8.0, "noticed_seconds": 2.0, "resumed_from": 20,
        "last_valid": 20, "steps_lost": 5, "launched": ("cold",), "references": ("ref",), **changed,
    }  # fmt: skip
    return Result(name, **about)


def lost(name: str = "test_hang") -> Result:
    """An experiment whose job never came back."""
    return killed(
        name, verdict="fail", codes=("hang",), recovery_seconds=None, stopped_seconds=None, noticed_seconds=None,
        resumed_from=None, last_valid=None, steps_lost=None,
    )  # fmt: skip


def suite(*results: Result, cost: CheckpointCost | None = COST, **changed: Any) -> Suite:
    """A suite of these experiments, which began on 2026-11-20."""
    costs = {"ref": cost} if cost is not None else {}
    about = {"checkpoint_costs": costs, "status": "finished", **changed}
    return Suite("20261120-010203-00000abcde", "2026-11-20T01:02:03+00:00", ("chaoskit", "run"), results, **about)
