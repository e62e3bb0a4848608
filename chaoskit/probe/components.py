"""The components of a rank's training state, each as one fingerprint; None if the job does not have it.

Components that may be sharded can be fed to another kind of fingerprint (`into`).
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from chaoskit.probe.naming import ParameterNames, naming
from chaoskit.protocol.fingerprint import Fingerprint, is_tensor, of_bytes

#: Per root module: where its buffers are held (a buffer may be replaced at any time).
_holders: weakref.WeakKeyDictionary[Any, list[tuple[Any, str, str]]] = weakref.WeakKeyDictionary()


def model(tensors: Sequence[Any], into: Fingerprint | None = None) -> Fingerprint | None:
    """The parameters, in the order of their names."""
    fingerprint = into or Fingerprint()
    for tensor in tensors:
        fingerprint.tensor(tensor)
    return fingerprint if tensors else None


def unwrapped(module: Any) -> Any:
    """The model inside a wrapper, such as DistributedDataParallel or a library's engine; None where it is compiled, so
    that calls inside it are not visible."""
    # A module of TorchScript holds its parts in something that is no dict.
    while "module" in module._modules and (inner := module._modules["module"]) is not None:
        module = inner
    return None if "_orig_mod" in module._modules else module


def held_buffers(roots: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """The buffers of the modules and their names in them, in the modules' own order."""
    for root in roots:
        if root not in _holders:
            _holders[root] = [
                (weakref.ref(module), name, f"{prefix}.{name}" if prefix else name)
                for prefix, module in root.named_modules()
                for name in _own_buffers(module)
            ]
        for holder, name, full in _holders[root]:
            module = holder()
            buffer = _own_buffers(module).get(name) if module is not None else None
            if buffer is not None:
                yield full, buffer


def _own_buffers(module: Any) -> Mapping[str, Any]:
    """The buffers that a module itself holds. (One of TorchScript holds them in something that is no dict.)"""
    held: Any = module._buffers
    return held if isinstance(held, dict) else dict(module.named_buffers(recurse=False))


def buffers(roots: Sequence[Any], into: Fingerprint | None = None) -> Fingerprint | None:
    """The buffers of the modules, such as running statistics."""
    fingerprint, found = into or Fingerprint(), False
    for _, buffer in held_buffers(roots):
        found = True
        fingerprint.tensor(buffer)
    return fingerprint if found else None


def optimizer(
    optimizers: Sequence[Any], roots: Sequence[Any], into: Fingerprint | None = None
) -> Fingerprint | None:
    """The optimizer state of each parameter (moments, step counts), in the order of the names of the parameters."""
    if not optimizers:
        return None
    fingerprint, idle = into or Fingerprint(), 0
    states: dict[int, list[Any]] = {}
    for each in optimizers:
        counts = step_counts(each)
        for parameter, kept in each.state.items():
            if kept:
                if (count := counts.get(id(parameter))) is not None:
                    kept = {**kept, "step": count}
                states.setdefault(id(parameter), []).append(kept)
    for identity in naming(optimizers, roots).names:
        if (own := states.get(identity)) is None:
            idle += 1
            continue
        fingerprint.text(f"-{idle};")
        idle = 0
        for kept in own:
            # A key's place may change by saving and loading, so keys are sorted.
            fingerprint.value(kept)
    fingerprint.text(f"-{idle};")
    return fingerprint


def step_counts(optimizer: Any) -> dict[int, float]:
    """The step counts that lie on a device though the optimizer keeps them in memory, by the identity of the parameter:
    as numbers, which they were before a checkpoint was loaded to the device. Such an optimizer waits for each of them
    in every step; here all are read at once."""
    found: dict[int, Any] = {}
    for group in optimizer.param_groups:
        if not group.get("capturable") and not group.get("fused"):
            for parameter in group["params"]:
                count = optimizer.state.get(parameter, {}).get("step")
                if is_tensor(count) and not count.is_cpu and not count.is_meta and not count.dim():
                    found[id(parameter)] = count
    if not found:
        return {}
    stack = sys.modules["torch"].stack
    return dict(zip(found, stack([each.detach().double() for each in found.values()]).tolist(), strict=True))


