"""`read_record`: reads the record of one process, its step lines straight into columns.

Nearly all lines of a long record are steps, and those of one process look alike: the same fields in the same order. A
pattern made from one of them finds the values of all others. They are packed a column at a time, and no event is made
of them. The pattern accepts fewer lines than `EventReader`, and none with another meaning. A line that it does not
accept is read as an event. If anything in a piece of the file is odd, that piece is read line by line.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from sys import intern
from typing import Any, cast

from chaoskit.analysis.record.column import Column
from chaoskit.analysis.record.steps import Steps
from chaoskit.protocol import json_lines
from chaoskit.protocol.events import Event, EventReader, RecordGap, clock_offset
from chaoskit.protocol.stored_files import LONGEST_RECORD, read_stored, why_unread

#: An entry of a record that was read; `Steps` stand for the events of as many steps.
Entry = Event | RecordGap | Steps

#: Bytes that are read at a time, and bytes below which a file is read as events.
PIECE, LEAST = 1 << 20, 1 << 15
_STEP = b'"e":"step"'

# The parts of a pattern, each a group. Those for texts and fingerprints accept too much; what they found is checked
# later.
_WHOLE, _NUMBER = rb"(0|[1-9]\d{0,8}+)", rb"((?:0|[1-9]\d{0,11}+)(?:\.\d{1,20}+)?+(?:e-\d\d)?+)"
_TEXT, _DIGITS = rb'"([^"]*+)"', rb'"(.{32})"'
#: A rank that was killed at a step recorded `halt` last: it counts as long as no step follows.
_IN_ORDER = ("step", "halt")
_DIGITS_ONLY = re.compile(r"[0-9a-f]{32}")


def read_record(path: Path) -> list[Entry]:
    """Read the events of one file. Its first line comes first. `Steps` come before the events of other kinds that lie
    between them, except a `halt`. A damaged line becomes a gap, as in `read_events`."""
    try:
        content = read_stored(path, longest=LONGEST_RECORD)
    except OSError as error:
        return [RecordGap(path.stem, 0, why_unread(error))]
    offset = clock_offset(content)
    if len(content) >= LEAST:
        entries: list[Entry] = []
        for entry in _pieces(content, EventReader(path.stem, offset=offset)):
            # The values that a device computed in a step follow in a line of their own: both are joined as events.
            if isinstance(entry, Event) and entry.kind == "late":
                break
            entries.append(entry)
        else:
            return entries
    return [*EventReader(path.stem, offset=offset).read(content)]


def _pieces(content: bytes, reader: EventReader) -> Iterator[Entry]:
    start, pattern = 0, None
    while start < len(content):
        # The first event says whose record this is: it is read by itself.
        whole = content.rfind(b"\n", start, start + PIECE) + 1 if reader.expected else 0
        end = whole or content.find(b"\n", start) + 1 or len(content)
        pattern = pattern or (_pattern_of(content, start, end) if whole else None)
        found = _entries(content, start, end, pattern, reader.copy()) if pattern is not None else None
        if found is not None:
            entries, reader = found
            yield from entries
        else:
            pattern = None
            yield from reader.read(content[start:end])
        start = end


@dataclass(frozen=True)
class _Pattern:
    """Finds the lines that have these fields, and gives their values by name. Its last group is the whole of any other
    line."""

    names: tuple[tuple[str, str, bytes], ...]
    expression: re.Pattern[bytes]


def _pattern_of(content: bytes, start: int, end: int) -> _Pattern | None:
    """The pattern of lines that look like the last step of a piece; None if there is no step, or an unusual one."""
    at = content.rfind(_STEP, start, end)
    line = content[content.rfind(b"\n", 0, at) + 1 : max(0, content.find(b"\n", at))] if at >= 0 else b""
    for read in json_lines.decode(line):
        record = read.value
        # If encoding gives the same line again, the line has no field twice, and no value that could be written
        # differently.
        if type(record) is dict and json_lines.encode(record) == line + b"\n":
            fields = _fields(record)
            return _compiled(fields) if fields is not None else None
    return None


def _fields(record: dict[str, Any]) -> tuple[tuple[str, str, bytes], ...] | None:
    """The fields of a step in order: the name of the field, the name of the part, and the pattern of the value. None if
    it has other fields."""
    found: list[tuple[str, str, bytes]] = []
    if not record.keys() >= _NEEDED:
        return None
    for name, value in record.items():
        if name == "state" and isinstance(value, dict) and value and all(type(x) is str for x in value.values()):
            kinds = {part: _DIGITS if _DIGITS_ONLY.fullmatch(x) else _TEXT for part, x in value.items()}
            found += [(name, part, kind) for part, kind in kinds.items()]
        elif name in ("losses", "samples") and isinstance(value, list):
            found.append((name, "", _texts_like(value)))
        elif name in _KINDS:
            found.append((name, "", _KINDS[name]))
        elif (name, value) != ("nonfinite", []):
            return None
    return tuple(found)


def _texts_like(value: list[Any]) -> bytes:
    """The pattern of a list about as long as this one. Without a limit, the search in each damaged line would go to the
    end of the piece."""
    return rb"\[([^\]]{0,%d}+)\]" % (1 << (2 * len(json_lines.encode(value))).bit_length())


_NEEDED = {"i", "t", "e", "n"}
_KINDS = {"i": _WHOLE, "n": _WHOLE, "t": _NUMBER, "own": _NUMBER, "rows": _TEXT, "e": rb'"step()"'}


@lru_cache(maxsize=16)
def _compiled(fields: tuple[tuple[str, str, bytes], ...]) -> _Pattern:
    written: dict[str, list[bytes]] = {}
    for name, part, kind in fields:
        written.setdefault(name, []).append((_literal(part) + kind) if part else kind)
    whole = [
        _literal(name) + (rb"\{" + b",".join(kinds) + rb"\}" if name == "state" else kinds[0])
        for name, kinds in written.items()
    ]
    line = rb"\{" + b",".join(whole) + rb'(?:,"nonfinite":\[\])?+\}'
    expression = re.compile(rb"(?:" + line + rb"|([^\n]*+))\n", re.DOTALL)
    return _Pattern(fields, expression)


def _literal(name: str) -> bytes:
    return re.escape(json_lines.encode(name)[:-1]) + b":"


def _entries(
    content: bytes, start: int, end: int, pattern: _Pattern, reader: EventReader
) -> tuple[list[Entry], EventReader] | None:
    """The entries of a piece, and the reader after it. None if the piece must be read line by line: an event is
    missing, a line is damaged, or many lines look different."""
    rows = pattern.expression.findall(content, start, end)
    at_count = pattern.names.index(("i", "", _WHOLE))
    others = [at for at, row in enumerate(rows) if not row[at_count]]
    first, lines = reader.expected, reader.lines
    counts = [int(row[at_count] or first + at) for at, row in enumerate(rows)]
    if 2 * len(others) > len(rows) or counts != [*range(first, first + len(rows))]:
        return None
    entries: list[Entry] = []
    between: list[Entry] = []
    begun = 0
    for at in [*others, len(rows)]:
        event: Entry | None = None
        if at < len(rows):
            reader.lines, reader.expected = lines + at, first + at
            found = [*reader.read(rows[at][-1] + b"\n")]
            if len(found) != 1 or reader.expected != first + at + 1:
                return None
            event = found[0]
        if isinstance(event, Event) and event.kind not in _IN_ORDER:
            between.append(event)
            continue
        if taken := [row for row in rows[begun:at] if row[at_count]]:
            steps = _steps(pattern, taken, reader.offset)
            if steps is None:
                return None
            entries.append(steps)
        entries += [*between, event] if event is not None else between
        between, begun = [], at
    reader.lines, reader.expected = lines + len(rows), first + len(rows)
    return entries, reader


def _steps(pattern: _Pattern, rows: Sequence[tuple[bytes, ...]], offset: float) -> Steps | None:
    """The steps of these lines; None if a line has another meaning than it seems to have."""
    made = Steps(own=array("d", [-1.0]) * len(rows))
    blank = Column.of([""] * len(rows), blank="")
    texts: dict[str, Sequence[str | None]] = dict.fromkeys(("losses", "samples", "rows"), blank)
    try:
        for (name, part, kind), column in zip(pattern.names, zip(*rows, strict=True), strict=False):
            match name:
                case "n":
                    made.numbers = array("q", map(int, column))
                case "t":
                    made.times = array("d", [float(t) + offset for t in column])
                case "own":
                    made.own = array("d", map(float, column))
                case "rows":
                    texts[name] = Column.of(_texts(column), blank="")
                case "losses" | "samples":
                    own = Column.of_samples(column) if name == "samples" else None
                    texts[name] = own or Column.of(_words(column), blank="")
                case "state":
                    own = Column.of_fingerprints(column) if kind is _DIGITS else Column.of(_texts(column))
                    if own is None:
                        return None
                    made.columns[intern(part)] = own
    except ValueError:
        return None
    made.losses, made.samples, made.rows = (cast("Sequence[str]", texts[name]) for name in texts)
    return made


def _texts(column: Sequence[bytes]) -> list[str]:
    """Decode texts that were between quotes; raises ValueError if they have an escape, or characters that need one."""
    text = b"\n".join(column).decode("ascii")
    found = text.split("\n")
    if len(found) != len(column) or "\\" in text or not "".join(found).isprintable():
        raise ValueError("no plain text")
    return found


def _words(column: Sequence[bytes]) -> list[str]:
    """Turn lists of words, such as '"a","b"', into one text each; raises ValueError if one is no such list."""
    some = [*filter(None, column)]
    if not some:
        return [""] * len(column)
    texts = _texts(some)
    text = "\n".join(texts)
    words = text.replace('","', " ").replace('"', "")
    if '"' + words.replace(" ", '","').replace("\n", '"\n"') + '"' != text:
        raise ValueError("no list of words")
    found = iter(words.split("\n"))
    return [next(found) if told else "" for told in column]
