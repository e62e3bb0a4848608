"""`alter`: makes a changed copy of a tensor, and the evidence of the change.

It does not use the random generators of the job. Numbers are compared by their bits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

#: The number of additional elements that are tried, where one that was drawn would not change.
_SPARE = 64
#: The number of values before and after that are recorded.
_TOLD = 4
#: Elements whose bits are drawn at once.
_CHUNK = 1 << 16
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
#: Changes that have no meaning for whole numbers.
_FLOATS_ONLY = ("nan", "inf", "scale", "noise")


class InjectionRefused(Exception):
    """Nothing was changed; the message says why."""


@dataclass(frozen=True)
class AlteredTensor:
    """`tensor`: the copy. `at`: where the first changed element is. `before`, `after`: the first few of them."""

    tensor: Any
    at: tuple[int, ...]
    before: list[str]
    after: list[str]
    changed: int
    of: int
    finite: bool

    @property
    def dtype(self) -> str:
        return str(self.tensor.dtype).removeprefix("torch.")


def alter(
    tensor: Any, how: Mapping[str, Any], *, elements: int | str, seed: int, repetition: int = 0, old: Any = None
) -> AlteredTensor:
    """A copy of `tensor` in which as many `elements` have changed. Raises InjectionRefused where none would
    change.

    `seed` determines which elements change, `seed` and `repetition` their new values. `old` is the earlier tensor, for
    a stale value.
    """
    value = tensor.detach()
    if value.is_sparse or value.is_quantized:
        raise InjectionRefused("it is not a dense tensor")
    if value.numel() == 0:
        raise InjectionRefused("this rank holds no element of it")
    if how["kind"] in _FLOATS_ONLY and not (value.is_floating_point() or value.is_complex()):
        raise InjectionRefused(f"{how['kind']} is for floating-point numbers, and it holds {_name(value.dtype)}")
    copy = value.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    real = torch.view_as_real(copy) if copy.is_complex() else copy
    flat = real.view(-1)
    where = _drawn(len(flat), elements, seed)
    was, stale = _picked(flat, where), None if old is None else _picked(old, where)
    new = _changed(was, flat, how, random.Random(f"{seed} {repetition}"), stale)
    differ = _differ(was, new, how).nonzero().view(-1)
    differ = differ if elements == "all" else differ[: int(elements)]
    if not len(differ):
        raise InjectionRefused(_unchanged(how, was))
    spot = differ if where is None else where.to(differ.device)[differ]
    first, became = _picked(was, differ[:_TOLD]), _picked(new, differ)
    _bits(flat)[spot] = _bits(became)
    return AlteredTensor(
        tensor=copy,
        at=tuple(int(i) for i in torch.unravel_index(spot[0], real.shape)),
        before=_texts(first),
        after=_texts(became[:_TOLD]),
        changed=len(differ),
        of=len(flat),
        finite=not became.is_floating_point() or bool(torch.isfinite(became.float()).all()),
    )


def _drawn(count: int, elements: int | str, seed: int) -> Any:
    """Elements in the order in which they are tried; None: all."""
    if elements == "all" or int(elements) >= count:
        return None
    tried = min(count, int(elements) + _SPARE)
    return torch.tensor(random.Random(f"{seed} where").sample(range(count), tried), dtype=torch.int64, device="cpu")


def _picked(tensor: Any, where: Any) -> Any:
    """A copy of those elements; None: of all. By their bits, for not every type can be indexed."""
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    flat = _bits(real).view(-1)
    return (flat.clone() if where is None else flat[where.to(flat.device)]).view(real.dtype)


def _changed(was: Any, whole: Any, how: Mapping[str, Any], draw: random.Random, old: Any) -> Any:
    """What becomes of the elements `was` of `whole`."""
    match how["kind"]:
        case "nan":
            return _filled(was, math.nan)
        case "inf":
            new = _filled(was, math.inf)
            if not bool(new.float().isinf().all()):
                raise InjectionRefused(f"{_name(was.dtype)} has no infinity")
            return new
        case "stuck":
            return _filled(was, how["value"])
        case "zero":
            return torch.zeros_like(was)
        case "scale":
            return (_wide(was) * how["factor"]).to(was.dtype)
        case "noise":
            wide = _wide(was)
            noise = torch.randn(len(was), generator=_generator(draw), dtype=torch.float64, device="cpu").to(wide)
            return (wide + noise * (how["sigma"] * _spread(whole))).to(was.dtype)
        case "stale":
            return old
        case "bad":
            return _between(was, whole, draw)
        case "bitflip":
            return _flipped(was, how, draw)
    raise InjectionRefused(f"there is no change {how['kind']!r}")


def _filled(like: Any, value: float) -> Any:
    if not like.is_floating_point() and (not math.isfinite(value) or value != int(value)):
        raise InjectionRefused(f"{_name(like.dtype)} cannot hold {value}")
    try:
        dtype = torch.float64 if like.is_floating_point() else like.dtype
        new = torch.full(like.shape, value, dtype=dtype, device="cpu")
    except RuntimeError as error:
        raise InjectionRefused(f"{_name(like.dtype)} cannot hold {value}: {error}") from error
    return new.to(like.device, like.dtype)


def _wide(values: Any) -> Any:
    """In a type that can be computed with, where every value is what it was."""
    return values if values.dtype == torch.float64 else values.float()


def _spread(whole: Any) -> float:
    """The standard deviation; of a tensor that has none, a single number above all, its magnitude."""
    wide = whole.double()
    wide = wide[wide.isfinite()]
    if not len(wide):
        raise InjectionRefused("it holds no finite number that noise could be relative to")
    return float(wide.std(correction=0)) or float(wide.abs().max())


def _between(was: Any, whole: Any, draw: random.Random) -> Any:
    """Random values from between the smallest and the largest."""
    generator = _generator(draw)
    if was.dtype == torch.bool:
        return torch.randint(2, was.shape, generator=generator, device="cpu").to(was)
    if not was.is_floating_point():
        low, high = int(whole.min()), int(whole.max())
        return torch.randint(low, high + 1, was.shape, generator=generator, device="cpu").to(was)
    wide = _wide(whole)
    least, most = float(wide.min()), float(wide.max())
    share = torch.rand(was.shape, generator=generator, dtype=torch.float64, device="cpu")
    return (least + (most - least) * share).to(was)


def _flipped(was: Any, how: Mapping[str, Any], draw: random.Random) -> Any:
    """Each element with `bits` of its bits inverted, or the one that is given."""
    places = bits_of(was.dtype, how.get("which") or "any")
    if (bit := how.get("bit")) is not None:
        places, count = [int(bit)], 1
        if not 0 <= int(bit) < width(was.dtype):
            raise InjectionRefused(f"{_name(was.dtype)} has no bit {bit}: it has bits 0 to {width(was.dtype) - 1}")
    else:
        count = int(how.get("bits") or 1)
    if count > len(places):
        which = how.get("which") or "any"
        kind = "" if which == "any" else f"{which} "
        raise InjectionRefused(f"{_name(was.dtype)} has {len(places)} {kind}bits, not {count}")
    generator = _generator(draw)
    table = torch.tensor([_signed(1 << place) for place in places], dtype=torch.int64, device="cpu")
    masks = []
    for begin in range(0, len(was), _CHUNK):
        rows = min(_CHUNK, len(was) - begin)
        # The first of a random order: so many different bits, each set as likely as the other.
        chosen = torch.rand(rows, len(places), generator=generator, device="cpu").argsort(dim=1)[:, :count]
        masks.append(table[chosen].sum(dim=1))  # of different bits the sum is the union
    bits = _bits(was)
    # Narrower types keep the low bits.
    flipped = bits ^ torch.cat(masks).to(bits.device, bits.dtype)
    return flipped.view(was.dtype)


def width(dtype: Any) -> int:
    """The number of bits of an element that carry information."""
    return 1 if dtype == torch.bool else int(dtype.itemsize) * 8


def bits_of(dtype: Any, which: str) -> list[int]:
    """The numbers of the bits of the exponent, for example, counted from the least significant bit of the element.

    Raises InjectionRefused if it has none.
    """
    everything = list(range(width(dtype)))
    if which == "any":
        return everything
    if not dtype.is_floating_point:
        raise InjectionRefused(f"{_name(dtype)} has no {which}: only any of its bits can be flipped")
    if "e8m0" in str(dtype) or "float4" in str(dtype):
        found = everything if which == "exponent" and "e8m0" in str(dtype) else []
    else:
        mantissa = round(-math.log2(torch.finfo(dtype).eps))
        found = {
            "mantissa": everything[:mantissa],
            "exponent": everything[mantissa:-1],
            "sign": everything[-1:],
        }[which]
    if not found:
        raise InjectionRefused(f"{_name(dtype)} has no {which}")
    return found


def _signed(bit: int) -> int:
    return bit - (1 << 64) if bit == 1 << 63 else bit


def _bits(values: Any) -> Any:
    """The same memory as integers, where it is contiguous."""
    return values.contiguous().view(_INTEGERS[values.element_size()])


def _differ(was: Any, new: Any, how: Mapping[str, Any]) -> Any:
    """Which elements changed, by their bits. Zero that became minus zero counts only for a bitflip."""
    differ = _bits(was) != _bits(new)
    if how["kind"] != "bitflip" and was.is_floating_point():
        differ &= _wide(was) != _wide(new)
    return differ


def _generator(draw: random.Random) -> Any:
    return torch.Generator().manual_seed(draw.getrandbits(62))


def _texts(values: Any) -> list[str]:
    """Each to the bit, as far as a number goes: floating point in hexadecimal."""
    if values.is_floating_point():
        return [float(value).hex() for value in values.double().tolist()]
    return [str(int(value)) for value in values.tolist()]


def _unchanged(how: Mapping[str, Any], was: Any) -> str:
    (text, *_) = _texts(was[:1])
    several = f"{len(was)} elements of it were tried, the first is {text}" if len(was) > 1 else f"it is {text}"
    return f"{how['kind']} would change nothing: {several}"


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
