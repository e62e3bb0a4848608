"""The gradient of a parameter: a rank's own as autograd gives it, or what has become of all the ranks' own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chaoskit.fingerprint import local_part
from chaoskit.places import matching
from chaoskit.probe.injection.strike import Strike
from chaoskit.probe.tensors import own_name


def listen(strike: Strike, root: Any) -> None:
    """Wait for the gradient of one of the parameters that the pattern matches, in the backward pass of this forward.

    A sharded parameter is whole, and another tensor, while the module that owns it runs: it is looked for then.
    """
    owned = {name: (module, key) for name, module, key in _owned(root)}
    parameters = [(name, module._parameters[key]) for name, (module, key) in owned.items()]
    chosen = strike.choose(parameters, size=lambda parameter: parameter.numel())
    if chosen is None:
        return
    name, parameter = chosen
    module, key = owned[name]
    strike.why = f"the backward passes of the step gave {name} no gradient"

    def attach(tensor: Any) -> None:
        strike.on_release(tensor.register_hook(came).remove)

    def came(gradient: Any) -> Any:
        return None if strike.done else strike.attempt(_changed, strike, name, gradient)

    def forward(module: Any, _: Any) -> None:
        strike.attempt(attach, module._parameters[key])

    if local_part(parameter) is parameter:
        attach(parameter)
    else:
        strike.why = f"the module of {name} was not called in the forward pass, or its gradient never came"
        strike.on_release(module.register_forward_pre_hook(forward).remove)


def _owned(root: Any) -> Iterator[tuple[str, Any, str]]:
    """Every parameter that is trained: its name, the module that owns it, and its name there."""
    seen = set()
    for prefix, module in root.named_modules():
        for key, parameter in module._parameters.items():
            if parameter is not None and parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                yield own_name(f"{prefix}.{key}" if prefix else key), module, key


def _changed(strike: Strike, name: str, gradient: Any) -> Any:
    altered = strike.alter(gradient, name)
    if altered is None:
        return None
    other = gradient.detach().clone()
    local_part(other).copy_(altered.tensor)
    strike.struck(altered, name)
    return other


def reduced(strike: Strike, named: dict[str, Any]) -> None:
    """The gradients as they lie in the parameters, once the ranks have brought theirs together."""
    present = {name: parameter.grad for name, parameter in named.items() if parameter.grad is not None}
    chosen = strike.choose(present.items())
    if chosen is not None:
        name, gradient = chosen
        strike.write(gradient, name)
    elif found := matching(strike.into.pattern, list(named)):
        strike.why = f"{found[0]} has no gradient in this step"
    else:
        strike.names += named
