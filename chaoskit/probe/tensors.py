"""The tensors of a rank's training state by name: they show where a component differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from chaoskit.probe import components
from chaoskit.probe.naming import free, naming, own_name, parameters
from chaoskit.protocol.fingerprint import Fingerprint, is_tensor

Named = dict[str, Fingerprint]


def tensors(optimizers: Sequence[Any], roots: Sequence[Any], averages: Sequence[Any]) -> dict[str, Named]:
    """Per component the fingerprint of each tensor; a component that the job does not have is left out.

    A parameter has its name in the module without wrappers; one that only an optimizer knows is `group0.3`. Optimizer
    state is `<parameter>.<key>`; the options of a parameter's group, with the learning rate, count as one value.
    """
    names = naming(optimizers, roots).names
    found = {
        "model": _fingerprints((names[id(p)], p) for p in parameters(optimizers, roots)),
        "buffers": _fingerprints(components.held_buffers(roots)),
        "optimizer": _fingerprints(_kept(optimizers, names, counted=True)),
        "options": _fingerprints(_options(optimizers, names)),
        "ema": _fingerprints(
            entry for average in averages for entry in (*average.named_parameters(), *average.named_buffers())
        ),
    }
    return {component: named for component, named in found.items() if named}


def named_parameters(optimizers: Sequence[Any], roots: Sequence[Any]) -> dict[str, Any]:
    """The parameters themselves, by the same names."""
    names = naming(optimizers, roots).names
    return {names[id(p)]: p for p in parameters(optimizers, roots)}


def named_kept(optimizers: Sequence[Any], roots: Sequence[Any]) -> dict[str, Any]:
    """The tensors that the optimizers keep, by the same names."""
    return {name: kept for name, kept in _kept(optimizers, naming(optimizers, roots).names) if is_tensor(kept)}


def told_tensors(entries: Iterable[tuple[str, Any]]) -> Named:
    """The fingerprints of the tensors that a job reports itself."""
    return _fingerprints((name, value) for name, value in entries if is_tensor(value))


def _fingerprints(entries: Iterable[tuple[str, Any]]) -> Named:
    made: Named = {}
    for name, value in entries:
        fingerprint = made[free(own_name(name), made)] = Fingerprint()
        fingerprint.value(value)
    return made


def _kept(
    optimizers: Sequence[Any], names: Mapping[int, str], *, counted: bool = False
) -> Iterator[tuple[str, Any]]:
    """What the optimizers keep, by name; `counted`: the step counts as numbers, where `step_counts` says so."""
    for optimizer in optimizers:
        counts = components.step_counts(optimizer) if counted else {}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                for key, value in optimizer.state.get(parameter, {}).items():
                    count = counts.get(id(parameter)) if key == "step" else None
                    yield f"{names[id(parameter)]}.{key}", value if count is None else count


def _options(optimizers: Sequence[Any], names: Mapping[int, str]) -> Iterator[tuple[str, Any]]:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            options = f"lr:{float(group['lr']).hex()};{components.option_text(group)}"
            for parameter in group["params"]:
                yield names[id(parameter)], options
