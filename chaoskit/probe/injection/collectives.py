"""The payloads of collectives, as one rank sends or receives them: what a bad link or a bad adder does.

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

from chaoskit.fingerprint import is_tensor
from chaoskit.probe.injection.changes import Refused
from chaoskit.probe.injection.strike import Strike

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


def listen(strikes: Sequence[Strike]) -> None:
    """Wait for the collectives that these are for: at a time there can be but one who does."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        _Tap(strikes)
        return
    for strike in strikes:
        strike.why = "there is no process group, so the step makes no collective"


class _Tap:
    """Sees each collective of the step; those that carry no floating-point numbers (objects, counts) do not count."""

    def __init__(self, strikes: Sequence[Strike]) -> None:
        self.strikes = list(strikes)
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
        for strike in strikes:
            strike.on_release(partial(self._leave, strike))
        self._say()

    def _leave(self, strike: Strike) -> None:
        self.strikes.remove(strike)
        if not self.strikes:
            self.library._destroy()

    def _around(self, name: str) -> Callable[..., Any]:
        operator = getattr(torch.ops.c10d, name).default
        collective, received, sent = _OPERATORS[name]

        def run(*args: Any, **kwargs: Any) -> Any:
            struck = self._struck_here(collective, [*_tensors(args[received]), *_tensors(args[sent])])
            for strike in struck:
                if strike.into.sent:
                    args = strike.attempt(self._send, strike, args, sent, sent == received) or args
            with torch._C._AutoDispatchBelowAutograd():
                result = operator(*args, **kwargs)
            for strike in struck:
                if not strike.into.sent:
                    result = strike.attempt(_receive, strike, args[received], result) or result
            return result

        return run

    def _struck_here(self, collective: str, payload: Sequence[Any]) -> list[Strike]:
        """Whose collective this is."""
        if not any(tensor.is_floating_point() for tensor in payload):
            return []
        self.made[collective] += 1
        self._say()
        found = collective, self.made[collective]
        return [each for each in self.strikes if not each.done and (each.into.op, each.into.nth) == found]

    def _send(self, strike: Strike, args: tuple[Any, ...], place: int, in_place: bool) -> tuple[Any, ...]:
        chosen, name = _chosen(strike, args[place]), _name(strike)
        if in_place:
            strike.write(chosen, name)
            return args
        altered = strike.alter(chosen, name)
        if altered is None:
            return args
        self.sent.append(altered.tensor)
        strike.struck(altered, name)
        return (*args[:place], _swapped(args[place], chosen, altered.tensor), *args[place + 1 :])

    def _say(self) -> None:
        made = ", ".join(f"{name} {count} times" for name, count in sorted(self.made.items())) or "none at all"
        for strike in self.strikes:
            place = strike.into
            strike.why = f"the step made no {place.op} {place.nth}; of collectives with numbers it made {made}"


def _receive(strike: Strike, received: Any, result: Any) -> Any:
    """Change what has come; the result of the operator."""
    several = isinstance(result, (tuple, list))
    work = torch._C._distributed_c10d.Work.unbox(result[-1] if several else result)
    work.wait()
    chosen = _chosen(strike, received)
    strike.write(chosen, _name(strike))
    if not (chosen.is_cpu and strike.into.op == "reduce_scatter"):
        return result
    # gloo copies the sum to where it belongs whenever somebody waits for it: nobody is to do that again.
    future = torch.futures.Future()
    future.set_result(_tensors(received))
    done = torch._C._distributed_c10d._create_work_from_future(future).boxed()
    return (*result[:-1], done) if several else done


def _chosen(strike: Strike, payload: Any) -> Any:
    """One of the tensors; the larger, the more likely."""
    found = [tensor for tensor in _tensors(payload) if tensor.is_floating_point()]
    if not found:
        raise Refused(f"{_name(strike)} carries no floating-point numbers")
    chosen = strike.choose((str(index), tensor) for index, tensor in enumerate(found))
    return chosen[1] if chosen is not None else None


def _name(strike: Strike) -> str:
    place = strike.into
    return f"{place.op} {place.nth} as {'sent' if place.sent else 'received'}"


def _tensors(payload: Any) -> list[Any]:
    if is_tensor(payload):
        return [payload]
    return [tensor for each in payload for tensor in _tensors(each)]


def _swapped(payload: Any, old: Any, new: Any) -> Any:
    if is_tensor(payload):
        return new if payload is old else payload
    return [_swapped(each, old, new) for each in payload]
