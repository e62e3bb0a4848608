"""The comparison of two suites as JSON; `docs/reference/format.md` documents schema 1."""

from __future__ import annotations

import json
import math
from typing import Any

from chaoskit.errors import ExitCode
from chaoskit.report.machine.json_report import write_text
from chaoskit.report.terminal.compare_report import answer
from chaoskit.studies.nights.comparison import SuiteComparison, VerdictChange
from chaoskit.studies.nights.drift import Drift, LossDistance
from chaoskit.studies.nights.pacing import Times
from chaoskit.studies.nights.suite import Suite

SCHEMA = 1


def document(one: SuiteComparison, *, times: bool = False) -> dict[str, Any]:
    """Return the comparison as JSON; `docs/reference/format.md` documents schema 1."""
    code = one.exit_code(times=times)
    return {
        "schema": SCHEMA,
        "answer": {ExitCode.PASS: "better" if one.better else "same", ExitCode.FAIL: "worse"}.get(code, "unknown"),
        "exit_code": int(code),
        "sentence": answer(one, times=times),
        "gaps": list(one.gaps),
        "old": _suite(one.old),
        "new": _suite(one.new),
        "compared": list(one.pairs),
        "verdicts": [_change(each) for each in one.changes],
        "gone": list(one.gone),
        "added": list(one.added),
        "references": [_drift(each) for each in one.drifts],
        "unkept": list(one.unkept),
        "rewritten": list(one.rewritten),
        "settings": [dict(each.__dict__) for each in one.settings],
        "times": [_time(each) for each in one.times],
    }


def write(one: SuiteComparison, target: str, *, times: bool = False) -> None:
    """Write the document to the file `target`, or to standard output for `-`."""
    write_text(json.dumps(document(one, times=times), indent=2) + "\n", target)


def _suite(suite: Suite) -> dict[str, Any]:
    return {**suite.head(), "status": suite.status, "seconds": suite.seconds, "verdict": suite.outcome.value}


def _change(one: VerdictChange) -> dict[str, Any]:
    both = {
        word: {
            "verdict": each.verdict,
            "codes": list(each.codes),
            "sentences": list(each.sentences),
            "run": each.run,
        }
        for word, each in (("old", one.old), ("new", one.new))
    }
    return {"name": one.name, "direction": one.direction, **both}


def _drift(one: Drift) -> dict[str, Any]:
    return {
        "experiments": list(one.experiments),
        "steps": [one.old.steps, one.new.steps],
        "ranks": [one.old.world_size, one.new.world_size],
        "equal": not one.apart and not one.void,
        "void": one.void,
        "remark": one.remark,
        "step": one.step,
        "rank": one.rank,
        "values": {name: list(both) for name, both in one.values.items()},
        "first": _apart(one.first),
        "largest": _apart(one.largest),
        "course": one.course,
    }


def _apart(one: LossDistance | None) -> dict[str, Any] | None:
    if one is None:
        return None
    gap = one.gap
    relative = gap.relative if math.isfinite(gap.relative) else None
    return {
        "step": one.step, "rank": one.rank, "backward": one.backward, "old": gap.old.hex(), "new": gap.new.hex(),
        "ulps": gap.ulps, "precision": gap.precision, "relative": relative,
    }  # fmt: skip


def _time(one: Times) -> dict[str, Any]:
    return {**one.__dict__, **{n: v and dict(v.__dict__) for n, v in (("ratio", one.ratio), ("paced", one.paced))}}
