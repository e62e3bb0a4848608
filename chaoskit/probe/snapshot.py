"""`Snapshots`: stores a rank's complete training state in a file when a step begins, and restores it in place when the
same step begins in another launch.

A step begins with its outermost training forward: by then the step before is complete. Counters of the script itself
are not changed: the state is restored for the step that the script is at.
"""

from __future__ import annotations

import dis
import inspect
import os
import random
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chaoskit.probe import components
from chaoskit.probe.naming import parameters
from chaoskit.protocol.fingerprint import is_tensor, local_part

if TYPE_CHECKING:
    from chaoskit.probe.session import ProbeSession

#: An error message of a library that complains about numbers.
_OF_NUMBERS = re.compile(r"\b(nan|inf|infinity|infinite|non-?finite|not finite)\b", re.IGNORECASE)


class Snapshots:
    """Those of one rank. `handlers` carry out orders: `keep` and `restore`, each with a `file`, and `watch`."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._watching = False
        self.handlers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "keep": lambda order: self._next_forward(lambda: self._keep(str(order["file"]))),
            "restore": lambda order: self._next_forward(lambda: self._restore(str(order["file"]))),
            "watch": lambda order: self._watch(),
        }

    def _next_forward(self, action: Callable[[], None]) -> None:
        """Run `action` when the next outermost training forward begins, before it is recorded."""
        observer = self._session.observer
        if observer is None:
            return
        forward = observer.forward

        def first(*given: Any) -> None:
            observer.__dict__.pop("forward")
            self._session.guard("snapshot", action)
            forward(*given)

        # In the instance only, for one call: a rank without an order pays nothing.
        observer.__dict__["forward"] = first

    def _keep(self, file: str) -> None:
        torch = sys.modules["torch"]
        # Past what records the job's own saves.
        inspect.unwrap(torch.save)(take(*self._held(), torch), f"{file}.new")
        os.replace(f"{file}.new", file)

    def _restore(self, file: str) -> None:
        torch = sys.modules["torch"]
        kept = inspect.unwrap(torch.load)(file, map_location="cpu", weights_only=True)
        put_back(kept, *self._held(), torch)

    def _held(self) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        observer = self._session.observer
        assert observer is not None
        return observer.training.holders()

    def _watch(self) -> None:
        """Record the exception that ends the job, and whether the job itself raised it."""
        if self._watching:
            return
        self._watching = True
        told = sys.excepthook

        def tell(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
            self._session.guard("uncaught", self._tell_uncaught, error, traceback)
            told(kind, error, traceback)

        sys.excepthook = tell

    def _tell_uncaught(self, error: BaseException, traceback: Any) -> None:
        said = f"{type(error).__name__}: {error}"[:300]
        self._session.write(
            "uncaught", error=said, noticed=is_raised_by_job(traceback) or _speaks_of_numbers(said)
        )


def take(
    optimizers: Sequence[Any], roots: Sequence[Any], averages: Sequence[Any], scalers: Sequence[Any], torch: Any
) -> dict[str, Any]:
    """A copy of the state of a rank: tensors on the CPU, and plain values."""
    held = parameters(optimizers, roots)
    return {
        "parameters": [_copied(each) for each in held],
        "gradients": [None if each.grad is None else _copied(each.grad) for each in held],
        "buffers": [_copied(buffer) for _, buffer in components.held_buffers(roots)],
        "averages": [_copied(each) for each in _of_averages(averages)],
        "optimizers": [
            [
                _copied(each.state.get(parameter, {}))
                for group in each.param_groups
                for parameter in group["params"]
            ]
            for each in optimizers
        ],
        "groups": [[_options(group) for group in each.param_groups] for each in optimizers],
        "scalers": [_copied([each._scale, each._growth_tracker]) for each in _used(scalers)],
        "streams": _streams(torch),
    }


def put_back(
    kept: Mapping[str, Any],
    optimizers: Sequence[Any],
    roots: Sequence[Any],
    averages: Sequence[Any],
    scalers: Sequence[Any],
    torch: Any,
) -> None:
    """Restore the state, every tensor in place. Raises where the state now has another structure."""
    with torch.no_grad():
        held = parameters(optimizers, roots)
        _copy_all(held, kept["parameters"])
        _copy_all([buffer for _, buffer in components.held_buffers(roots)], kept["buffers"])
        _copy_all(list(_of_averages(averages)), kept["averages"])
        for parameter, gradient in zip(held, kept["gradients"], strict=True):
            if gradient is None:
                parameter.grad = None
            else:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                local_part(parameter.grad).copy_(gradient)
        for optimizer, states, groups in zip(optimizers, kept["optimizers"], kept["groups"], strict=True):
            owned = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            for parameter, state in zip(owned, states, strict=True):
                if state or parameter in optimizer.state:
                    optimizer.state[parameter] = _placed(optimizer.state.get(parameter, {}), state)
            for group, options in zip(optimizer.param_groups, groups, strict=True):
                for name, value in options.items():
                    group[name] = _placed(group.get(name), value)
        for scaler, (scale, tracker) in zip(_used(scalers), kept["scalers"], strict=True):
            scaler._scale = _placed(scaler._scale, scale)
            scaler._growth_tracker = _placed(scaler._growth_tracker, tracker)
        _set_streams(kept["streams"], torch)


def is_raised_by_job(traceback: Any) -> bool:
    """Whether a `raise` or `assert` in the job's own source raised the exception, and not a library."""
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    file = os.path.realpath(code.co_filename)
    if any(file.startswith(place + os.sep) for place in _installed()):
        return False
    return bool(dis.opname[code.co_code[traceback.tb_lasti]] == "RAISE_VARARGS")


