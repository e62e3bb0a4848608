"""The report of `chaoskit sdc-map` in the terminal: outcomes by target, change and step, and the silent corruptions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaoskit.analysis.corruption import injected
from chaoskit.report.machine.json_report import write_text
from chaoskit.report.terminal.table import STYLES
from chaoskit.studies.sdc.changes import CHANGES
from chaoskit.studies.sdc.map import SdcMap, Share
from chaoskit.studies.sdc.plan import TrialResult
from chaoskit.studies.sdc.trace import CLASSES, Class

#: Maximum number of silent corruptions shown.
WORST = 5
_BAD: tuple[Class, ...] = ("silent", "hung", "crashed")


def show(one: SdcMap, console: Console) -> None:
    """Print the tables, the worst silent corruptions, the method and the total."""
    console.print(table("target", [(text(place), shares) for place, shares in one.by_place().items()]))
    console.print()
    console.print(table("change", list(one.by_change().items())))
    console.print()
    console.print(table("injected in", [(f"step {step}", shares) for step, shares in one.by_step().items()]))
    console.print()
    console.print(cells(one))
    worst = sorted((r for r in one.results if r.outcome.becomes == "silent"), key=lambda r: -r.outcome.worst)
    if worst:
        console.print()
        console.print(Text("the worst silent corruptions:", style="bold"))
        for result in worst[:WORST]:
            console.print(Text(f"  {sentence(result)}"), soft_wrap=True)
    console.print()
    for line in measured(one):
        console.print(Text(line), soft_wrap=True)
    console.print()
    console.print(Text(total(one), style="bold"), soft_wrap=True)


def text(place: str) -> str:
    """Return the name of a target without default parts."""
    return (
        place.replace(":*", "").removesuffix(":1") if place.startswith("collective") else place.replace(":*", "")
    )


def table(head: str, rows: Iterable[tuple[str, Mapping[Class, Share]]]) -> Table:
    """Make a table: one row for each group, with its size and the share and interval of each outcome."""
    made = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    made.add_column(head, overflow="fold")
    made.add_column("n", justify="right")
    shown = [(name, shares) for name, shares in rows if next(iter(shares.values())).of]
    classes = [name for name in CLASSES if name not in ("hung",) or any(s[name].hits for _, s in shown)]
    for name in classes:
        made.add_column(CLASSES[name].replace(" (bitwise)", "\n(bitwise)"), justify="right", vertical="bottom")
    for label, shares in shown:
        cells = [
            Text(percent(shares[name]), style=STYLES["fail"] if name in _BAD and shares[name].hits else "")
            for name in classes
        ]
        made.add_row(label, str(shares["silent"].of), *cells)
    return made


def cells(one: SdcMap) -> Table:
    """Make the table of targets and changes: silent corruptions / all corruptions."""
    made = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    made.add_column("silent / all", overflow="fold")
    for change in CHANGES:
        made.add_column(change.replace(" ", "\n"), justify="right", vertical="bottom")
    for place in one.places:
        silent = [one.cell(place, change)["silent"] for change in CHANGES]
        if any(share.of for share in silent):
            made.add_row(
                text(place),
                *(
                    Text(f"{s.hits}/{s.of}" if s.of else "-", style=STYLES["fail"] if s.hits else "")
                    for s in silent
                ),
            )
    return made


def percent(share: Share) -> str:
    """'27% 17-41': a share and its interval."""
    low, high = share.interval
    return f"{100 * share.value:.0f}% {100 * low:.0f}-{100 * high:.0f}"


def sentence(one: TrialResult) -> str:
    """'step 26, rank 1: exponent high in head.weight[3, 7], 0.01 -> 3.4e+36: a loss differed by 1.2 (relative)'."""
    injection, effect = one.injection, one.effect
    before, after = effect.get("before") or ["?"], effect.get("after") or ["?"]
    numbers = f"{injected.show(before[0], digits=3)} -> {injected.show(after[0], digits=3)}"
    where = f"{text(str(injection.cell.place))} ({effect.get('where', '?')})"
    at = f"step {injection.window.struck}, rank {injection.rank}"
    return f"{at}: {injection.cell.change} in {where}, {numbers}: {one.outcome.how}"


def measured(one: SdcMap) -> list[str]:
    """Say how the figures were measured."""
    alone = len(one.results) - one.shared
    lines = [
        f"{len(one.results)} corruptions in {one.launches} launches, each watched for {one.window} steps; "
        f"intervals: 95% (Wilson); gone: the state is bitwise equal to the reference again; "
        f"faded: no loss differed by more than {one.tolerance:g} (relative); silent: a loss did"
    ]
    if one.apart:
        lines.append(f"each corruption ran in its own launch, because {one.apart}")
    elif one.shared:
        lines.append(
            f"{alone} were the first in their launch; the other {one.shared} began in a restored state, "
            "which was bitwise equal to the reference on every rank in the step before; "
            f"{one.controls} controls were bitwise equal, "
            f"and {one.repeated} corruptions, repeated in their own launches, had bitwise the same outcome"
        )
    lines.append(
        f"seed {one.seed}: the first {one.whole} corruptions of the sample were all tested"
        + (f"; {len(one.refused)} changed no number and do not count" if one.refused else "")
    )
    lines += [f"{text(place)} was not tested further: {why}" for place, why in one.closed.items()]
    return [*lines, f"map stored in {one.run}"]


def total(one: SdcMap) -> str:
    """'312 corruptions in 298 s: 81 detected, 4 crashed, ...'."""
    counts = ((one.count(name).hits, word) for name, word in CLASSES.items())
    outcomes = ", ".join(f"{count} {word}" for count, word in counts if count)
    return f"{len(one.results)} corruptions in {one.seconds:.0f} s: {outcomes}"


def write(one: SdcMap, target: str) -> None:
    """Write the map as JSON to the file `target`, or to standard output for `-`."""
    write_text(json.dumps(one.to_json(), indent=2) + "\n", target)
