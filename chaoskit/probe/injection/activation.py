"""The output of a module, by a hook that is there for one forward pass."""

from __future__ import annotations

from typing import Any

from chaoskit.fingerprint import local_part
from chaoskit.places import matching
from chaoskit.probe.injection.replacement import replacement
from chaoskit.probe.injection.strike import Strike
from chaoskit.probe.injection.structure import replaced, tensors
from chaoskit.probe.tensors import own_name

#: A container of modules that is never called itself.
_NO_FORWARD = "_forward_unimplemented"


def listen(strike: Strike, root: Any) -> None:
    """Wait for the output of one of the modules that the pattern matches."""
    named: dict[str, Any] = {}
    for name, module in root.named_modules():
        if (known := own_name(f"{name}.").rstrip(".")) and module.forward.__name__ != _NO_FORWARD:
            named[known] = module  # of a wrapper and what is in it, the latter
    strike.names += named
    found = matching(strike.into.pattern, list(named))
    if not found:
        return
    name = strike.draw(found)

    def came(_: Any, __: Any, output: Any) -> Any:
        return None if strike.done else strike.attempt(_changed, strike, name, output)

    strike.why = f"{name} was not called in the forward pass, or where no hook is heard (a compiled region)"
    strike.on_release(named[name].register_forward_hook(came).remove)


def _changed(strike: Strike, name: str, output: Any) -> Any:
    """The output with the change in one of its tensors; None: as it is."""
    found = [each for each in tensors(output, name) if each[1].is_floating_point() and each[1].numel()]
    if not found:
        strike.why = f"what {name} returns holds no floating-point numbers"
        return None
    where, tensor = strike.draw(found)
    if local_part(tensor) is not tensor:
        strike.why = f"what {name} returns is sharded"
        return None
    altered = strike.alter(tensor, where)
    if altered is None:
        return None
    other = replacement(tensor, altered.tensor)
    strike.struck(altered, where)
    return replaced(output, lambda _, each: other if each is tensor else each)
