"""`hold`: a property tried with a fixed number of examples, the same ones every time, and counted by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

#: How often each thing was tried in this process.
COUNTS: Counter[str] = Counter()
_UNHURRIED = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


def hold(
    what: str,
    drawn: st.SearchStrategy[Any],
    property_: Callable[[Any], str | None],
    *,
    examples: int,
    shrink: bool = True,
) -> None:
    """Raises what the property raises for the first example for which it does not hold, shrunk if asked to. The
    property returns what it tried, for the counts (`pytest --hypothesis-show-statistics` shows them)."""

    @settings(
        derandomize=True,
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=_UNHURRIED,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
    )
    @given(drawn)
    def run(one: Any) -> None:
        tried = f"{what}: {property_(one) or 'held'}"
        COUNTS[tried] += 1
        event(tried)

    run()
