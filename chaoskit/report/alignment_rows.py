"""`AlignmentRow`: the alignment table of a page: for each lifetime and group of ranks, the reference step that each
component matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.report.svg.lanes import spans
from chaoskit.report.terminal.table import columns_of, is_due


@dataclass(frozen=True)
class Cell:
    """The step that a component matches: text as in `Alignment.row`; `wrong` if it is not the expected step."""

    text: str
    wrong: bool = False


@dataclass(frozen=True)
class AlignmentRow:
    """One row: a lifetime, ranks with equal cells, the expected position (`due`), and a cell for each column."""

    incarnation: int
    ranks: str
    due: int | None
    cells: Sequence[Cell]

    @property
    def wrong(self) -> bool:
        """Whether any cell is wrong."""
        return any(cell.wrong for cell in self.cells)


def table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[AlignmentRow]]:
    """Return the columns and the rows for the rows of `Case.table`."""
    columns = columns_of(rows)
    alike: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        due = row.get("expected")
        cells = tuple(_cell(row["cells"].get(name), due) for name in columns)
        alike.setdefault((row["incarnation"], due, cells), []).append(row["rank"])
    return columns, [AlignmentRow(inc, spans(ranks), due, cells) for (inc, due, cells), ranks in alike.items()]


def _cell(text: object, due: int | None) -> Cell:
    if text is None:
        return Cell("–")
    return Cell(str(text), wrong=not is_due(text, due))
