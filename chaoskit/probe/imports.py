"""Hooks into modules when the job imports them; never imports one of them itself."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaoskit.probe.session import ProbeSession


class ImportWatch:
    """A meta-path finder that finds no module itself: it calls back after a watched module was executed."""

    def __init__(self, callbacks: dict[str, Callable[[ModuleType], None]]) -> None:
        self._callbacks = callbacks
        self._searching: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._callbacks or name in self._searching:
            return None
        self._searching.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching.discard(name)
        if spec is None or spec.loader is None:
            return None
        self._follow(spec.loader, name)
        return spec

    def _follow(self, loader: Any, name: str) -> None:
        """Call back after the loader has run. The module keeps its original loader, for `inspect` and others."""
        execute = loader.exec_module
        callback = self._callbacks[name]

        def exec_module(module: ModuleType) -> None:
            loader.exec_module = execute
            execute(module)
            callback(module)

        loader.exec_module = exec_module


def watch_imports(session: ProbeSession) -> None:
    """Hook into torch, its distributed checkpoints, safetensors and numpy as soon as the job imports them."""

    def guarded(action: Callable[[ProbeSession, ModuleType], None]) -> Callable[[ModuleType], None]:
        return lambda module: session.guard(f"import of {module.__name__}", action, session, module)

    callbacks = {name: guarded(action) for name, action in _WATCHED.items()}
    # In a forked process they are imported already.
    there = callbacks.keys() & sys.modules.keys()
    for name in there:
        callbacks[name](sys.modules[name])
    if there:
        session.guard("imports", _replace, [sys.modules[name] for name in there])
    sys.meta_path.insert(0, ImportWatch({name: callbacks[name] for name in callbacks.keys() - sys.modules.keys()}))


@dataclass(frozen=True)
class _Taken:
    """Under which names packages hold functions, of `known` identities, that other modules defined."""

    known: frozenset[int]
    holders: dict[int, list[tuple[ModuleType, str]]]


#: What a warm parent has found out for its forks. They would look through all that is imported, each on its own, and
#: copy its memory by that.
_ahead: _Taken | None = None


def look_ahead() -> None:
    """Call this in a warm parent whenever it has imported something, before it is forked: the probe then starts faster
    in its forks."""
    global _ahead
    modules = (sys.modules[name] for name in (*_WATCHED, *_ALSO) if name in sys.modules)
    _ahead = _holders(frozenset(id(value) for module in modules for value in vars(module).values() if callable(value)))


def _holders(known: frozenset[int]) -> _Taken:
    """Where objects of these identities are held. Torch's own parts are left: they were imported before the hooks
    anyway."""
    holders: dict[int, list[tuple[ModuleType, str]]] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("torch", "chaoskit") or not isinstance(module, ModuleType):
            continue
        for attribute, value in list(vars(module).items()):
            if id(value) in known:
                holders.setdefault(id(value), []).append((module, attribute))
    return _Taken(known, holders)


def _replace(hooked: Sequence[ModuleType]) -> None:
    """Replace the originals also where a package imported them by name (`from safetensors.torch import save_file`), as
    if it had been imported after the hooks."""
    ours = {}
    for module in (*hooked, *(sys.modules[name] for name in _ALSO if name in sys.modules)):
        for value in list(vars(module).values()):
            if type(value) is FunctionType and value.__code__.co_filename.startswith(_OWN):
                original = getattr(value, "__wrapped__", None)
                ours[id(original)] = (original, value)
    known = frozenset(ours)
    taken = _ahead if _ahead is not None and known <= _ahead.known else _holders(known)
    for identity, (original, value) in ours.items():
        for module, attribute in taken.holders.get(identity, ()):
            if module.__dict__.get(attribute) is original:
                module.__dict__[attribute] = value


#: Other modules in which the hooks replace functions; the directory of the probe's code.
_ALSO = ("torch.autograd", "torch.distributed")
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _torch(session: ProbeSession, module: ModuleType) -> None:
    from chaoskit.probe.hooks import install
    from chaoskit.probe.observer import Observer
    from chaoskit.probe.putting_back import begin
    from chaoskit.probe.saves import hook_torch

    session.write("torch", version=str(module.__version__))
    observer = session.observer = Observer(session)
    session.moments = session.guard("put back", begin, session, observer)
    install(session, observer, module)
    hook_torch(session, module)


def _distributed_checkpoint(session: ProbeSession, module: ModuleType) -> None:
    from chaoskit.probe.dcp import hook_distributed_checkpoint

    hook_distributed_checkpoint(session, module)


def _safetensors(session: ProbeSession, module: ModuleType) -> None:
    from chaoskit.probe.saves import hook_safetensors

    hook_safetensors(session, module)


def _numpy(session: ProbeSession, module: ModuleType) -> None:
    from chaoskit.probe.row_hooks import hook_memory_maps

    hook_memory_maps(session, module, lambda: session.outside())


def _numpy_random(session: ProbeSession, module: ModuleType) -> None:
    from chaoskit.probe.streams import numpy_stream

    # Before the job can draw from it.
    session.write("rng0", stream="numpy", value=numpy_stream(module.get_state(legacy=True)))


#: The modules that the probe hooks into, and what it does there.
_WATCHED: dict[str, Callable[[ProbeSession, ModuleType], None]] = {
    "torch": _torch,
    "torch.distributed.checkpoint": _distributed_checkpoint,
    "safetensors.torch": _safetensors,
    "numpy.random": _numpy_random,
    "numpy": _numpy,
}
