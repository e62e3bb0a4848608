"""`Row`: the table of alignment for a page: by life and ranks, the step of the reference that each part matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.report.lanes import spans
from chaoskit.report.terminal import columns_of, is_due


@dataclass(frozen=True)
class Cell:
    """What a component matches: text as in `Alignment.row`; `wrong` where that is not the step which was due."""

    text: str
    wrong: bool = False


@dataclass(frozen=True)
class Row:
    """Of one life: the ranks that are alike, the position that was due, and a cell for each column."""

    incarnation: int
    ranks: str
    due: int | None
    cells: Sequence[Cell]

    @property
    def wrong(self) -> bool:
        """Whether any cell is."""
        return any(cell.wrong for cell in self.cells)


def table(told: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[Row]]:
    """The columns, and the rows of what `Case.table` tells."""
    columns = columns_of(told)
    alike: dict[tuple[Any, ...], list[int]] = {}
    for row in told:
        due = row.get("expected")
        cells = tuple(_cell(row["cells"].get(name), due) for name in columns)
        alike.setdefault((row["incarnation"], due, cells), []).append(row["rank"])
    return columns, [Row(inc, spans(ranks), due, cells) for (inc, due, cells), ranks in alike.items()]


def _cell(text: object, due: int | None) -> Cell:
    if text is None:
        return Cell("–")
    return Cell(str(text), wrong=not is_due(text, due))
