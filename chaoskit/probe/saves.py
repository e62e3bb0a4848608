"""Checkpoint saves and loads: `torch.save` and `load`, safetensors; `dcp.py` has the distributed ones.

Only files below the job's `{out}` count. In a run whose ranks stop at gates, a save is written in two halves, so that a
fault can be injected when bytes are on disk and the call has not returned.
"""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from chaoskit.probe.contents import contents, nonfinite
from chaoskit.probe.indirect_saves import IndirectSaves

if TYPE_CHECKING:
    from chaoskit.probe.session import ProbeSession

#: So many files of a save are recorded at most.
FILES_AT_MOST = 1000
#: What torch takes for true in a variable of the environment.
_TRUE = ("1", "y", "yes", "true")


class Saves:
    """Counts and records the saves and loads of one rank, and stops it at the gate in them."""

    def __init__(self, session: ProbeSession) -> None:
        self.session = session
        self.running: list[str] = []
        self.indirect = IndirectSaves(self)
        self._out = os.environ.get("CHAOSKIT_OUT")
        self._ids = 0
        self._calls: dict[int, int] = {}
        self._halfway: int | None = None

    def settle(self) -> None:
        """Finish the saves that are still on their way (see `IndirectSaves.settle`)."""
        self.indirect.settle()

    @property
    def steps(self) -> int:
        """The position in this incarnation."""
        return self.session.observer.steps if self.session.observer is not None else 0

    @property
    def made(self) -> bool:
        """Whether a save has begun in this incarnation."""
        return bool(self._calls)

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

    def passing(self, path: str | None) -> bool:
        """Whether a path is in the directory for temporary files, from which a file may be copied elsewhere."""
        place = os.path.join(os.environ.get("TMPDIR", "/tmp"), "")
        passes = (
            path is not None and self._out is not None and not _under(path, self._out) and path.startswith(place)
        )
        return passes and not self.within(path) and self.session.open()

    def within(self, path: str | None) -> bool:
        """Whether a write belongs to a save that is running, possibly in another thread.

        A write without a path goes to a buffer, which a running save then writes to a file.
        """
        running = tuple(self.running)
        if path is None:
            return bool(running)
        return any(path == each or path.startswith(each + os.sep) for each in running)

    def begin(self, kind: str, path: str, api: str, **more: Any) -> int:
        """Record the beginning of a save or load, after the deferred events of earlier steps."""
        if self.session.observer is not None:
            self.session.observer.settle()
            self.session.observer.by_name = True
            self.session.observer.recording.begins_anew(self.steps)
            if kind == "load":
                self.session.observer.begun.clear()  # what was drawn before belongs to no step
        if self._out is not None and not path.startswith(os.path.join(os.path.abspath(self._out), "")):
            path = os.path.realpath(path)  # it may be a link to what lies there
        self._ids += 1
        if kind == "save":
            self._calls[self.steps] = self._calls.get(self.steps, 0) + 1
        self.session.write(f"{kind}.begin", id=self._ids, n=self.steps, path=path, api=api, **more)
        return self._ids

    def begin_save(self, path: str, api: str, state: Any, *, full: bool, passing: bool = False) -> int:
        """Record the beginning of a save and the contents that it writes; `passing`: to a temporary file."""
        if full and self.session.observer is not None:
            self.session.guard("held", self.session.observer.hold)
        if self.session.moments is not None:
            self.session.guard("put back", self.session.moments.saved)
        more: dict[str, Any] = {"full": full, **({"passing": True} if passing else {})}
        if (content := self.session.guard("content", contents, state)) is not None:
            more["content"] = content
        if bad := self.session.guard("nonfinite", nonfinite, state):
            more["nonfinite"] = bad
        return self.session.guard("save", self.begin, "save", path, api, **more) or 0

    def end(
        self, kind: str, ident: int, n: int, *, error: BaseException | None = None, wrote: str = "", **more: Any
    ) -> None:
        """Record the end of a save or load, and the files that a save `wrote` to this path."""
        if wrote and (files := self.session.guard("files", _files_at, wrote)):
            more["files"] = files
        if error is not None:
            more["error"] = f"{type(error).__name__}: {error}"[:300]
        self.session.write(f"{kind}.end", id=ident, n=n, ok=error is None, **more)

    def stop(self, at: str, n: int) -> None:
        """Stop at the gate, in a `save` (once in each) or when it is `saved`; raises the exception that is ordered."""
        gate = self.session.gate
        if gate is None or not gate.open or (at == "save" and self._halfway == self._ids):
            return
        if at == "save":
            self._halfway = self._ids
        order = self.session.guard(at, gate.arrive, at, n, call=self._calls.get(n, 1))
        if isinstance(order, BaseException):
            raise order

    def save(
        self, path: str, api: str, state: Any, action: Callable[[], Any], *, full: bool, passing: bool = False
    ) -> Any:
        """Run `action`, which saves `state`, and record it."""
        self.indirect.settle()
        n = self.steps
        ident = self.begin_save(path, api, state, full=full, passing=passing)
        self.running.append(path)
        try:
            result = action()
            self.stop("save", n)
        except BaseException as error:
            self.end("save", ident, n, error=error)
            raise
        finally:
            self.running.remove(path)
        self.end("save", ident, n, wrote=path)
        if passing:
            self.session.guard("detours", self.indirect.passed, ident, path)
        self.stop("saved", n)
        return result

    def load(self, path: str, api: str, action: Callable[[Callable[[Any], None]], Any], **more: Any) -> Any:
        """Run `action`, which loads, and record it. It gets a function to which it passes the loaded value."""
        observer = self.session.observer
        order = self.session.guard("step", observer.leave_out) if observer is not None else None
        if isinstance(order, BaseException):
            raise order
        self.indirect.settle()
        n = self.steps
        ident = self.session.guard("load", self.begin, "load", path, api, **more) or 0
        came: dict[str, Any] = {}

        def show(state: Any) -> None:
            if (content := self.session.guard("content", contents, state)) is not None:
                came["content"] = content

        self.running.append(path)
        try:
            result = action(show)
        except BaseException as error:
            self.end("load", ident, n, error=error, **came)
            raise
        finally:
            self.running.remove(path)
        self.end("load", ident, n, **came)
        if self.session.moments is not None:
            self.session.guard("put back", self.session.moments.loaded)
        if observer is not None:
            observer.loaded = observer.steps > 0
        return result

    def shown(self, path: str, api: str, action: Callable[[], Any], **more: Any) -> Any:
        """Record a load whose result is the loaded value."""

        def loaded(show: Callable[[Any], None]) -> Any:
            result = action()
            show(result)
            return result

        return self.load(path, api, loaded, **more)

    def in_halves(self, data: bytes | memoryview, file: Any, n: int) -> None:
        """Write `data` to an open file, stopping at the gate with half of it on disk."""
        half = len(data) // 2
        file.write(data[:half])
        file.flush()
        self.stop("save", n)
        file.write(data[half:])
        file.flush()


