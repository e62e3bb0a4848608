"""`Shards`: hash the part of a component that one rank holds, so that the hashes of all ranks add up to that of the
whole.

It does not matter how the tensors are distributed, or over how many ranks: each word of them (4 bytes, or an
element if that is smaller) counts by its place in the whole tensor. The word x at column j of row i, in rows of
65,536 words, of the k-th sharded tensor of the component counts as

x * W[j] * V[i] * s[k] modulo 2**64

with fixed pseudo-random odd numbers W, V and s. A part is the sum of these: a multilinear hash, as in
`fingerprint.reduce_on_device`. Sums may be taken in any order and grouping, so the sum of the parts is that of the
whole; two rows that change places change it. Values that are equal on all ranks (step counts, shapes, types) are no
part of a sum: they go through the ordinary hash, which is the second half of a part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from chaoskit.protocol.fingerprint import Fingerprint, local_part, of_bytes, settle, weights_on
from chaoskit.protocol.multilinear import CHUNK

#: Words in a row.
ROW = 1 << 16

_RING = 1 << 64


class Shards(Fingerprint):
    """Collects the values of a component like a `Fingerprint`. `count` is the number of its sharded tensors.

    If it is 0, the fingerprint is that of the whole component on every rank.
    """

    __slots__ = ("_late", "_sum", "count")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._sum = 0
        self._late: set[int] = set()

    def tensor(self, tensor: Any) -> None:
        """Feed a tensor; of a sharded one the elements that this rank holds, by their places in the whole."""
        if not is_sharded(tensor):
            return super().tensor(tensor)
        self.text(f"s{tensor.dtype}{tuple(tensor.shape)};")
        self.count += 1
        found = part_of(tensor, self.count)
        if isinstance(found, int):
            self._sum += found
        else:
            self._late.add(len(self.reductions))
            self.reductions.append(found)

    def settled(self, numbers: Sequence[int]) -> str:
        """The part, once the device has delivered the numbers of `reductions`: 16 digits of the sum, a colon, and
        the fingerprint of the values that are equal on all ranks.
        """
        places, at = set(), 0
        for number, vector in enumerate(self.reductions):
            if number in self._late:
                places.add(at)
            at += len(vector)
        total = self._sum + sum(number for place, number in enumerate(numbers) if place in places)
        alike = settle(self.hexdigest(), [n for place, n in enumerate(numbers) if place not in places])
        return f"{total % _RING:016x}:{alike}"


def whole_of(parts: Sequence[str]) -> str:
    """The fingerprint of a component, from the parts of all ranks."""
    total, alike = 0, set()
    for part in parts:
        own, _, rest = part.partition(":")
        total += int(own, 16)
        alike.add(rest)
    rest = alike.pop() if len(alike) == 1 else of_bytes(",".join(sorted(alike)).encode())
    return f"{total % _RING:016x}:{rest}"


def is_sharded(tensor: Any) -> bool:
    """Whether a tensor is distributed over the ranks (a DTensor that is not merely replicated)."""
    return hasattr(type(tensor), "_local_tensor") and any(not one.is_replicate() for one in tensor.placements)


def part_of(tensor: Any, number: int) -> Any:
    """The sum over the elements of sharded tensor `number` that this rank holds.

    An integer, or an int64 vector of one element if they lie on a device. Raises ValueError if torch does not say
    which elements the rank holds.
    """
    local = local_part(tensor).detach()
    coordinate = tensor.device_mesh.get_coordinate()
    replicas = coordinate is None or any(
        at and placement.is_replicate() for at, placement in zip(coordinate, tensor.placements, strict=True)
    )
    # A part that several ranks hold counts once: for the first of them.
    if replicas or not local.numel():
        return 0
    shape, offset = _place(tensor, coordinate)
    if any(placement.is_partial() for placement in tensor.placements) or tuple(local.shape) != shape:
        raise ValueError(
            f"of a tensor placed as {tensor.placements} torch does not say which elements a rank holds"
        )
    found = sum_of(local, tuple(tensor.shape), offset) * _salt(number)
    return found.item() if found.is_cpu else found.reshape(1)


def sum_of(local: Any, shape: Sequence[int], offset: Sequence[int]) -> Any:
    """The sum over a block of elements that begins at `offset` in a tensor of that shape, before the salt: a tensor
    without dimensions.
    """
    if local.is_conj() or local.is_neg():
        local = local.resolve_conj().resolve_neg()
    words = _words(local.contiguous().reshape(-1))
    each = words.numel() // local.numel()
    if _is_run(local.shape, shape):
        first = sum(at * step for at, step in zip(offset, _strides(shape), strict=True))
        return _sum_of_run(words, first * each)
    columns, rows = _tables(local.device, (math.prod(shape) * each - 1) // ROW)
    indices = _indices(local, shape, offset, each)
    return (words * columns[indices % ROW] * rows[indices // ROW]).sum()


def _place(tensor: Any, coordinate: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this rank's part, and where it begins in the whole tensor."""
    key = (tuple(tensor.shape), tensor.device_mesh, tuple(tensor.placements), tuple(coordinate))
    if key not in _places:
        if len(_places) > 10_000:
            _places.clear()
        shape, offset = _locate()(tensor.shape, tensor.device_mesh, tensor.placements)
        _places[key] = tuple(shape), tuple(offset)
    return _places[key]


