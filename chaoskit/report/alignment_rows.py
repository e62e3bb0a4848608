"""`Row`: the table of alignment for a page: by life and ranks, the step of the reference that each part matches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.life import COMPONENTS
from chaoskit.report.lanes import spans


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
    seen = {name for row in told for name in row["cells"]}
    columns = [name for name in COMPONENTS if name in seen]
    columns += sorted(seen.difference(columns))
    alike: dict[tuple[Any, ...], list[int]] = {}
    for row in told:
        due = row.get("expected")
        cells = tuple(_cell(row["cells"].get(name), due) for name in columns)
        alike.setdefault((row["incarnation"], due, cells), []).append(row["rank"])
    return columns, [Row(inc, spans(ranks), due, cells) for (inc, due, cells), ranks in alike.items()]


def _cell(text: object, due: int | None) -> Cell:
    if text is None:
        return Cell("–")
    return Cell(str(text), wrong=due is not None and str(due) not in re.findall(r"\d+", str(text)))
