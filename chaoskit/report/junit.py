"""What a CI system shows of a test case (JUnit XML) without opening an artifact: the properties of an experiment."""

from __future__ import annotations

from pathlib import Path

from chaoskit.results import Result

#: All names begin with this.
PREFIX = "chaoskit."


def properties(result: Result, *, base: Path) -> list[tuple[str, str]]:
    """Names and values, without those that there is nothing to tell of. The run is told as seen from `base`."""
    run = Path(result.run) if result.run else None
    if run is not None and run.is_relative_to(base):
        run = run.relative_to(base)
    told = {
        "verdict": result.verdict,
        "codes": " ".join(result.codes),
        "sentence": " ".join(result.sentences),
        "run": run,
        "resumed_from": result.resumed_from,
        "steps_lost": result.steps_lost,
        "recovery_seconds": None if result.recovery_seconds is None else round(result.recovery_seconds, 3),
    }
    return [(f"{PREFIX}{name}", str(value)) for name, value in told.items() if value not in (None, "")]
