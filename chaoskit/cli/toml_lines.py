"""`line_of`: in which line of a TOML file a key is. The parser of Python tells no lines."""

from __future__ import annotations

import re

#: One part of a key: bare or quoted. A key may have several, with dots between them.
_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_KEY = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_KEY})\s*\]\]?")
_SET = re.compile(rf"\s*({_KEY})\s*=")
_MULTI_LINE = ('"""', "'''")

Path = tuple[str | int, ...]


def line_of(text: str, *path: str | int) -> int | None:
    """Return the number of the line, from 1, that gives the value at `path`: keys, and the number of an entry where a
    table is one of several (`[[...]]`). Where that is inside an inline value, it is the line of the key around it.
    None if nothing of it is found."""
    lines = _lines(text)
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return None


def _lines(text: str) -> dict[Path, int]:
    """The first line of each table and of each key. Text inside multi-line strings is no key."""
    found: dict[Path, int] = {}
    counted: dict[Path, int] = {}
    table: Path = ()
    inside = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if inside:
            inside = "" if line.count(inside) % 2 else inside
            continue
        if (header := _HEADER.match(line)) is not None:
            table = _parts(header[2])
            if header[1] == "[[":
                counted[table] = counted.get(table, -1) + 1
                found.setdefault(table, number)
                table = (*table, counted[table])
            else:
                # A table below an entry of several belongs to the last of them.
                for end in range(len(table), 0, -1):
                    if table[:end] in counted:
                        table = (*table[:end], counted[table[:end]], *table[end:])
                        break
            for end in range(1, len(table) + 1):
                found.setdefault(table[:end], number)
        elif (key := _SET.match(line)) is not None:
            full = (*table, *_parts(key[1]))
            for end in range(len(table) + 1, len(full) + 1):
                found.setdefault(full[:end], number)
        inside = next((mark for mark in _MULTI_LINE if line.count(mark) % 2), "")
    return found


def _parts(key: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, key))
