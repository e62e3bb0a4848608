"""`Event`: one line of a run's record, its writer and its reader.

Every process of a run appends to a file of its own (`json_lines`), so everything that a rank wrote before it was
killed stays readable. Times are seconds of CLOCK_MONOTONIC, which all processes of one machine share. A process
of another machine measures how far its clock is off, and the reader corrects its times: all events that it returns
have times of the harness's clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaoskit.protocol import json_lines
from chaoskit.protocol.event_schema import add_evidence, check_event
from chaoskit.protocol.json_lines import LineWriter
from chaoskit.protocol.stored_files import LONGEST_RECORD, read_stored, why_unread
from chaoskit.schema import SchemaError, conform, reader

#: Marks the event in which a process of another machine says what has to be added to its times (`offset`, seconds) to
#: get those of the harness's clock, and by how much that may be wrong (`error`).
_CLOCK = b'"e":"clock"'


@dataclass(frozen=True, slots=True)
class Event:
    """What happened (`kind`), when (`t`, seconds), who wrote it (`source`, the file's stem), and the other fields."""

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
    """Appends events to one file. After a fork, the child opens its own."""

    def __init__(self, path: Path | str) -> None:
        self._lines = LineWriter(path)
        self._count = 0

    @property
    def opened(self) -> int:
        """How often the file was opened (see `LineWriter`)."""
        return self._lines.opened

    def write(self, kind: str, **data: Any) -> None:
        """Append one event; raises OSError when the disk is full or gone, ValueError for what is not JSON."""
        record = {"i": self._count, "t": time.monotonic(), "e": kind, **data}
        self._count += 1  # first: a signal handler may write in the middle of this
        self._lines.write(record)

    def close(self) -> None:
        """Close the file; later writes raise."""
        self._lines.close()


@dataclass(frozen=True)
class RecordGap:
    """Events are missing from `source`: a line is not an event (`why` says what is wrong with it), or the count jumps.
    `line` 0: the whole file cannot be read."""

    source: str
    line: int
    why: str = field(default="", compare=False)

    def __str__(self) -> str:
        """'the record of rank-0-0-1-7 is damaged at line 3 (n must be a whole number, not 'x')'."""
        what = f"is damaged at line {self.line}" if self.line else "is missing"
        return f"the record of {self.source} {what}{f' ({self.why})' if self.why else ''}"


def rank_events(run: Path, kind: str) -> Iterator[Event]:
    """The events of one kind that the ranks of a run wrote, one rank's file after the other."""
    for path in sorted((run / "events").glob("rank-*.jsonl")):
        for event in read_events(path):
            if isinstance(event, Event) and event.kind == kind:
                yield event


def read_events(path: Path) -> Iterator[Event | RecordGap]:
    """The events of one file in order. A last line that was cut short is left out; a damaged one is a `RecordGap`, and
    so is a file that cannot be read."""
    try:
        content = read_stored(path, longest=LONGEST_RECORD)
    except OSError as error:
        yield RecordGap(path.stem, 0, why_unread(error))
        return
    yield from EventReader(path.stem, offset=clock_offset(content)).read(content)


class EventReader:
    """Reads the lines of one file: all at once, or the pieces that they make up, in order. `lines` are read so far, the
    next event should have the number `expected`, and `offset` is added to the times."""

    def __init__(self, source: str, *, offset: float = 0.0) -> None:
        self.source, self.offset = source, offset
        self.lines = self.expected = 0
        self._evidence: dict[int, dict[str, Any]] = {}

    def copy(self) -> EventReader:
        """One that has read as much."""
        other = EventReader(self.source, offset=self.offset)
        other.lines, other.expected, other._evidence = self.lines, self.expected, dict(self._evidence)
        return other

    def read(self, content: bytes) -> Iterator[Event | RecordGap]:
        """The events of the next lines. Only at the end of the file may the last one lack its end."""
        for line in json_lines.decode(content):
            record, number = line.value, self.lines + line.number
            try:
                if line.error is not None:
                    raise SchemaError("is no JSON")
                kind, t, count = _head(record)
                check_event(kind, record)
                if kind.startswith("fault."):
                    add_evidence(self._evidence, record)
            except SchemaError as error:
                if line.ended:
                    yield RecordGap(self.source, number, str(error))
                continue
            if count != self.expected:
                yield RecordGap(self.source, number)
            self.expected = count + 1
            yield Event(kind, t + self.offset, self.source, record)
        self.lines += content.count(b"\n")


_text, _number, _count = reader(str), reader(float), reader(int)


def _head(record: Any) -> tuple[str, float, int]:
    """Take from a record its kind, its time and its number."""
    if type(record) is not dict:
        raise SchemaError("is no object")
    try:
        return _text(record.pop("e")), _number(record.pop("t")), _count(record.pop("i"))
    except KeyError as error:
        raise SchemaError(f"lacks {error.args[0]}") from None


def clock_offset(content: bytes) -> float:
    """What has to be added to the times of a file to get the harness's; 0 where its writer said nothing of clocks."""
    at = content.find(_CLOCK)
    if at < 0:
        return 0.0
    line = content[content.rfind(b"\n", 0, at) + 1 :].partition(b"\n")[0]
    try:
        return conform(float, next(json_lines.decode(line)).value["offset"])
    except (StopIteration, ValueError, KeyError, TypeError):
        return 0.0
