"""The table that every benchmark prints, with the target beside each figure, and its JSON form."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One measured figure. `target` is a comparison such as '<= 1.05', or empty where there is none."""

    name: str
    value: float
    unit: str
    target: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if not self.target:
            return None
        sign, bound = self.target.split()
        return self.value <= float(bound) if sign == "<=" else self.value >= float(bound)


def parser(description: str) -> argparse.ArgumentParser:
    """The command line that benchmarks share."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return made


def show(title: str, figures: list[Figure], *, json_file: Path | None = None) -> None:
    """Print the table, and write the JSON if asked to."""
    table = Table(title=title, title_justify="left")
    for heading in ("figure", "value", "unit", "target", ""):
        table.add_column(heading, justify="right" if heading == "value" else "left")
    for figure in figures:
        mark = {True: "met", False: "MISSED", None: ""}[figure.met]
        table.add_row(figure.name, f"{figure.value:.3g}", figure.unit, figure.target, mark)
    Console(width=120).print(table)
    if json_file is not None:
        json_file.write_text(json.dumps({"figures": [asdict(figure) for figure in figures]}, indent=1) + "\n")
