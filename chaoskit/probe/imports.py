"""Watches for the modules that the probe hooks into, and never imports one of them itself."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
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
    for name in callbacks.keys() & sys.modules.keys():
        callbacks[name](sys.modules[name])
    sys.meta_path.insert(0, ImportWatch({name: callbacks[name] for name in callbacks.keys() - sys.modules.keys()}))


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
