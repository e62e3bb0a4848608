"""`Followers`: copies of parameters that follow them, such as a moving average that the job keeps by hand.

No hook sees them: they are tensors in a dict, a list or a module of the job. A tensor is a follower if an update moves
all of its elements the same share of the way to a parameter: new = old + share * (parameter - old). At few steps (2, 8,
32, ...) all tensors of a parameter's shape are looked for, and the updates in the steps after them decide.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.protocol.fingerprint import Fingerprint

#: Elements of a tensor that are looked at.
SAMPLE = 256
#: For so many steps after each look a tensor is watched that has not turned out to be a follower.
WATCHED = 16
#: The share of the way is between these: a copy is all of it.
LEAST, MOST = 1e-6, 0.999
#: Rounding errors of one update, in units of the last place of the numbers in it.
ULPS = 2.0
#: An update that moves fewer of the elements by more than rounding errors decides nothing.
MOVED = 0.25


@dataclass
class _Kept:
    """The tensor at `key` of a `holder` (a dict or a list of the job), as it was last seen; what it `follows`, if that
    is known by now."""

    holder: Any
    key: Any
    tensor: Any
    version: int
    sample: Any
    follows: str = ""


class _Samples:
    """Samples of the parameters, by shape, as they are before one step."""

    def __init__(self, parameters: Callable[[], Mapping[str, Any]]) -> None:
        self._parameters = parameters
        self._found: dict[tuple[int, ...], tuple[list[str], Any]] = {}

    def of(self, tensor: Any) -> tuple[list[str], Any]:
        """The names of the parameters of that shape, and a row of each."""
        shape = tuple(tensor.shape)
        if shape not in self._found:
            alike = {name: p for name, p in self._parameters().items() if tuple(p.shape) == shape}
            rows = sys.modules["torch"].stack([_sample(p) for p in alike.values()])
            self._found[shape] = list(alike), rows
        return self._found[shape]


class Followers:
    """Those of one rank. `step` is to be called before each optimizer step."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        self._until = 0

    def step(
        self, n: int, parameters: Callable[[], Mapping[str, Any]], known: Callable[[], Iterable[Any]]
    ) -> None:
        """Step `n` is about to be taken with these `parameters`. `known` are tensors that cannot be followers. Both are
        asked for only if they are needed."""
        if self._kept:
            ours = Counter(id(kept.holder) for kept in self._kept)
            samples = _Samples(lambda: _plain(parameters()))
            self._kept = [
                kept
                for kept in self._kept
                if (kept.follows or n <= self._until) and self._still(kept, ours[id(kept.holder)], samples)
            ]
        if self.looks(n):
            self._until = n + WATCHED
            self._look_for_more(_plain(parameters()), known())

    @staticmethod
    def looks(n: int) -> bool:
        """Whether all tensors are looked for before step `n`: it takes some tens of milliseconds."""
        return n & (n - 1) == 0 and n.bit_length() % 2 == 0

    def fingerprints(self) -> dict[str, list[Fingerprint]]:
        """The followers as they are now, by the parameter that they follow."""
        found: dict[str, list[Fingerprint]] = {}
        for follows, tensor in self._living():
            fingerprint = Fingerprint()
            fingerprint.tensor(tensor)
            found.setdefault(follows, []).append(fingerprint)
        return found

    def tensors(self) -> dict[str, Any]:
        """The followers themselves, by the parameter, where a parameter has only one."""
        found: dict[str, list[Any]] = {}
        for follows, tensor in self._living():
            found.setdefault(follows, []).append(tensor)
        return {follows: own[0] for follows, own in found.items() if len(own) == 1}

    def _living(self) -> Iterator[tuple[str, Any]]:
        for kept in self._kept:
            tensor = _at(kept.holder, kept.key) if kept.follows else None
            if tensor is not None:
                yield kept.follows, tensor

    def _still(self, kept: _Kept, ours: int, samples: _Samples) -> bool:
        """Whether a tensor is still there, and may be a follower; `ours` are the references that we have to its
        holder."""
        # One more is the argument's: the job has let go of it.
        if sys.getrefcount(kept.holder) <= ours + 1:
            return False
        tensor = _at(kept.holder, kept.key)
        if tensor is None or tensor.shape != kept.tensor.shape:
            return False
        version = tensor._version
        same = tensor is kept.tensor and version == kept.version
        # An update of `.data` does not count as a version; to look at the values on a device would make it wait.
        if kept.follows or (same and not tensor.is_cpu):
            return True
        sample = _sample(tensor)
        if same and bool((sample == kept.sample).all()):
            return True
        names, values = samples.of(tensor)
        follows, undecided = _followed(kept.sample, sample, values, _precision(tensor))
        kept.follows = next((name for name, one in zip(names, follows, strict=True) if one), "")
        kept.tensor, kept.version, kept.sample = tensor, version, sample
        return bool(kept.follows) or undecided

    def _look_for_more(self, parameters: Mapping[str, Any], known: Iterable[Any]) -> None:
        """Begin anew with every tensor of a parameter's shape, but for those that are followers already."""
        self._kept = [kept for kept in self._kept if kept.follows]
        kinds = _kinds()
        shapes = {tuple(p.shape) for p in parameters.values() if p.numel() > 3}
        others = {id(tensor) for tensor in known}
        others.update(id(each) for p in parameters.values() for each in (p, p.grad))
        others.update(id(_at(kept.holder, kept.key)) for kept in self._kept)
        found = {
            id(one): one
            for one in gc.get_objects()
            if type(one) in kinds and id(one) not in others and _may_follow(one, shapes)
        }
        # More than that are no averages, and would cost too much.
        if 0 < len(found) <= 8 * len(parameters):
            own = {id(found)}
            for holder, key, tensor in _places(list(found.values()), own):
                self._kept.append(_Kept(holder, key, tensor, tensor._version, _sample(tensor)))


