"""The properties of an experiment in JUnit XML, which CI systems show with the test case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaoskit.analysis.record.steps import readable
from chaoskit.engine.result import Result

#: Prefix of all names.
PREFIX = "chaoskit."


def properties(result: Result, *, base: Path) -> list[tuple[str, str]]:
    """Return names and values, without unknown values. The path of the run is relative to `base` if it lies below."""
    run = Path(result.run) if result.run else None
    if run is not None and run.is_relative_to(base):
        run = run.relative_to(base)
    values = {
        "verdict": result.word,
        "codes": " ".join(result.codes),
        "accepted": " ".join(result.accepted),
        "reasons": "; ".join(f"{code}: {why}" for code, why in result.reasons.items()),
        "sentence": readable(_text(result.sentences)),
        "run": run,
        "resumed_from": result.resumed_from,
        "steps_lost": result.steps_lost,
        "recovery_seconds": None if result.recovery_seconds is None else round(result.recovery_seconds, 3),
    }
    return [(f"{PREFIX}{name}", str(value)) for name, value in values.items() if value not in (None, "")]


def _text(sentences: Sequence[str]) -> str:
    """Join sentences; where there are several, each ends with a full stop."""
    if len(sentences) < 2:
        return "".join(sentences)
    return " ".join(one if one.endswith((".", "!", "?")) else f"{one}." for one in sentences)
