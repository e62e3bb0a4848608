"""The process group that functions took in as a default when their module was imported.

Parts of torch say `def f(..., group=dist.group.WORLD)`. Imported once the group stands, as torch does by itself in
the first optimizer step, such functions keep the group alive until the interpreter ends; imported earlier, by a warm
parent, they hold None, the group dies where the script lets go of it, and gloo's destructor can deadlock there. A
cold control tells which functions hold it; a rank that was forked gives it to the same ones.
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
    """The defaults of functions in this process that hold a process group; the same name may stand there twice."""
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
    """Give the group to functions that hold None in its place; those that are not there are left out."""
    for module, name, place in told:
        function: Any = sys.modules.get(module)
        for part in name.split("."):
            function = getattr(function, part, None)
        defaults = getattr(function, "__defaults__", None)
        if defaults and place < len(defaults) and defaults[place] is None:
            function.__defaults__ = (*defaults[:place], group, *defaults[place + 1 :])
