"""`Event`: one line of a run's record, how it is written and how it is read back.

Every process of a run appends to a file of its own, one JSON object a line, each line by a single `write`
to a file opened with O_APPEND: what a rank had written when it was killed stays readable, and at worst the
last line is cut short, which the reader leaves out. Times are seconds of CLOCK_MONOTONIC, which all
processes of one machine share.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Event:
    """What happened (`kind`), when (`t`, seconds), who said so (`source`, the file's stem), and the rest."""

    kind: str
    t: float
    source: str
    data: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The field `name`, or `default`."""
        return self.data.get(name, default)


class EventWriter:
    """Appends events to one file. Not for use by two processes: a fork opens its own."""

    def __init__(self, path: Path | str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._count = 0

    def write(self, kind: str, **data: Any) -> None:
        """Append one event; raises OSError when the disk is full or gone, ValueError for what is not JSON."""
        record = {"i": self._count, "t": time.monotonic(), "e": kind, **data}
        self._count += 1  # first: a signal handler may write in the middle of this
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        written = os.write(self._fd, line)
        if written != len(line):
            raise OSError(28, "No space left on device")

    def close(self) -> None:
        """Close the file; later writes raise."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@dataclass(frozen=True)
class Gap:
    """Events that are known to be missing from `source`: a line that is no JSON, or a jump in the count."""

    source: str
    line: int


def rank_events(run: Path, kind: str) -> Iterator[Event]:
    """What the ranks of a run said of one kind, one rank's file after the other."""
    for path in sorted((run / "events").glob("rank-*.jsonl")):
        for event in read_events(path):
            if isinstance(event, Event) and event.kind == kind:
                yield event


def read_events(path: Path) -> Iterator[Event | Gap]:
    """The events of one file in order. A last line that was cut short is left out; a damaged one is a `Gap`."""
    source = path.stem
    lines = _lines(path.read_bytes())
    expected = 0
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            record = json.loads(line)
            kind, t, count = record.pop("e"), float(record.pop("t")), int(record.pop("i"))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            if number < len(lines):
                yield Gap(source, number)
            continue
        if count != expected:
            yield Gap(source, number)
        expected = count + 1
        yield Event(str(kind), t, source, record)


def _lines(content: bytes) -> Sequence[str | bytes]:
    """As text, which is parsed faster, unless some of it is none: then only the lines that are not are damaged."""
    try:
        return content.decode().split("\n")
    except UnicodeDecodeError:
        return content.split(b"\n")
