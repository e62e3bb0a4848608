"""The components of a rank's training state, each as one fingerprint; None if the job does not have it.

Components that may be sharded can be fed to another kind of fingerprint (`into`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from chaoskit.protocol.fingerprint import Fingerprint, is_tensor

#: Per root module: its parameters, and where its buffers are held (a buffer may be replaced at any time).
_parameters: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
_holders: weakref.WeakKeyDictionary[Any, list[tuple[Any, str, str]]] = weakref.WeakKeyDictionary()


def parameters(optimizers: Sequence[Any], roots: Sequence[Any]) -> list[Any]:
    """The parameters of the optimizers, in their order, then the other (frozen) parameters of the modules."""
    tensors = [p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
    for root in roots:
        if root not in _parameters:
            _parameters[root] = list(root.parameters())
        tensors += _parameters[root]
    return list({id(tensor): tensor for tensor in tensors}.values())


def model(tensors: Sequence[Any], into: Fingerprint | None = None) -> Fingerprint | None:
    """The parameters."""
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


def optimizer(optimizers: Sequence[Any], into: Fingerprint | None = None) -> Fingerprint | None:
    """The optimizer state of each parameter (moments, step counts), in the order of the parameters."""
    if not optimizers:
        return None
    fingerprint = into or Fingerprint()
    for each in optimizers:
        state = each.state
        for group in each.param_groups:
            for parameter in group["params"]:
                # A key's place may change by saving and loading, so keys are sorted.
                if kept := state.get(parameter):
                    fingerprint.value(kept)
                else:
                    fingerprint.text("-")
    return fingerprint


def learning_rates(optimizers: Iterable[Any]) -> str | None:
    """The exact learning rate of every parameter group; equal neighbours are written once."""
    rates: list[str] = []
    for each in optimizers:
        for group in each.param_groups:
            rate = float(group["lr"]).hex()
            if not rates or rates[-1] != rate:
                rates.append(rate)
    return " ".join(rates) or None


def options(optimizers: Sequence[Any]) -> Fingerprint | None:
    """The options of the parameter groups besides the learning rate: decay, betas and those that a schedule adds."""
    if not optimizers:
        return None
    fingerprint = Fingerprint()
    for each in optimizers:
        for group in each.param_groups:
            plain = []
            for key in sorted(group):
                value = group[key]
                if key in _NO_OPTIONS:
                    continue
                if isinstance(value, (int, float)):
                    plain.append(f"{key}:{float(value).hex()}")
                elif isinstance(value, (tuple, list)) or is_tensor(value):
                    fingerprint.text(f"{key}:")
                    fingerprint.value(value)
            fingerprint.text(";".join(plain))
    return fingerprint


_NO_OPTIONS = ("params", "param_names", "lr")


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
