"""Injections into the payloads of collectives that one rank sends or receives, as a bad link or adder causes.

Whoever calls a collective (torch.distributed, DDP's reducer, FSDP) comes by the same operators of torch's dispatcher;
while a tap is open they come by it first.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from chaoskit.probe.injection.changes import InjectionRefused
from chaoskit.probe.injection.numeric_injection import NumericInjection
from chaoskit.protocol.fingerprint import is_tensor

#: Per operator: which collective it is, and which arguments hold what is received and what is sent.
_OPERATORS = {
    "allreduce_": ("all_reduce", 0, 0),
    "allreduce_coalesced_": ("all_reduce", 0, 0),
    "reduce_scatter_": ("reduce_scatter", 0, 1),
    "_reduce_scatter_base_": ("reduce_scatter", 0, 1),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", 0, 1),
    "allgather_": ("all_gather", 0, 1),
    "_allgather_base_": ("all_gather", 0, 1),
    "allgather_coalesced_": ("all_gather", 0, 1),
    "allgather_into_tensor_coalesced_": ("all_gather", 0, 1),
    "broadcast_": ("broadcast", 0, 0),
}


def listen(injections: Sequence[NumericInjection]) -> None:
    """Watch the collectives of the step for these injections; only one such watch can exist at a time."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        _Tap(injections)
        return
    for injection in injections:
        injection.why = "there is no process group, so the step makes no collective"


class _Tap:
    """Sees each collective of the step; those without floating-point numbers (objects, counts) are not counted."""

    def __init__(self, injections: Sequence[NumericInjection]) -> None:
        self.injections = list(injections)
        self.made: Counter[str] = Counter()
        self.library = torch.library.Library("c10d", "IMPL")
        # What is sent must live until it has been sent.
        self.sent: list[Any] = []
        keys = ["AutogradCPU", *(["AutogradCUDA"] if torch.cuda.is_available() else [])]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in _OPERATORS:
                if hasattr(torch.ops.c10d, name):
                    for key in keys:
                        self.library.impl(name, self._around(name), key)
        for injection in injections:
            injection.on_release(partial(self._leave, injection))
        self._say()

    def _leave(self, injection: NumericInjection) -> None:
        self.injections.remove(injection)
        if not self.injections:
            self.library._destroy()

    def _around(self, name: str) -> Callable[..., Any]:
        operator = getattr(torch.ops.c10d, name).default
        collective, received, sent = _OPERATORS[name]

        def run(*args: Any, **kwargs: Any) -> Any:
            due = self._due_here(collective, [*_tensors(args[received]), *_tensors(args[sent])])
            for injection in due:
                if injection.into.sent:
                    args = injection.attempt(self._send, injection, args, sent, sent == received) or args
            with torch._C._AutoDispatchBelowAutograd():
                result = operator(*args, **kwargs)
            for injection in due:
                if not injection.into.sent:
                    result = injection.attempt(_receive, injection, args[received], result) or result
            return result

        return run

    def _due_here(self, collective: str, payload: Sequence[Any]) -> list[NumericInjection]:
        """The injections that are meant for this collective."""
        if not any(tensor.is_floating_point() for tensor in payload):
            return []
        self.made[collective] += 1
        self._say()
        found = collective, self.made[collective]
        return [each for each in self.injections if not each.done and (each.into.op, each.into.nth) == found]

    def _send(
        self, injection: NumericInjection, args: tuple[Any, ...], place: int, in_place: bool
    ) -> tuple[Any, ...]:
        chosen, name = _chosen(injection, args[place]), _name(injection)
        if in_place:
            injection.write(chosen, name)
            return args
        altered = injection.alter(chosen, name)
        if altered is None:
            return args
        self.sent.append(altered.tensor)
        injection.record_change(altered, name)
        return (*args[:place], _swapped(args[place], chosen, altered.tensor), *args[place + 1 :])

    def _say(self) -> None:
        made = ", ".join(f"{name} {count} times" for name, count in sorted(self.made.items())) or "none at all"
        for injection in self.injections:
            place = injection.into
            injection.why = f"the step made no {place.op} {place.nth}; of collectives with numbers it made {made}"


def _receive(injection: NumericInjection, received: Any, result: Any) -> Any:
    """Change the received payload; returns the result of the operator."""
    several = isinstance(result, (tuple, list))
    work = torch._C._distributed_c10d.Work.unbox(result[-1] if several else result)
    work.wait()
    chosen = _chosen(injection, received)
    injection.write(chosen, _name(injection))
    if not (chosen.is_cpu and injection.into.op == "reduce_scatter"):
        return result
    # gloo copies the sum to where it belongs whenever somebody waits for it: nobody is to do that again.
    future = torch.futures.Future()
    future.set_result(_tensors(received))
    done = torch._C._distributed_c10d._create_work_from_future(future).boxed()
    return (*result[:-1], done) if several else done


def _chosen(injection: NumericInjection, payload: Any) -> Any:
    """One of the tensors, with a chance in proportion to its size."""
    found = [tensor for tensor in _tensors(payload) if tensor.is_floating_point()]
    if not found:
        raise InjectionRefused(f"{_name(injection)} carries no floating-point numbers")
    chosen = injection.choose((str(index), tensor) for index, tensor in enumerate(found))
    return chosen[1] if chosen is not None else None


def _name(injection: NumericInjection) -> str:
    place = injection.into
    return f"{place.op} {place.nth} as {'sent' if place.sent else 'received'}"


def _tensors(payload: Any) -> list[Any]:
    if is_tensor(payload):
        return [payload]
    return [tensor for each in payload for tensor in _tensors(each)]


def _swapped(payload: Any, old: Any, new: Any) -> Any:
    if is_tensor(payload):
        return new if payload is old else payload
    return [_swapped(each, old, new) for each in payload]