def learning_rates(optimizers: Sequence[Any], roots: Sequence[Any]) -> str | None:
    """The exact learning rates, each once, in the order of the names of the parameters that first have them. If there
    are several, `@` and a digest tell which parameter has which."""
    groups = [group for each in optimizers for group in each.param_groups]
    rates = [float(group["lr"]).hex() for group in groups]
    distinct, pattern = _assigned(rates, naming(optimizers, roots))
    if len(distinct) > 1:
        distinct.append(f"@{of_bytes(pattern.encode())[:8]}")
    return " ".join(distinct or dict.fromkeys(rates)) or None


def options(optimizers: Sequence[Any], roots: Sequence[Any]) -> Fingerprint | None:
    """The options of each parameter besides the learning rate: decay, betas and those that a schedule adds."""
    if not optimizers:
        return None
    fingerprint = Fingerprint()
    groups = [group for each in optimizers for group in each.param_groups]
    names = naming(optimizers, roots)
    distinct, pattern = _assigned([option_text(group) for group in groups], names)
    fingerprint.text("\n".join(distinct))
    if len(distinct) > 1:
        fingerprint.text(pattern)
    for number in names.groups:
        for key in sorted(groups[number]):
            value = groups[number][key]
            parts = value if isinstance(value, (tuple, list)) else (value,)
            if key not in _NO_OPTIONS and any(map(is_tensor, parts)):
                fingerprint.text(f"{key}:")
                fingerprint.value(value)
    return fingerprint


def option_text(group: Mapping[str, Any]) -> str:
    """The options of a group that are numbers, or sequences of them, as an exact text."""
    shown = ((key, _exact(group[key])) for key in sorted(group) if key not in _NO_OPTIONS)
    return ";".join(f"{key}:{text}" for key, text in shown if text)


_NO_OPTIONS = ("params", "param_names", "lr")


def _exact(value: Any) -> str:
    if isinstance(value, (int, float)):
        return float(value).hex()
    if isinstance(value, (tuple, list)):
        return f"({','.join(map(_exact, value))})"
    return ""


def _assigned(texts: Sequence[str], names: ParameterNames) -> tuple[list[str], str]:
    """What the groups have, each text once and in the order of the names of the parameters, and which parameters have
    which of them."""
    first: dict[str, int] = {}
    alike = tuple(first.setdefault(text, number) for number, text in enumerate(texts))
    order, pattern = _pattern(names, alike)
    return [texts[number] for number in order], pattern


@lru_cache(maxsize=8)
def _pattern(names: ParameterNames, alike: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    """For groups of which each is like the one with the number given for it: these numbers in the order of the names of
    the parameters, and the numbers of parameters in a row with the places of their groups in that order."""
    places: dict[int, int] = {}
    found: list[tuple[str, int]] = []
    for held, count in names.runs:
        own = "+".join(str(places.setdefault(alike[number], len(places))) for number in held)
        if found and found[-1][0] == own:
            count += found.pop()[1]
        found.append((own, count))
    return tuple(places), " ".join(f"{count}*{own}" for own, count in found)


def scaler(scalers: Sequence[Any]) -> Fingerprint | None:
    """Scale and growth tracker of the enabled gradient scalers."""
    used = [each for each in scalers if each.is_enabled()]
    if not used:
        return None
    fingerprint = Fingerprint()
    for each in used:
        for tensor, initial in ((each._scale, each._init_scale), (each._growth_tracker, 0)):
            if tensor is None:
                fingerprint.number(initial)
            else:
                fingerprint.tensor(tensor)
    return fingerprint


def averages(models: Sequence[Any], into: Fingerprint | None = None) -> Fingerprint | None:
    """Averaged copies of a model (torch.optim.swa_utils.AveragedModel): parameters, buffers and the count."""
    if not models:
        return None
    fingerprint = into or Fingerprint()
    for each in models:
        for tensor in (*each.parameters(), *each.buffers()):
            fingerprint.tensor(tensor)
    return fingerprint
