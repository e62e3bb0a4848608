"""`Samples`: a digest of each row of the batches of one step, so that samples can be distinguished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chaoskit.protocol.fingerprint import local_part, memory, new_hasher, of_bytes, reduce_rows_on_device

#: Samples of a step with more rows are not recorded.
MOST = 512


class Samples:
    """The rows of a step's micro-batches, in the order in which they are consumed; a `DeferredPart` of the record.

    A sample is one index along the first dimension of all tensors of its micro-batch. `told` is False if the rows of a
    micro-batch cannot be distinguished, or if there was no micro-batch.
    """

    def __init__(self) -> None:
        self.reductions: list[Any] = []
        self._rows: list[str] = []
        #: Per micro-batch, how many rows it has and how many of its tensors are reduced on a device.
        self._parts: list[tuple[int, int]] = []
        self._places: list[str] = []
        self._failed = False

    @property
    def told(self) -> bool:
        return bool(self._parts) and not self._failed

    @property
    def rows(self) -> str:
        """The rows of the samples in the data set, separated by blanks, `-` where unknown (such as noise); empty if all
        are unknown."""
        return " ".join(self._places) if set(self._places) > {"-"} or "-" not in self._places else ""

    def fail(self) -> None:
        """The rows of this step cannot be distinguished."""
        self._failed = True

    def add(self, tensors: Sequence[Any], rows: Sequence[int] | None = None) -> None:
        """Add a micro-batch of these tensors; `rows` are its rows in the data set, if known. Scalars among the tensors
        (a rate, a time) belong to no row."""
        parts = [part.detach() for tensor in tensors if (part := local_part(tensor)).dim()]
        counts = {len(part) for part in parts}
        if len(counts) != 1 or not all(map(_has_rows, parts)):
            return self.fail()
        (count,) = counts
        if self._failed or len(self._rows) + count > MOST:
            return self.fail()
        if not count:
            parts = []
        elsewhere = [part for part in parts if not part.is_cpu]
        known = rows is not None and len(rows) == count
        self._places += map(str, rows or ()) if known else ["-"] * count
        self._rows += _hash_rows([part for part in parts if part.is_cpu], count)
        self.reductions += map(reduce_rows_on_device, elsewhere)
        self._parts.append((count, len(elsewhere)))

    def settled(self, numbers: Sequence[int]) -> list[str]:
        """16 digits for each sample."""
        samples: list[str] = []
        for count, width in self._parts:
            rows = self._rows[len(samples) : len(samples) + count]
            if width:
                columns = [numbers[at : at + count] for at in range(0, width * count, count)]
                rows = [_digest(f"{row}:{each}") for row, *each in zip(rows, *columns, strict=True)]
                numbers = numbers[width * count :]
            samples += rows
        return samples


def _has_rows(tensor: Any) -> bool:
    """Whether its rows are in memory."""
    if tensor.is_sparse or tensor.is_nested or tensor.is_meta:
        return False
    return not tensor.numel() or bool(tensor.data_ptr())


def _hash_rows(tensors: Sequence[Any], count: int) -> list[str]:
    whole = [tensor.resolve_conj().resolve_neg().contiguous() for tensor in tensors]
    hashers = [new_hasher() for _ in range(count)]
    for tensor in whole:
        size = tensor.nbytes // count
        view = memory(tensor.data_ptr(), tensor.nbytes) if size else b""
        for index, hasher in enumerate(hashers):
            hasher.update(view[index * size : (index + 1) * size])
    return [hasher.hexdigest()[:16] for hasher in hashers]


def _digest(text: str) -> str:
    return of_bytes(text.encode())[:16]
