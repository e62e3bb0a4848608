"""`Piece`: the evidence of a verdict, prepared for display as tables or text of limited length."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.analysis.record.steps import readable

#: Limits: rows of a table, entries of a list, characters of a text, lines of a piece.
ROWS, ENTRIES, LETTERS, LINES = 60, 40, 4000, 60
#: A text up to this length is shown in one line.
LINE = 160


@dataclass(frozen=True)
class Piece:
    """One entry of the evidence: a table with `columns` and `rows`, or `text`, which may be `short` enough for one
    line. `cut` says how much was omitted."""

    name: str
    text: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    cut: str = ""
    short: bool = False


def pieces(evidence: Mapping[str, Any], *, without: Sequence[str] = ()) -> Iterator[Piece]:
    """Yield the entries of the evidence, except empty ones and the names in `without`. Losses are decimals: their exact
    bits are in verdicts.json."""
    for name, value in evidence.items():
        if name in without or value in ({}, [], "", None):
            continue
        yield _table(name, value) if _is_table(value) else _text(name, value)


def _is_table(value: Any) -> bool:
    rows = value if isinstance(value, list) else []
    flat = all(isinstance(row, Mapping) and not any(map(_deep, row.values())) for row in rows)
    return len(rows) > 0 and flat and len({name for row in rows for name in row}) <= 12


def _deep(value: Any) -> bool:
    """Whether a value is too large for a table cell."""
    return isinstance(value, Mapping) or (isinstance(value, list) and (len(value) > 8 or any(map(_deep, value))))


def _table(name: str, rows: list[Mapping[str, Any]]) -> Piece:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    shown = [[_cell(row[column]) if column in row else "" for column in columns] for row in rows[:ROWS]]
    left = len(rows) - ROWS
    return Piece(name, columns=columns, rows=shown, cut=f"{left} more rows" if left > 0 else "")


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    text = readable("–" if value is None else value if isinstance(value, str) else _dumped(value))
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text) - 200} more characters)"


def _text(name: str, value: Any) -> Piece:
    line = _cell(value) if not _deep(value) or isinstance(value, list) else readable(_dumped(bounded(value)))
    if len(line) <= LINE and "\n" not in line:
        return Piece(name, text=line, short=True)
    text = readable(value if isinstance(value, str) else _dumped(bounded(value), indent=1))
    lines = text.splitlines()
    cut = []
    if (more := len(lines) - LINES) > 0:
        lines = lines[:LINES]
        cut.append(f"{more} more lines")
    text = "\n".join(lines)
    if (more := len(text) - 4 * LETTERS) > 0:
        text = text[: 4 * LETTERS]
        cut.append(f"{more} more characters")
    return Piece(name, text=text, cut=", ".join(cut))


def _dumped(value: Any, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str, **options)


def bounded(value: Any) -> Any:
    """Shorten long lists, mappings and texts; each says how much was omitted."""
    if isinstance(value, str):
        more = len(value) - LETTERS
        return f"{value[:LETTERS]}… ({more} more characters)" if more > 0 else value
    if isinstance(value, Mapping):
        kept = {str(name): bounded(one) for name, one in list(value.items())[:ENTRIES]}
        return {**kept, "…": f"{len(value) - ENTRIES} more"} if len(value) > ENTRIES else kept
    if isinstance(value, list | tuple):
        short = [bounded(one) for one in value[:ENTRIES]]
        return [*short, f"… {len(value) - ENTRIES} more"] if len(value) > ENTRIES else short
    return value