def _may_follow(tensor: Any, shapes: set[tuple[int, ...]]) -> bool:
    return bool(
        tensor.is_floating_point()
        and tuple(tensor.shape) in shapes
        and tensor.grad_fn is None
        and tensor.layout is sys.modules["torch"].strided
        and not tensor.is_meta
        and not tensor.is_inference()
    )


def _places(tensors: Sequence[Any], own: set[int]) -> Iterator[tuple[Any, Any, Any]]:
    """The dicts and lists that hold these tensors, and where in them."""
    wanted = {id(tensor) for tensor in tensors}
    for holder in gc.get_referrers(*tensors):
        if holder is tensors or id(holder) in own:
            continue
        entries: Iterable[tuple[Any, Any]] = ()
        if issubclass(type(holder), dict):
            entries = list(dict.items(holder))
        elif issubclass(type(holder), list):
            entries = list(enumerate(list.__iter__(holder)))
        yield from ((holder, key, value) for key, value in entries if id(value) in wanted)


def _at(holder: Any, key: Any) -> Any:
    """The tensor there; None if there is none any more."""
    try:
        value = dict.__getitem__(holder, key) if isinstance(holder, dict) else list.__getitem__(holder, key)
    except (KeyError, IndexError):
        return None
    return value if type(value) in _kinds() else None


def _kinds() -> tuple[type, ...]:
    torch = sys.modules["torch"]
    return torch.Tensor, torch.nn.Parameter


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Without sharded ones: to look at their elements may be collective."""
    return {name: p for name, p in parameters.items() if type(p) in _kinds()}


def _sample(tensor: Any) -> Any:
    """Some elements, spread over the tensor, on the CPU."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // SAMPLE)][:SAMPLE].double().cpu().clone()


def _precision(tensor: Any) -> float:
    return float(sys.modules["torch"].finfo(tensor.dtype).eps)


def _followed(old: Any, new: Any, parameters: Any, precision: float) -> tuple[list[bool], bool]:
    """For each of the `parameters` (a row each), whether an update moved every element the same share of the way to it;
    and whether for some the update moved too little to tell."""
    way, moved = parameters - old, new - old
    rounding = ULPS * precision * (old.abs() + parameters.abs()) / 2 + 1e-30
    share = (way @ moved) / (way * way).sum(1).clamp(min=1e-300)
    step = share[:, None] * way
    fits = ((moved - step).abs() <= rounding).all(1)
    far = (step.abs() > 2 * rounding).double().mean(1) >= MOVED
    follows = fits & far & (share > LEAST) & (share < MOST)
    return follows.tolist(), bool((fits & ~far).any())
