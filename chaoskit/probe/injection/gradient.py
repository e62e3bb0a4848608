"""Injections into the gradient of a parameter: a rank's own from autograd, or the reduced one of all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chaoskit.probe.injection.numeric_injection import NumericInjection
from chaoskit.probe.naming import own_name
from chaoskit.protocol.fingerprint import local_part
from chaoskit.protocol.targets import matching


def listen(injection: NumericInjection, root: Any) -> None:
    """Hook the gradient of one of the parameters that the pattern matches, in the backward pass of this forward.

    A sharded parameter is whole, and another tensor, while the module that owns it runs: it is looked for then.
    """
    owned = {name: (module, key) for name, module, key in _owned(root)}
    parameters = [(name, module._parameters[key]) for name, (module, key) in owned.items()]
    chosen = injection.choose(parameters, size=lambda parameter: parameter.numel())
    if chosen is None:
        return
    name, parameter = chosen
    module, key = owned[name]
    injection.why = f"the backward passes of the step gave {name} no gradient"

    def attach(tensor: Any) -> None:
        injection.on_release(tensor.register_hook(came).remove)

    def came(gradient: Any) -> Any:
        return None if injection.done else injection.attempt(_changed, injection, name, gradient)

    def forward(module: Any, _: Any) -> None:
        injection.attempt(attach, module._parameters[key])

    if local_part(parameter) is parameter:
        attach(parameter)
    else:
        injection.why = f"the module of {name} was not called in the forward pass, or its gradient never came"
        injection.on_release(module.register_forward_pre_hook(forward).remove)


def _owned(root: Any) -> Iterator[tuple[str, Any, str]]:
    """Every trained parameter: its name, the module that owns it, and its name there."""
    seen = set()
    for prefix, module in root.named_modules():
        for key, parameter in module._parameters.items():
            if parameter is not None and parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                yield own_name(f"{prefix}.{key}" if prefix else key), module, key


def _changed(injection: NumericInjection, name: str, gradient: Any) -> Any:
    altered = injection.alter(gradient, name)
    if altered is None:
        return None
    other = gradient.detach().clone()
    local_part(other).copy_(altered.tensor)
    injection.record_change(altered, name)
    return other


def reduced(injection: NumericInjection, named: dict[str, Any]) -> None:
    """Change a gradient in place, after the ranks have reduced theirs."""
    present = {name: parameter.grad for name, parameter in named.items() if parameter.grad is not None}
    chosen = injection.choose(present.items())
    if chosen is not None:
        name, gradient = chosen
        injection.write(gradient, name)
    elif found := matching(injection.into.pattern, list(named)):
        injection.why = f"{found[0]} has no gradient in this step"
    else:
        injection.names += named
