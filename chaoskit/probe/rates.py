"""`Rates`: the learning rates and options of a rank's parameters, step by step, in a file; and how they are held.

What a schedule gives is no state that could be put back once: a script may compute the rate of each step from a counter
of its own. So the rates of the reference are put back in every step.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaoskit.probe.naming import naming
from chaoskit.protocol.fingerprint import is_tensor
from chaoskit.protocol.json_lines import LineWriter, decode

#: Options that belong to the parameters and are no numbers.
_NO_OPTIONS = ("params", "param_names")


class RatesWriter:
    """Appends a line at each step at which something has changed."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._lines = LineWriter(path)
        self._last: Any = None

    def write(self, n: int, optimizers: Sequence[Any], roots: Sequence[Any]) -> None:
        """Step `n` is about to be taken with the rates and options that the groups have now."""
        now = told(optimizers, roots)
        if now != self._last:
            self._last = now
            self._lines.write({"n": n, "optimizers": now})


def told(optimizers: Sequence[Any], roots: Sequence[Any]) -> list[list[dict[str, Any]]]:
    """Of each optimizer its groups: the names of the parameters, and the numbers."""
    names = naming(optimizers, roots).names
    return [
        [
            {
                "names": [names[id(p)] for p in group["params"]],
                "options": {
                    name: plain
                    for name, value in group.items()
                    if name not in _NO_OPTIONS and (plain := _plain(value)) is not None
                },
            }
            for group in each.param_groups
        ]
        for each in optimizers
    ]


def _plain(value: Any) -> Any:
    """A number or numbers as JSON has them, exact; None for anything else."""
    if is_tensor(value):
        return {"tensor": value.detach().cpu().tolist()}
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(each, (bool, int, float)) for each in value):
        return list(value)
    return None


class Rates:
    """Those of the reference. Raises ValueError for a file that was not written by `RatesWriter`."""

    def __init__(self, content: bytes) -> None:
        self._steps: list[int] = []
        self._values: list[Any] = []
        for line in decode(content):
            if line.error is not None or not {"n", "optimizers"} <= line.value.keys():
                raise ValueError(f"line {line.number} of the kept rates is damaged")
            self._steps.append(int(line.value["n"]))
            self._values.append(line.value["optimizers"])

    def hold(self, step: int, optimizers: Sequence[Any], roots: Sequence[Any], *, lr: bool, options: bool) -> None:
        """Set what the parameters had in that step. Raises ValueError where the groups of the job cannot have that."""
        place = bisect_right(self._steps, step)
        if not place:
            raise ValueError(f"no rates of step {step} were kept")
        kept = self._values[place - 1]
        if len(kept) != len(optimizers):
            raise ValueError(f"the job has {len(optimizers)} optimizers, and {len(kept)} in the reference")
        names = naming(optimizers, roots).names
        for each, groups in zip(optimizers, kept, strict=True):
            wanted = {name: group["options"] for group in groups for name in group["names"]}
            for group in each.param_groups:
                _set(group, _common(wanted, [names[id(p)] for p in group["params"]]), lr=lr, options=options)


def _common(wanted: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> Mapping[str, Any]:
    """What all parameters of a group have in the reference."""
    found = [wanted.get(name) for name in names]
    first = found[0] if found else {}
    if first is None or any(each != first for each in found):
        raise ValueError(f"the groups of the optimizer are divided in another way: {', '.join(names[:2])}")
    return first


def _set(group: dict[str, Any], wanted: Mapping[str, Any], *, lr: bool, options: bool) -> None:
    for name, value in wanted.items():
        if not (lr if name == "lr" else options):
            continue
        live: Any = group.get(name)
        if isinstance(value, dict):
            if not is_tensor(live):
                raise ValueError(f"{name} is a tensor in the reference, and a number here")
            live.copy_(live.new_tensor(value["tensor"]))
        elif is_tensor(live):
            raise ValueError(f"{name} is a number in the reference, and a tensor here")
        else:
            group[name] = tuple(value) if isinstance(live, tuple) else value


def as_text(optimizers: Sequence[Any], *, lr: bool) -> str:
    """The rates, or the options, of all groups as they are, in the order of the groups."""
    shown = [
        {name: _plain(value) for name, value in group.items() if name not in _NO_OPTIONS and (name == "lr") == lr}
        for each in optimizers
        for group in each.param_groups
    ]
    return json.dumps(shown, sort_keys=True)
