"""Checkpoint saves and loads: `torch.save` and `load`, torch.distributed.checkpoint, safetensors.

Only what goes to or comes from a path under the job's `{out}` counts. In a run whose ranks stop at gates a save to a
file is written in two halves, so that a fault can strike with bytes on disk and the call not returned.
"""

from __future__ import annotations

import functools
import io
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaoskit.probe.session import Session


class Saves:
    """The saves and loads of one rank: counted, written to the record, stopped at the gate."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.running: list[str] = []
        self._out = os.environ.get("CHAOSKIT_OUT")
        self._ids = 0
        self._calls: dict[int, int] = {}
        self._halfway: int | None = None

    @property
    def steps(self) -> int:
        """The position in this incarnation."""
        return self.session.observer.steps if self.session.observer is not None else 0

    @property
    def gated(self) -> bool:
        return self.session.gate is not None and self.session.gate.open

    def watched(self, path: str | None) -> bool:
        """Whether a save to or load from `path` belongs to the record."""
        return bool(self.session.guard("path", self._is_watched, path))

    def _is_watched(self, path: str | None) -> bool:
        if path is None or self.within(path) or not (self._out is None or _under(path, self._out)):
            return False
        return self.session.open()

    def within(self, path: str | None) -> bool:
        """Whether what is written belongs to a save that is running, possibly in another thread.

        What goes to no path goes into a buffer, which a save that is running then writes.
        """
        running = tuple(self.running)
        if path is None:
            return bool(running)
        return any(path == each or path.startswith(each + os.sep) for each in running)

    def begin(self, kind: str, path: str, api: str, **more: Any) -> int:
        """Note the beginning of a save or load; what the device still owes is written down before."""
        if self.session.observer is not None:
            self.session.observer.settle()
        self._ids += 1
        if kind == "save":
            self._calls[self.steps] = self._calls.get(self.steps, 0) + 1
        self.session.write(f"{kind}.begin", id=self._ids, n=self.steps, path=path, api=api, **more)
        return self._ids

    def end(self, kind: str, ident: int, n: int, *, error: BaseException | None = None) -> None:
        """Note its end."""
        more = {"error": f"{type(error).__name__}: {error}"[:300]} if error is not None else {}
        self.session.write(f"{kind}.end", id=ident, n=n, ok=error is None, **more)

    def stop(self, at: str, n: int) -> None:
        """Stop at the gate, `save` (once in each save) or `saved`; raises what the rank is ordered to raise."""
        gate = self.session.gate
        if gate is None or not gate.open or (at == "save" and self._halfway == self._ids):
            return
        if at == "save":
            self._halfway = self._ids
        order = self.session.guard(at, gate.arrive, at, n, call=self._calls.get(n, 1))
        if isinstance(order, BaseException):
            raise order

    def around(self, kind: str, path: str, api: str, action: Callable[[], Any], **more: Any) -> Any:
        """Run `action`, which is a whole save or load, with everything that belongs around it."""
        n = self.steps
        ident = self.session.guard(kind, self.begin, kind, path, api, **more) or 0
        self.running.append(path)
        try:
            result = action()
            if kind == "save":
                self.stop("save", n)
        except BaseException as error:
            self.end(kind, ident, n, error=error)
            raise
        finally:
            self.running.remove(path)
        self.end(kind, ident, n)
        if kind == "save":
            self.stop("saved", n)
        return result

    def in_halves(self, data: bytes | memoryview, file: Any, n: int) -> None:
        """Write `data` to an open file, stopping at the gate with half of it on disk."""
        half = len(data) // 2
        file.write(data[:half])
        file.flush()
        self.stop("save", n)
        file.write(data[half:])
        file.flush()


def hook_torch(session: Session, torch: Any) -> None:
    """Wrap `torch.save` and `torch.load`."""
    saves = _saves(session)
    save, load = torch.save, torch.load

    @functools.wraps(save)
    def watched_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        path = _path(f)
        if saves.within(path):
            # One of the tensors that a distributed checkpoint writes: after the first, bytes have been written.
            result = save(obj, f, *args, **kwargs)
            if saves.gated and hasattr(f, "flush"):
                f.flush()
                saves.stop("save", saves.steps)
            return result
        if path is None or not saves.watched(path):
            return save(obj, f, *args, **kwargs)

        def action() -> Any:
            if not saves.gated:
                return save(obj, f, *args, **kwargs)
            buffer = io.BytesIO()
            save(obj, buffer, *args, **kwargs)
            if hasattr(f, "write"):
                return saves.in_halves(buffer.getbuffer(), f, saves.steps)
            with open(f, "wb") as file:
                saves.in_halves(buffer.getbuffer(), file, saves.steps)

        full = bool(session.guard("save", _full, obj))
        return saves.around("save", path, "torch.save", action, full=full)

    @functools.wraps(load)
    def watched_load(f: Any, *args: Any, **kwargs: Any) -> Any:
        path = _path(f)
        if path is None or not saves.watched(path):
            return load(f, *args, **kwargs)
        return saves.around("load", path, "torch.load", lambda: load(f, *args, **kwargs))

    for module in (torch, torch.serialization):  # by the latter name they are pickled
        module.save, module.load = watched_save, watched_load


def hook_distributed_checkpoint(session: Session, dcp: Any) -> None:
    """Wrap `save`, `async_save` and `load` of torch.distributed.checkpoint."""
    saves = _saves(session)
    save, load, async_save = dcp.save, dcp.load, getattr(dcp, "async_save", None)

    @functools.wraps(save)
    def watched_save(*args: Any, **kwargs: Any) -> Any:
        path = _place(args, kwargs, "storage_writer")
        if path is None or not saves.watched(path):
            return save(*args, **kwargs)
        return saves.around("save", path, "dcp.save", lambda: save(*args, **kwargs), full=True)

    @functools.wraps(load)
    def watched_load(*args: Any, **kwargs: Any) -> Any:
        path = _place(args, kwargs, "storage_reader")
        if path is None or not saves.watched(path):
            return load(*args, **kwargs)
        return saves.around("load", path, "dcp.load", lambda: load(*args, **kwargs))

    replaced = {"save": watched_save, "load": watched_load}
    if async_save is not None:

        @functools.wraps(async_save)
        def watched_async_save(*args: Any, **kwargs: Any) -> Any:
            path = _place(args, kwargs, "storage_writer")
            if path is None or not saves.watched(path):
                return async_save(*args, **kwargs)
            return _asynchronous(saves, path, lambda: async_save(*args, **kwargs))

        replaced["async_save"] = watched_async_save
    for name in ("torch.distributed.checkpoint", *_DCP_MODULES):
        module = sys.modules.get(name)
        for attribute, function in replaced.items():
            if module is not None and hasattr(module, attribute):
                setattr(module, attribute, function)


_DCP_MODULES = (
    "torch.distributed.checkpoint.state_dict_saver",
    "torch.distributed.checkpoint.state_dict_loader",
)


def _place(args: tuple[Any, ...], kwargs: Mapping[str, Any], storage: str) -> str | None:
    """The directory of a distributed checkpoint: its `checkpoint_id`, or the path of the writer or reader."""
    for candidate in (kwargs.get("checkpoint_id"), kwargs.get(storage), *args[1:]):
        place = getattr(candidate, "path", candidate)
        if isinstance(place, (str, os.PathLike)):
            return os.path.abspath(os.fspath(place))
    return None


def _asynchronous(saves: Saves, path: str, action: Callable[[], Any]) -> Any:
    """An asynchronous save ends when its future does; until then what is saved below it belongs to it."""
    n = saves.steps
    ident = saves.session.guard("save", saves.begin, "save", path, "dcp.async_save", full=True) or 0
    saves.running.append(path)
    try:
        future = action()
    except BaseException as error:
        saves.running.remove(path)
        saves.end("save", ident, n, error=error)
        raise

    def done(finished: Any) -> None:
        saves.running.remove(path)
        saves.end("save", ident, n, error=finished.exception())
        saves.session.guard("saved", saves.stop, "saved", n)

    upload = getattr(future, "upload_completion", future)
    upload.add_done_callback(done)
    return future


def hook_safetensors(session: Session, safetensors: Any) -> None:
    """Wrap `save_file` and `load_file` of safetensors.torch."""
    saves = _saves(session)
    save_file, load_file, save = safetensors.save_file, safetensors.load_file, safetensors.save

    @functools.wraps(save_file)
    def watched_save(tensors: Any, filename: Any, metadata: Any = None) -> Any:
        path = _path(filename)
        if path is None or not saves.watched(path):
            return save_file(tensors, filename, metadata)

        def action() -> Any:
            if not saves.gated:
                return save_file(tensors, filename, metadata)
            with open(filename, "wb") as file:
                saves.in_halves(save(tensors, metadata), file, saves.steps)

        return saves.around("save", path, "safetensors", action, full=False)

    @functools.wraps(load_file)
    def watched_load(filename: Any, *args: Any, **kwargs: Any) -> Any:
        path = _path(filename)
        if path is None or not saves.watched(path):
            return load_file(filename, *args, **kwargs)
        return saves.around("load", path, "safetensors", lambda: load_file(filename, *args, **kwargs))

    safetensors.save_file, safetensors.load_file = watched_save, watched_load


def _saves(session: Session) -> Saves:
    """The one `Saves` of this rank."""
    if session.saves is None:
        session.saves = Saves(session)
    return session.saves


def _path(f: Any) -> str | None:
    name = f if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
    try:
        if isinstance(name, int):  # what `os.fdopen` gave
            return os.readlink(f"/proc/self/fd/{name}")
        return os.path.abspath(os.fsdecode(name)) if name is not None else None
    except (OSError, TypeError, ValueError):
        return None


def _under(path: str, out: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(out) + os.sep)


def _full(obj: Any, depth: int = 3) -> bool:
    """Whether an object holds optimizer state, and so is a checkpoint to resume from and not an export of weights."""
    if not isinstance(obj, Mapping):
        return False
    if "param_groups" in obj:
        return True
    if any("optim" in key.lower() for key in obj if isinstance(key, str)):
        return True
    return depth > 0 and any(_full(value, depth - 1) for value in obj.values())