_places: dict[Any, tuple[tuple[int, ...], tuple[int, ...]]] = {}


@cache
def _locate() -> Any:
    """The function of torch that computes this; it has no public name."""
    from torch.distributed.tensor import _utils  # already imported: a sharded tensor exists

    return _utils.compute_local_shape_and_global_offset


def _words(flat: Any) -> Any:
    """The bits of a flat tensor as integers of at most 4 bytes, never of two elements in one."""
    import torch  # already imported: the tensor exists

    size = flat.element_size()
    return flat.view(torch.int32 if size >= 4 else torch.int16 if size == 2 else torch.uint8)


def _is_run(local: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether the elements of a part are adjacent in the whole: only its first dimension that is not 1 is cut."""
    cut = next((at for at, size in enumerate(local) if size != 1), len(shape))
    return all(own == all_ for own, all_ in zip(local[cut + 1 :], shape[cut + 1 :], strict=True))


def _strides(shape: Sequence[int]) -> list[int]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return strides[::-1]


def _sum_of_run(words: Any, first: int) -> Any:
    """The sum over adjacent words, the first of which is number `first`."""
    import torch  # already imported: the tensor exists

    count = words.numel()
    columns, rows = _tables(words.device, (first + count - 1) // ROW)
    # Up to the first whole row, the whole rows, the rest. On the CPU a row at a time stays in the cache.
    head = min(count, -first % ROW)
    full = (count - head) // ROW
    sums = []
    if head:
        at = first % ROW
        sums.append((words[:head] * columns[at : at + head]).sum() * rows[first // ROW])
    start = (first + head) // ROW
    step = 1 if words.is_cpu else CHUNK // ROW
    for block in words[head : head + full * ROW].view(-1, ROW).split(step) if full else ():
        sums.append(((block * columns).sum(1) * rows[start : start + len(block)]).sum())
        start += len(block)
    if rest := count - head - full * ROW:
        sums.append((words[-rest:] * columns[:rest]).sum() * rows[start])
    return torch.stack(sums).sum() if len(sums) > 1 else sums[0]


def _indices(local: Any, shape: Sequence[int], offset: Sequence[int], words: int) -> Any:
    """The number of each word of a part in the whole, `words` to an element."""
    import torch  # already imported: the tensor exists

    found = torch.zeros((), dtype=torch.int64, device=local.device)
    for size, first, step in zip(local.shape, offset, _strides(shape), strict=True):
        found = found.unsqueeze(-1) + (torch.arange(size, device=local.device) + first) * step
    return (found.reshape(-1, 1) * words + torch.arange(words, device=local.device)).reshape(-1)


def _tables(device: Any, last_row: int) -> tuple[Any, Any]:
    """W, and V up to a row."""
    table = weights_on(device, ROW + last_row + 1)
    return table[:ROW], table[ROW:]


def _salt(number: int) -> int:
    """An odd number for each tensor of a component, of 64 bits with a sign (splitmix64)."""
    x = number * 0x9E3779B97F4A7C15 % _RING
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % _RING
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % _RING
    x = (x ^ (x >> 31)) | 1
    return x - _RING if x >= _RING // 2 else x
