"""`IntentJournal`: what a run is about to make in a cluster, on the disk before each request.

If chaoskit dies at any moment, the journal names every object that may be there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

from chaoskit.environments.kubernetes.api_kinds import ApiKind
from chaoskit.protocol import json_lines
from chaoskit.protocol.json_lines import LineWriter
from chaoskit.schema import SchemaError, conform


@dataclass(frozen=True)
class Intent:
    """An object that may be in the cluster; `uid` is empty if it is not known whether it was made."""

    resource: str
    namespace: str
    name: str
    uid: str = ""

    @property
    def removal(self) -> str:
        """The command that removes it by hand."""
        return f"kubectl delete {self.resource} {self.name} --namespace {self.namespace}"


class _EveryIntent(TypedDict):
    do: Literal["intend", "made", "absent"]
    resource: str
    namespace: str
    name: str


class IntentLine(_EveryIntent, total=False):
    """A line of the journal about one object. `uid` is in that of an object that was made."""

    uid: str


class IntentJournal:
    """Appends to one file, and has each line on the disk before it returns. Raises OSError if it cannot."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = LineWriter(path)
        self._fds = [os.open(name, os.O_RDONLY | os.O_CLOEXEC) for name in (path, path.parent)]

    def intend(self, kind: ApiKind, namespace: str, name: str) -> None:
        """An object will be made now."""
        self._write({"do": "intend", **_key(kind, namespace, name)})

    def made(self, kind: ApiKind, namespace: str, name: str, uid: str) -> None:
        """It was made."""
        self._write({"do": "made", **_key(kind, namespace, name), "uid": uid})

    def absent(self, kind: ApiKind, namespace: str, name: str) -> None:
        """It is not there: the server refused to make it."""
        self._write({"do": "absent", **_key(kind, namespace, name)})

    def done(self) -> None:
        """Everything was removed."""
        self._write({"do": "done"})

    def close(self) -> None:
        """Close the file."""
        self._lines.close()
        while self._fds:
            os.close(self._fds.pop())

    def _write(self, line: dict[str, Any]) -> None:
        self._lines.write(line)
        for fd in self._fds:
            os.fsync(fd)


def left(path: Path) -> tuple[Intent, ...]:
    """The objects of a journal that may be in the cluster, in the order in which they were intended. Raises OSError if
    the file cannot be read; damaged lines are skipped."""
    found: dict[tuple[str, str, str], Intent] = {}
    for line in json_lines.read(path):
        if line.value == {"do": "done"}:
            found.clear()
            continue
        try:
            told = conform(IntentLine, line.value)
        except SchemaError:
            continue
        key = (told["resource"], told["namespace"], told["name"])
        if told["do"] == "absent":
            found.pop(key, None)
        else:
            found[key] = Intent(*key, uid=told.get("uid", ""))
    return tuple(found.values())


def _key(kind: ApiKind, namespace: str, name: str) -> dict[str, str]:
    return {"resource": kind.in_commands, "namespace": namespace, "name": name}