def hook_torch(session: ProbeSession, torch: Any) -> None:
    """Wrap `torch.save` and `torch.load`."""
    saves = saves_of(session)
    save, load = torch.save, torch.load

    @functools.wraps(save)
    def watched_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        path = _path(f)
        saves.indirect.settle()
        if saves.within(path):
            # One of the tensors that a distributed checkpoint writes: after the first, bytes have been written.
            result = save(obj, f, *args, **kwargs)
            if saves.gated and hasattr(f, "flush"):
                f.flush()
                saves.stop("save", saves.steps)
            return result
        full = bool(session.guard("save", _full, obj))
        passing = full and saves.passing(path)
        if path is None or not (passing or saves.watched(path)):
            result = save(obj, f, *args, **kwargs)
            if path is None and full:
                session.guard("detours", saves.indirect.saved, obj, f.tell())
            return result

        def action() -> Any:
            if not saves.gated:
                return save(obj, f, *args, **kwargs)
            buffer = io.BytesIO()
            save(obj, buffer, *args, **kwargs)
            if hasattr(f, "write"):
                return saves.in_halves(buffer.getbuffer(), f, saves.steps)
            with open(f, "wb") as file:
                saves.in_halves(buffer.getbuffer(), file, saves.steps)

        return saves.save(path, "torch.save", obj, action, full=full, passing=passing)

    @functools.wraps(load)
    def watched_load(f: Any, *args: Any, **kwargs: Any) -> Any:
        path = _path(f)
        if path is None or not saves.watched(path):
            return load(f, *args, **kwargs)
        restricted = session.guard("weights_only", _weights_only, torch.serialization, args, kwargs)
        more = {} if restricted is None else {"weights_only": restricted}
        return saves.shown(path, "torch.load", lambda: load(f, *args, **kwargs), **more)

    for module in (torch, torch.serialization):  # by the latter name they are pickled
        module.save, module.load = watched_save, watched_load


def _weights_only(serialization: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether `torch.load` with these arguments behind the file refuses to unpickle anything but tensors and plain
    values: as it is asked, else as torch and its two variables of the environment decide."""
    given = kwargs.get("weights_only")
    if os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() in _TRUE:
        return True
    if given is not None:
        return bool(given)
    if os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in _TRUE:
        return False
    pickle_module = kwargs.get("pickle_module", args[1] if len(args) > 1 else None)
    usual = getattr(serialization, "_default_to_weights_only", None)  # torch 2.6 and later
    return bool(usual(pickle_module)) if usual is not None else False


def hook_safetensors(session: ProbeSession, safetensors: Any) -> None:
    """Wrap `save_file` and `load_file` of safetensors.torch."""
    saves = saves_of(session)
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

        return saves.save(path, "safetensors", tensors, action, full=False)

    @functools.wraps(load_file)
    def watched_load(filename: Any, *args: Any, **kwargs: Any) -> Any:
        path = _path(filename)
        if path is None or not saves.watched(path):
            return load_file(filename, *args, **kwargs)
        return saves.shown(path, "safetensors", lambda: load_file(filename, *args, **kwargs))

    safetensors.save_file, safetensors.load_file = watched_save, watched_load


def saves_of(session: ProbeSession) -> Saves:
    """The one `Saves` of this rank."""
    if not isinstance(session.saves, Saves):
        session.saves = Saves(session)
    return session.saves


def _path(f: Any) -> str | None:
    """The path of a file argument: a path, or a file object with a name. None if it has none."""
    name = f if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
    try:
        if isinstance(name, int):  # what `os.fdopen` gave
            return os.readlink(f"/proc/self/fd/{name}")
        return os.path.abspath(os.fsdecode(name)) if name is not None else None
    except (OSError, TypeError, ValueError):
        return None


def _files_at(path: str) -> dict[str, int]:
    """The size of each file of a save, by its name below the path; the file itself has the name ''."""
    if not os.path.isdir(path):
        return {"": os.path.getsize(path)}
    found = (os.path.join(place, name) for place, _, names in os.walk(path) for name in names)
    return {os.path.relpath(file, path): os.path.getsize(file) for file in islice(found, FILES_AT_MOST)}


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
