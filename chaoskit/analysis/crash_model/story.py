"""A state's shortest story, in plain words, and the few stories that stand behind many states."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from chaoskit.analysis.crash_model.causes import Cause, LostWrites
from chaoskit.analysis.crash_model.contents import File
from chaoskit.analysis.crash_model.log import DATA, Log
from chaoskit.analysis.crash_model.states import State
from chaoskit.protocol.io_journal import NAMING, Operation

#: So many losses are told of by name.
MOST_NAMED = 3

LEFT = {
    "old": "it has its old content",
    "cut": "the last writes are missing",
    "zeros": "it has its size and reads as zeros where nothing was before",
    "torn": "only a part of its last write is present",
    "some": "some of its writes are missing and others are present",
}


@dataclass(frozen=True)
class Story:
    """What stands behind several states: `text` tells of the simplest of them, `state`."""

    text: str
    state: State
    states: tuple[State, ...]

    @property
    def count(self) -> int:
        """How many states it stands behind."""
        return len(self.states)


def story(state: State) -> str:
    """How the state can have come about, in one sentence without its full stop."""
    cause, log = state.cause, state.disk.log
    after = _after(log, cause.after)
    if not cause.losses:
        return f"the processes die {after}"
    if cause.session is not None:
        return f"{after} all that session {cause.session} wrote may be missing, and what others wrote may be there"
    if cause.only is not None:
        kept = _call(log.operations[cause.only])
        return f"{after}, `{kept}` may be on the disk without {_listed(_mattering(cause))}, because {_why(log, cause)}"
    losses = _mattering(cause)
    if len(losses) > 1:
        return f"{after} {_listed(losses)} may be missing together, because {_why(log, cause)}"
    (loss,) = losses
    if loss.what == "name":
        return f"{after}, `{_call(log.operations[loss.operations[0]])}` may be undone, because {_why(log, cause)}"
    how = LEFT[loss.left or "old"]
    found = state.tree.inodes[log.operations[loss.operations[0]].file]
    if isinstance(found, File) and not found.size:
        how = "it is empty"
    return f"{after} the data of `{loss.path}` may be missing, because {_why(log, cause)}: {how}"


def shortest_stories(states: Iterable[State]) -> tuple[Story, ...]:
    """The stories behind these states, those of most states first.

    A state that lacks several things counts with a simpler one that lacks but one of them. Names that differ in their
    numbers alone are taken for one.
    """
    groups: dict[frozenset[tuple[str, ...]], list[State]] = {}
    for state in sorted(states, key=_length):
        told = _told(state)
        own = next((key for key in groups if key <= told and (key == told or len(key) == 1)), told)
        groups.setdefault(own, []).append(state)
    found = [Story(story(group[0]), group[0], tuple(group)) for group in groups.values()]
    return tuple(sorted(found, key=lambda one: -one.count))


def _length(state: State) -> tuple[int, int, int]:
    cause = state.cause
    return (cause.only is not None or cause.session is not None, len(_mattering(cause)), cause.after)


def _told(state: State) -> frozenset[tuple[str, ...]]:
    cause, log = state.cause, state.disk.log
    if not cause.losses:
        operation = _latest(log, cause.after)
        return frozenset([("dies", _alike(_call(operation)) if operation else "")])
    return frozenset(("lost", one.what, _alike(one.path), _reason(log, one)) for one in _mattering(cause))


def _mattering(cause: Cause) -> list[LostWrites]:
    """What was lost by itself, and not with something else."""
    return [loss for loss in cause.losses if loss.rests_on is None]


def _alike(text: str) -> str:
    return re.sub(r"\d+", "#", text)


def _latest(log: Log, done: int) -> Operation | None:
    """The last operation that changed something: an fsync does not."""
    return next((one for one in reversed(log.operations[:done]) if one.kind in NAMING | DATA), None)


def _after(log: Log, done: int) -> str:
    operation = _latest(log, done)
    if operation is None:
        return "before anything is written"
    if operation.kind == "write":
        return f"after `write` of {operation.size} byte{'' if operation.size == 1 else 's'} to `{operation.path}`"
    return f"after `{_call(operation)}`"


def _call(operation: Operation) -> str:
    if operation.kind in ("rename", "link"):
        return f"{operation.kind}({operation.path}, {operation.to})"
    if operation.kind == "symlink":
        return f"symlink({operation.to}, {operation.path})"
    return f"{operation.kind}({operation.path})"


def _listed(losses: list[LostWrites]) -> str:
    said = list(
        dict.fromkeys(f"the {one.what} {'of ' if one.what == 'data' else ''}`{one.path}`" for one in losses)
    )
    more = len(said) - MOST_NAMED
    if more > 0:
        return f"{', '.join(said[:MOST_NAMED])} and {more} more"
    return " and ".join(filter(None, (", ".join(said[:-1]), said[-1])))


def _why(log: Log, cause: Cause) -> str:
    losses = _mattering(cause)
    reasons = list(dict.fromkeys(_reason(log, loss) for loss in losses))
    return reasons[0] if len(reasons) == 1 and len(losses) == 1 else "no fsync had forced them"


def _reason(log: Log, loss: LostWrites) -> str:
    """Why this could be lost: the fsync that was missing."""
    n = loss.operations[-1]
    if loss.what == "data":
        said, numbers = "it", {log.operations[n].file}
    else:
        above = {path.rpartition("/")[0] or "." for path in (log.operations[n].path, loss.path)}
        said = f"the directory `{'` or `'.join(sorted(above))}`"
        numbers = {change.directory for change in log.naming[n].changes}
    forcing = [one for number in numbers for one in log.forcing.get(number, ())]
    if any(one.since > n for one in forcing):
        return f"{said} is fsynced only later"
    return f"{said} was never fsynced" if not forcing else f"{said} was not fsynced again after that"
