"""The tensors of a rank's training state by name: they show where a component differs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from chaoskit.probe import components
from chaoskit.protocol.fingerprint import Fingerprint, is_tensor

#: Prefixes that wrappers add to a module's own name: torch.compile, FSDP, activation checkpointing.
_WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")

Named = dict[str, Fingerprint]


def tensors(optimizers: Sequence[Any], roots: Sequence[Any], averages: Sequence[Any]) -> dict[str, Named]:
    """Per component the fingerprint of each tensor; a component that the job does not have is left out.

    A parameter has its name in the module without wrappers; one that only an optimizer knows is `group0.3`. Optimizer
    state is `<parameter>.<key>`.
    """
    names = _names(optimizers, roots)
    found = {
        "model": _fingerprints((names[id(p)], p) for p in components.parameters(optimizers, roots)),
        "buffers": _fingerprints(components.held_buffers(roots)),
        "optimizer": _fingerprints(_kept(optimizers, names)),
        "ema": _fingerprints(
            entry for average in averages for entry in (*average.named_parameters(), *average.named_buffers())
        ),
    }
    return {component: named for component, named in found.items() if named}


def named_parameters(optimizers: Sequence[Any], roots: Sequence[Any]) -> dict[str, Any]:
    """The parameters themselves, by the same names."""
    names = _names(optimizers, roots)
    return {names[id(p)]: p for p in components.parameters(optimizers, roots) if id(p) in names}


def named_kept(optimizers: Sequence[Any], roots: Sequence[Any]) -> dict[str, Any]:
    """The tensors that the optimizers keep, by the same names."""
    return {name: kept for name, kept in _kept(optimizers, _names(optimizers, roots)) if is_tensor(kept)}


def own_name(name: str) -> str:
    """The name without the prefixes of wrappers."""
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    while name.startswith("module."):
        name = name.removeprefix("module.")
    return name


def told_tensors(entries: Iterable[tuple[str, Any]]) -> Named:
    """The fingerprints of the tensors that a job reports itself."""
    return _fingerprints((name, value) for name, value in entries if is_tensor(value))


def _fingerprints(entries: Iterable[tuple[str, Any]]) -> Named:
    made: Named = {}
    for name, value in entries:
        fingerprint = made[_free(own_name(name), made)] = Fingerprint()
        fingerprint.value(value)
    return made


def _names(optimizers: Sequence[Any], roots: Sequence[Any]) -> dict[int, str]:
    """Of every parameter, by identity."""
    names: dict[int, str] = {}
    taken: set[str] = set()
    for name, parameter in (*_in_modules(roots), *_in_groups(optimizers)):
        if id(parameter) not in names:
            names[id(parameter)] = own = _free(own_name(name), taken)
            taken.add(own)
    return names


def _in_modules(roots: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for root in roots:
        yield from root.named_parameters()


def _in_groups(optimizers: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    groups = (group for optimizer in optimizers for group in optimizer.param_groups)
    for number, group in enumerate(groups):
        for index, parameter in enumerate(group["params"]):
            yield f"group{number}.{index}", parameter


def _kept(optimizers: Sequence[Any], names: dict[int, str]) -> Iterator[tuple[str, Any]]:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                for key, value in optimizer.state.get(parameter, {}).items():
                    yield f"{names[id(parameter)]}.{key}", value


def _free(name: str, taken: Container[str]) -> str:
    """A name that is not taken: two modules may use one name for different tensors."""
    if name not in taken:
        return name
    return next(other for number in count(2) if (other := f"{name}~{number}") not in taken)