def _speaks_of_numbers(said: str) -> bool:
    return _OF_NUMBERS.search(said) is not None


def _installed() -> set[str]:
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return {os.path.realpath(place) for place in places}


def _used(scalers: Sequence[Any]) -> list[Any]:
    return [each for each in scalers if each.is_enabled()]


def _of_averages(averages: Sequence[Any]) -> Iterable[Any]:
    for average in averages:
        yield from average.parameters()
        yield from average.buffers()


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a parameter group that can be restored: numbers, and tensors of them."""
    plain = (bool, int, float, tuple, list)
    return {
        name: _copied(value)
        for name, value in group.items()
        if name not in ("params", "param_names") and (isinstance(value, plain) or is_tensor(value))
    }


def _copied(value: Any) -> Any:
    """A copy on the CPU of nested tensors and plain values. Raises TypeError for anything else."""
    if is_tensor(value):
        return local_part(value).detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {name: _copied(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(item) for item in value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a {type(value).__name__} in the training state cannot be kept")


def _copy_all(tensors: Sequence[Any], kept: Sequence[Any]) -> None:
    for tensor, value in zip(tensors, kept, strict=True):
        local_part(tensor).copy_(value)


def _placed(current: Any, kept: Any) -> Any:
    """The stored value, copied into the tensors that exist already."""
    if is_tensor(kept):
        if not is_tensor(current):
            return kept.clone()
        local_part(current).copy_(kept)
        return current
    if isinstance(kept, dict):
        held = current if isinstance(current, dict) else {}
        return {name: _placed(held.get(name), item) for name, item in kept.items()}
    if isinstance(kept, list) and isinstance(current, list) and len(kept) == len(current):
        return [_placed(one, item) for one, item in zip(current, kept, strict=True)]
    return kept


def _streams(torch: Any) -> dict[str, Any]:
    """The state of every random generator of the process, in a form that can be restored."""
    kept: dict[str, Any] = {"python": random.getstate(), "torch": torch.default_generator.get_state()}
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        name, keys, *rest = numpy_random.get_state(legacy=True)
        kept["numpy"] = [name, keys.tolist(), *rest]
    if torch.cuda.is_initialized():
        kept["cuda"] = [each.get_state() for each in torch.cuda.default_generators]
    return kept


def _set_streams(kept: Mapping[str, Any], torch: Any) -> None:
    version, words, gauss = kept["python"]
    random.setstate((version, tuple(words), gauss))
    torch.default_generator.set_state(kept["torch"])
    if "numpy" in kept:
        import numpy

        name, keys, *rest = kept["numpy"]
        numpy.random.set_state((name, numpy.array(keys, dtype=numpy.uint32), *rest))
    for generator, state in zip(torch.cuda.default_generators, kept.get("cuda", ()), strict=False):
        generator.set_state(state)
