"""TimeChaos for real: the wall clocks of the first process of a container, and of all that descend from it, are set
once, as chaos-daemon does it: a program that is started later has the right time. It needs root.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from chaoskit.environments.machine.process_clocks import set_wall_clocks
from chaoskit.environments.machine.processes import Process, identify, parent
from chaoskit.errors import ChaoskitError
from tests.kubernetes_server.chaos_rules import go_seconds

Json = dict[str, Any]


def set_clocks(spec: Json, pids: list[int]) -> Callable[[], None]:
    """Set the clocks of the containers whose first processes these are. Raises OSError."""
    if (spec.get("clockIds") or ["CLOCK_REALTIME"]) != ["CLOCK_REALTIME"]:
        raise OSError(f"the clocks {spec['clockIds']} are not possible here")
    chosen = [process for pid in pids for process in family(pid)]
    _set(chosen, go_seconds(spec["timeOffset"]))
    return lambda: _set([one for one in chosen if identify(one.pid) == one], 0.0)


def family(first: int) -> list[Process]:
    """A process and all that descend from it."""
    parents = {int(name): parent(int(name)) for name in os.listdir("/proc") if name.isdecimal()}
    found = [first]
    for each in found:
        found += [child for child, its in parents.items() if its == each]
    return [process for pid in found if (process := identify(pid)) is not None]


def _set(chosen: list[Process], by: float) -> None:
    try:
        failed = set_wall_clocks(chosen, by)
    except ChaoskitError as error:
        raise OSError(str(error)) from error
    if failed:
        raise OSError("; ".join(sorted(set(failed.values()))))
