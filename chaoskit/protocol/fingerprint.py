"""Fingerprints: a short string that two values share exactly if they are bitwise equal.

Bytes in memory go through xxh3 (128 bit) without a copy. Tensors on an accelerator are reduced there, by a
position-aware multilinear hash, and only 8 bytes per chunk travel back, later: a component with such tensors is
complete only after `settled` has received these numbers, so a step never waits for them.

Nothing here imports torch: a tensor is recognized by its attributes, in processes that have imported torch
themselves.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any, Protocol

from chaoskit.protocol.multilinear import CHUNK, multilinear


class Hasher(Protocol):
    """What xxhash and hashlib have in common."""

    def update(self, data: Any, /) -> None: ...
    def hexdigest(self) -> str: ...


def _algorithm() -> tuple[str, Callable[[], Hasher]]:
    # The ranks may run in an interpreter without xxhash: then use the harness's, if it fits, else a slower hash.
    try:
        from xxhash import xxh3_128

        return "xxh3-128", xxh3_128
    except ImportError:
        pass
    try:
        return "xxh3-128", _lent(os.environ.get(LENT, "")).xxh3_128
    except (ImportError, AttributeError):
        from hashlib import blake2b

        return "blake2b-128", lambda: blake2b(digest_size=16)


#: The environment variable that names the compiled part of the harness's xxhash.
LENT = "CHAOSKIT_XXHASH"


def _lent(path: str) -> Any:
    """The fingerprint of everything that did not lie on an accelerator."""
    spec = spec_from_file_location("chaoskit._xxhash", path) if path.endswith(EXTENSION_SUFFIXES[0]) else None
    if spec is None or spec.loader is None:
        raise ImportError(f"{path or 'nothing'} is no library for this interpreter")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def library() -> str:
    """The path that `LENT` should have for an interpreter without xxhash; empty if the harness has no such library. A
    process that was lent one itself lends it on."""
    try:
        return str(import_module("xxhash._xxhash").__file__)
    except ImportError:
        return os.environ.get(LENT, "")


#: The name of the algorithm in use (fingerprints of different algorithms never compare), and a new hasher.
ALGORITHM, new_hasher = _algorithm()

_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.restype = ctypes.py_object
_view.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
_READ = 0x100


def memory(address: int, size: int) -> memoryview:
    """A read-only view of `size` bytes at `address`. The caller keeps the owner alive while the view is in use."""
    view: memoryview = _view(address, size, _READ)
    return view


class Fingerprint:
    """Collects the values of one component. `hexdigest` is final if no value lies on an accelerator.

    Numbers count by value, so a step count is the same as an int and as a 0-dimensional CPU tensor; everything else
    counts by type, shape and bytes. Objects that are neither data nor containers count by the name of their type.
    """

    __slots__ = ("_hasher", "_open", "reductions")

    def __init__(self) -> None:
        self._hasher = new_hasher()
        #: The containers and objects that are being fed.
        self._open: set[int] = set()
        self.reductions: list[Any] = []

    def text(self, text: str) -> None:
        """Feed a string."""
        self._hasher.update(text.encode())

    def number(self, value: complex) -> None:
        """Feed a number by its value, to the bit (a whole number beyond 2**53 as it is)."""
        if isinstance(value, complex):
            self.text(f"n{value.real.hex()},{value.imag.hex()};")
        elif isinstance(value, int) and abs(value) > 2**53:
            self.text(f"n{value};")
        else:
            self.text(f"n{float(value).hex()};")

    def tensor(self, tensor: Any) -> None:
        """Feed a torch tensor; of a sharded one (DTensor) the part that this rank holds."""
        local = local_part(tensor)
        if local.is_sparse:
            local = local.coalesce()
            self.text(_header(local))
            self.tensor(local.indices())
            self.tensor(local.values())
            return
        if not local.is_cpu:
            self.text(_header(local))
            if not local.is_meta and local.numel():  # otherwise it has a shape and no content
                self._on_device(local)
            return
        if local.dim() == 0 and not local.is_complex():
            self.number(local.item())
            return
        if local.is_conj() or local.is_neg():
            local = local.resolve_conj().resolve_neg()
        if not local.is_contiguous():
            local = local.contiguous()
        self.text(_header(local))
        if size := local.nbytes:
            self._bytes(local, size)

    def _bytes(self, tensor: Any, size: int) -> None:
        if address := tensor.data_ptr():
            self._hasher.update(memory(address, size))
        else:
            self._inside(tensor)

    def _on_device(self, tensor: Any) -> None:
        # A tensor without memory must not be given to a kernel.
        if tensor.data_ptr():
            self.reductions.extend(reduce_on_device(tensor))
        else:
            self._inside(tensor)

    def _inside(self, tensor: Any) -> None:
        """Feed the tensors inside a wrapper that has no memory of its own."""
        if not hasattr(tensor, "__tensor_flatten__"):
            raise ValueError(f"a tensor of {tensor.nbytes} bytes has no memory to read ({type(tensor).__name__})")
        names, _ = tensor.__tensor_flatten__()
        for name in names:
            self.tensor(getattr(tensor, name))

    def value(self, value: Any, *, skip: Callable[[Any], bool] | None = None) -> None:
        """Feed anything: tensors, arrays, numbers, strings and containers of them, mappings by sorted key.

        Tensors for which `skip` is true are left out.
        """
        if is_tensor(value):
            if skip is None or not skip(value):
                self.tensor(value)
        elif value is None or isinstance(value, (str, bool)):
            self.text(f"{type(value).__name__}:{value};")
        elif isinstance(value, (int, float, complex)):
            self.number(value)
        elif isinstance(value, (bytes, bytearray, memoryview)):
            self.text(f"b{len(value)};")
            self._hasher.update(value)
        elif isinstance(value, (Mapping, Sequence, set, frozenset)):
            self._once(value, self._container, skip)
        elif hasattr(type(value), "__array_interface__"):
            self._array(value, skip)
        elif is_record(value):
            self._once(value, self._object, skip)
        else:
            self.text(f"<{type(value).__name__}>")

    def _once(self, value: Any, feed: Callable[..., None], skip: Callable[[Any], bool] | None) -> None:
        """Feed what a container or an object holds; one inside itself counts by the name of its type."""
        if id(value) in self._open:
            self.text(f"<{type(value).__name__}>")
            return
        self._open.add(id(value))
        try:
            feed(value, skip)
        finally:
            self._open.discard(id(value))

    def _container(self, value: Any, skip: Callable[[Any], bool] | None) -> None:
        if isinstance(value, Mapping):
            self.text(f"{{{len(value)};")
            for key in sorted(value, key=str):
                self.text(f"{key}:")
                self.value(value[key], skip=skip)
            return
        items = value if isinstance(value, Sequence) else sorted(value, key=repr)
        self.text(f"[{len(items)};")
        for item in items:
            self.value(item, skip=skip)

    def _object(self, value: Any, skip: Callable[[Any], bool] | None) -> None:
        self.value(vars(value), skip=skip)

    def _array(self, value: Any, skip: Callable[[Any], bool] | None) -> None:
        """Feed a numpy array, or whatever else describes its memory as one does, such as an image."""
        if not hasattr(type(value), "dtype"):
            described = value.__array_interface__
            self.text(f"a{described['typestr']}{tuple(described['shape'])};")
            self._hasher.update(value.tobytes())
        elif value.dtype.hasobject:
            self.text(f"o{value.shape};")
            self.value(value.tolist(), skip=skip)
        elif value.dtype.names:
            # Field by field: what lies between the fields is of no meaning.
            self.text(f"r{value.shape};")
            for name in value.dtype.names:
                self.text(f"{name}:")
                self._array(value[name], skip)
        else:
            self.text(f"a{value.dtype}{value.shape};")
            self._hasher.update(value.tobytes())

    def hexdigest(self) -> str:
        """The fingerprint of everything fed that did not lie on an accelerator."""
        return self._hasher.hexdigest()

    def settled(self, numbers: Sequence[int]) -> str:
        """The fingerprint of everything, once the device has delivered the numbers of `reductions`."""
        return settle(self.hexdigest(), numbers)


def is_tensor(value: Any) -> bool:
    """Whether `value` is a torch tensor, found without importing torch. Its type tells: an object of a job's own may
    answer to any name."""
    kind = type(value)
    return hasattr(kind, "data_ptr") and hasattr(kind, "element_size") and hasattr(kind, "device")


def of_bytes(data: Any) -> str:
    """The fingerprint of a buffer."""
    hasher = new_hasher()
    hasher.update(data)
    return hasher.hexdigest()


def of_value(value: Any) -> str:
    """The fingerprint of a value on the CPU."""
    fingerprint = Fingerprint()
    fingerprint.value(value)
    return fingerprint.hexdigest()


def settle(digest: str, reductions: Sequence[int]) -> str:
    """The fingerprint of a component: its part in memory, and the numbers that came back from the device."""
    if not reductions:
        return digest
    return of_bytes(f"{digest}:{','.join(map(str, reductions))}".encode())


_plain: set[type] = set()


def local_part(tensor: Any) -> Any:
    """The tensor itself; of a sharded one (DTensor) the part that this rank holds."""
    if type(tensor) in _plain:
        return tensor
    if hasattr(type(tensor), "_local_tensor"):
        return tensor._local_tensor
    _plain.add(type(tensor))
    return tensor


_headers: dict[tuple[Any, Any], str] = {}


def _header(tensor: Any) -> str:
    key = (tensor.dtype, tensor.shape)
    header = _headers.get(key)
    if header is None:
        header = f"t{tensor.dtype}{tuple(tensor.shape)};"
        if len(_headers) < 10_000:
            _headers[key] = header
    return header


def is_record(value: Any) -> bool:
    """Whether an object is a record of data: a data class, a named batch, a Hugging Face style encoding."""
    try:
        vars(value)
    except Exception:
        return False
    if hasattr(type(value), "__dataclass_fields__"):
        return True
    return type(value).__module__.split(".")[0] not in ("torch", "numpy", "builtins") and not callable(value)


_weights: dict[Any, Any] = {}


def reduce_on_device(tensor: Any) -> list[Any]:
    """The multilinear hash of a tensor's bits, in int64 vectors of one element per chunk, on the tensor's device.

    For 32-bit words x_i and fixed pseudo-random 64-bit weights w_i it is the sum of w_i x_i modulo 2**64: two
    different chunks collide with probability at most 2**-33 over the choice of weights (Dietzfelbinger 1996; Lemire
    and Kaser, "Strongly universal string hashing is fast", 2014). Reading is all that it costs in memory traffic.
    """
    import torch  # already imported: the tensor exists

    flat = tensor.detach().contiguous().reshape(-1)
    if flat.numel() == 0:
        return []
    words = _words(flat)
    weights = weights_on(flat.device, min(words.numel(), CHUNK))
    if words.dtype == torch.int32 and (sums := multilinear(words, weights)) is not None:
        return [sums]
    return [(chunk * weights[: chunk.numel()]).sum(0, True, dtype=torch.int64) for chunk in words.split(CHUNK)]


def reduce_rows_on_device(tensor: Any) -> Any:
    """The same for each row, along the first dimension: an int64 vector with one element per row."""
    import torch  # already imported: the tensor exists

    rows = len(tensor)
    numbers = torch.zeros(rows, dtype=torch.int64, device=tensor.device)
    if tensor.numel() == 0:
        return numbers
    words = _words(tensor.detach().contiguous().reshape(rows, -1))
    weights = weights_on(tensor.device, min(words.shape[1], CHUNK))
    for chunk in words.split(max(1, CHUNK // rows), dim=1):
        # An odd factor between the chunks, for which the weights are the same.
        numbers = numbers * _ODD + (chunk * weights[: chunk.shape[1]]).sum(1, dtype=torch.int64)
    return numbers


def _words(tensor: Any) -> Any:
    """The last dimension of a contiguous tensor in words of 4 bytes, or of 1 byte if its size is no multiple of 4."""
    import torch  # already imported: the tensor exists

    size = tensor.element_size()
    if tensor.dtype == torch.bool or tensor.shape[-1] * size % 4:
        return tensor.view(torch.uint8)
    if tensor.storage_offset() * size % 4:
        tensor = tensor.clone()  # it begins in the middle of a word
    return tensor.view(torch.int32)


_ODD = -7046029254386353131


def weights_on(device: Any, count: int) -> Any:
    """At least `count` fixed pseudo-random odd numbers of 64 bits on a device; the first are always the same."""
    import torch  # already imported: a tensor exists

    have = _weights.get(device)
    if have is None or have.numel() < count:
        size = 1 << max(10, (count - 1).bit_length())
        # splitmix64 of the index, in wrapping int64 arithmetic; no random number is drawn.
        x = torch.arange(1, size + 1, dtype=torch.int64, device=device) * _ODD
        x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
        x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
        have = (x ^ ((x >> 31) & 0x1FFFFFFFF)) | 1
        if have.is_cuda:
            torch.cuda.current_stream(device).synchronize()  # once: the next to use it may be another stream
        _weights[device] = have
    return have
