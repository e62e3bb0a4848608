"""Hooks into torch.distributed.checkpoint: saves, asynchronous saves and loads."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chaoskit.probe.saves import Saves, saves_of

if TYPE_CHECKING:
    from chaoskit.probe.session import ProbeSession


def hook_distributed_checkpoint(session: ProbeSession, dcp: Any) -> None:
    """Wrap `save`, `async_save` and `load`."""
    saves = saves_of(session)
    modules = [module for name in _MODULES if (module := sys.modules.get(name)) is not None]
    for name, storage, around in (
        ("save", "storage_writer", _save),
        ("async_save", "storage_writer", _async_save),
        ("load", "storage_reader", _load),
    ):
        if (original := getattr(dcp, name, None)) is not None:
            replaced = _watched(saves, original, storage, around)
            for module in modules:
                if hasattr(module, name):
                    setattr(module, name, replaced)


_MODULES = (
    "torch.distributed.checkpoint",
    "torch.distributed.checkpoint.state_dict_saver",
    "torch.distributed.checkpoint.state_dict_loader",
)


def _watched(saves: Saves, original: Callable[..., Any], storage: str, around: Callable[..., Any]) -> Any:
    """The original, whose calls go through `around` if they belong to the record."""

    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        path = _place(args, kwargs, storage)
        if path is None or not saves.watched(path):
            return original(*args, **kwargs)
        return around(saves, path, original, args, kwargs)

    return watched


def _save(saves: Saves, path: str, save: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    state, args, kwargs = _taken_out(args, kwargs)
    return saves.save(path, "dcp.save", state, lambda: save(*args, **kwargs), full=True)


def _async_save(
    saves: Saves, path: str, save: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The save ends when its future does; until then, saves below its path belong to it."""
    state, args, kwargs = _taken_out(args, kwargs)
    n = saves.steps
    ident = saves.begin_save(path, "dcp.async_save", state, full=True)
    saves.running.append(path)
    try:
        future = save(*args, **kwargs)
    except BaseException as error:
        saves.running.remove(path)
        saves.end("save", ident, n, error=error)
        raise

    def done(finished: Any) -> None:
        saves.running.remove(path)
        error = finished.exception()
        saves.end("save", ident, n, error=error, wrote="" if error is not None else path)
        saves.session.guard("saved", saves.stop, "saved", n)

    upload = getattr(future, "upload_completion", future)
    upload.add_done_callback(done)
    return future


def _load(saves: Saves, path: str, load: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def action(show: Callable[[Any], None]) -> Any:
        state, taken, named = _taken_out(args, kwargs)
        result = load(*taken, **named)
        show(state)
        _put_back(args[0] if args else kwargs["state_dict"], state)
        return result

    return saves.load(path, "dcp.load", action)


def _place(args: tuple[Any, ...], kwargs: Mapping[str, Any], storage: str) -> str | None:
    """The directory of a distributed checkpoint: its `checkpoint_id`, or the path of the writer or reader."""
    for candidate in (kwargs.get("checkpoint_id"), kwargs.get(storage), *args[1:]):
        place = getattr(candidate, "path", candidate)
        if isinstance(place, (str, os.PathLike)):
            return os.path.abspath(os.fspath(place))
    return None


def _taken_out(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The state that is saved or loaded, and the arguments in which each stateful object is replaced by its state.

    Torch does the same next. Done here, each object is asked once, and what is written is what was recorded.
    """
    given = args[0] if args else kwargs.get("state_dict")
    if not isinstance(given, Mapping):
        return given, args, kwargs
    state = {
        key: value.state_dict() if _is_stateful(value) else value
        for key, value in sorted(given.items(), key=_name)
    }
    if args:
        return state, (state, *args[1:]), kwargs
    return state, args, {**kwargs, "state_dict": state}


def _put_back(given: Any, state: Mapping[str, Any]) -> None:
    """Put the loaded `state` into the caller's dictionary, as torch does."""
    for key, value in state.items():
        if _is_stateful(given.get(key)):
            given[key].load_state_dict(value)
        elif key in given:
            given[key] = value


def _name(item: tuple[Any, Any]) -> str:
    """The sort key, equal on every rank: asking a sharded object for its state may be collective."""
    return str(item[0])


def _is_stateful(value: Any) -> bool:
    return isinstance(value, sys.modules["torch.distributed.checkpoint.stateful"].Stateful)
