"""`NightSession`: a pytest plugin that runs the experiments of a night in the order of its plan, and within its budget.

The processes of pytest-xdist share a directory: the plan is a file in it, and so are the seconds of what has ended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from chaoskit.engine.result import NOT_RUN
from chaoskit.files.whole_files import replace_file
from chaoskit.studies.nights.night_plan import NightPlan

#: The files in the directory of a night.
PLAN, ENDED = "plan.json", "ended"


class NightSession:
    """The part of a night that one pytest process runs; `directory` has the plan."""

    def __init__(self, directory: Path) -> None:
        self._plan = NightPlan.from_json(json.loads((directory / PLAN).read_text()))
        self._ended = directory / ENDED
        #: Whether the experiment that runs now was left out.
        self._unrun = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        places = {name: place for place, name in enumerate(self._plan.order)}
        items.sort(key=lambda item: places.get(item.name, len(places)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Measure what an experiment takes, and tell the other processes."""
        begun, self._unrun = time.monotonic(), False
        outcome = yield
        if not self._unrun:
            with self._ended.open("a") as file:
                file.write(f"{time.monotonic() - begun:.3f}\n")
        return outcome

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Leave out an experiment that would not end within the budget."""
        over = self._plan.left(item.name, now=time.monotonic(), tonight=self._tonight())
        if over is not None:
            self._unrun = True
            needed, left = over
            pytest.skip(f"{NOT_RUN}: it takes about {shown(needed)}, and {shown(left)} were left")

    def _tonight(self) -> list[float]:
        try:
            return [float(line) for line in self._ended.read_text().split()]
        except FileNotFoundError:
            return []


def write(plan: NightPlan, directory: Path) -> None:
    """Write the plan where the processes of a night find it."""
    replace_file(directory / PLAN, json.dumps(plan.to_json()).encode())


def shown(seconds: float) -> str:
    """'95 s', or '12 min'."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
