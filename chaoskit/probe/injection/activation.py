"""Injections into the output of a module, by a hook that exists for one forward pass."""

from __future__ import annotations

from typing import Any

from chaoskit.probe.injection.numeric_injection import NumericInjection
from chaoskit.probe.injection.replacement import replacement
from chaoskit.probe.injection.structure import replaced, tensors
from chaoskit.probe.naming import own_name
from chaoskit.protocol.fingerprint import local_part
from chaoskit.protocol.targets import matching

#: A container of modules that is never called itself.
_NO_FORWARD = "_forward_unimplemented"


def listen(injection: NumericInjection, root: Any) -> None:
    """Hook one of the modules that the pattern matches."""
    named: dict[str, Any] = {}
    for name, module in root.named_modules():
        if (known := own_name(f"{name}.").rstrip(".")) and module.forward.__name__ != _NO_FORWARD:
            named[known] = module  # of a wrapper and what is in it, the latter
    injection.names += named
    found = matching(injection.into.pattern, list(named))
    if not found:
        return
    name = injection.draw(found)

    def came(_: Any, __: Any, output: Any) -> Any:
        return None if injection.done else injection.attempt(_changed, injection, name, output)

    injection.why = f"{name} was not called in the forward pass, or in a compiled region, where no hook runs"
    injection.on_release(named[name].register_forward_hook(came).remove)


def _changed(injection: NumericInjection, name: str, output: Any) -> Any:
    """The output with a change in one of its tensors; None to leave it."""
    found = [each for each in tensors(output, name) if each[1].is_floating_point() and each[1].numel()]
    if not found:
        injection.why = f"what {name} returns holds no floating-point numbers"
        return None
    where, tensor = injection.draw(found)
    if local_part(tensor) is not tensor:
        injection.why = f"what {name} returns is sharded"
        return None
    altered = injection.alter(tensor, where)
    if altered is None:
        return None
    other = replacement(tensor, altered.tensor)
    injection.record_change(altered, where)
    return replaced(output, lambda _, each: other if each is tensor else each)
