"""Watches for the modules that the probe hooks into, and never imports one of them itself."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaoskit.probe.session import Session


class ImportWatch:
    """A meta-path finder that finds nothing itself: it calls back once a watched module has been executed."""

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
        """Call back after the loader has run. The loader stays the original, for `inspect` and its like."""
        execute = loader.exec_module
        callback = self._callbacks[name]

        def exec_module(module: ModuleType) -> None:
            loader.exec_module = execute
            execute(module)
            callback(module)

        loader.exec_module = exec_module


def watch_imports(session: Session) -> None:
    """Hook into torch, its distributed checkpoints, safetensors and numpy as soon as the job imports them."""

    def guarded(action: Callable[[Session, ModuleType], None]) -> Callable[[ModuleType], None]:
        return lambda module: session.guard(f"import of {module.__name__}", action, session, module)

    callbacks = {
        "torch": guarded(_torch),
        "torch.distributed.checkpoint": guarded(_distributed_checkpoint),
        "safetensors.torch": guarded(_safetensors),
        "numpy.random": guarded(_numpy_random),
    }
    # In a process that was forked they are there already.
    there = callbacks.keys() & sys.modules.keys()
    for name in there:
        callbacks[name](sys.modules[name])
    if there:
        session.guard("imports", _replace, [sys.modules[name] for name in there])
    sys.meta_path.insert(0, ImportWatch({name: callbacks[name] for name in callbacks.keys() - sys.modules.keys()}))


def _replace(hooked: Sequence[ModuleType]) -> None:
    """Have ours also where a package has taken the original by name (`from safetensors.torch import save_file`), as it
    would have, had it been imported after the hooks were in place. Torch's own parts were there before them anyway."""
    ours = {}
    for module in (*hooked, *(sys.modules[name] for name in _ALSO if name in sys.modules)):
        for value in list(vars(module).values()):
            if type(value) is FunctionType and value.__code__.co_filename.startswith(_OWN):
                original = getattr(value, "__wrapped__", None)
                ours[id(original)] = (original, value)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("torch", "chaoskit") or not isinstance(module, ModuleType):
            continue
        for attribute, value in list(vars(module).items()):
            if id(value) in ours and ours[id(value)][0] is value:
                module.__dict__[attribute] = ours[id(value)][1]


#: Where else functions of ours have been put; and the directory that their code lies in.
_ALSO = ("torch.autograd", "torch.distributed")
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _torch(session: Session, module: ModuleType) -> None:
    from chaoskit.probe.hooks import install
    from chaoskit.probe.observer import Observer
    from chaoskit.probe.saves import hook_torch

    session.write("torch", version=str(module.__version__))
    session.observer = Observer(session)
    install(session, session.observer, module)
    hook_torch(session, module)


def _distributed_checkpoint(session: Session, module: ModuleType) -> None:
    from chaoskit.probe.dcp import hook_distributed_checkpoint

    hook_distributed_checkpoint(session, module)


def _safetensors(session: Session, module: ModuleType) -> None:
    from chaoskit.probe.saves import hook_safetensors

    hook_safetensors(session, module)


def _numpy_random(session: Session, module: ModuleType) -> None:
    from chaoskit.probe.streams import numpy_stream

    # Before anybody could draw from it.
    session.write("rng0", stream="numpy", value=numpy_stream(module.get_state(legacy=True)))
