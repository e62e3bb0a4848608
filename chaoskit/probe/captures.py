"""`captures`: functions that hold the process group as the default of an argument.

Parts of torch define `def f(..., group=dist.group.WORLD)`. If torch imports them after the group was made, as it does
in the first optimizer step, they keep the group alive until the interpreter ends. If a warm parent imports them before,
they hold None: the group is destroyed when the script drops it, and gloo's destructor can deadlock then. A cold control
records which functions hold the group; a forked rank sets it in the same ones.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import Any

#: A function's module and qualified name, and which of its defaults.
Capture = tuple[str, str, int]


def captures() -> list[Capture]:
    """The functions of this process, and which of their defaults, that hold a process group."""
    distributed = sys.modules.get("torch.distributed")
    kind = getattr(distributed, "ProcessGroup", None)
    if kind is None:
        return []
    found = []
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__defaults__:
            held = [place for place, value in enumerate(function.__defaults__) if isinstance(value, kind)]
            found += [(function.__module__, function.__qualname__, place) for place in held]
    return sorted(set(found))


def capture(told: Iterable[Sequence[Any]], group: Any) -> None:
    """Set the group in the recorded functions that hold None instead; skip those that do not exist."""
    for module, name, place in told:
        function: Any = sys.modules.get(module)
        for part in name.split("."):
            function = getattr(function, part, None)
        defaults = getattr(function, "__defaults__", None)
        if defaults and place < len(defaults) and defaults[place] is None:
            function.__defaults__ = (*defaults[:place], group, *defaults[place + 1 :])
