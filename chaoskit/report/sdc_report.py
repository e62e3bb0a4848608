"""Which corruption matters for a job, for people: shares over places, changes and steps, and what was silent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaoskit import corruption
from chaoskit.report.json_report import write_text
from chaoskit.report.terminal import STYLES
from chaoskit.sdc.changes import CHANGES
from chaoskit.sdc.map import SdcMap, Share
from chaoskit.sdc.plan import Result
from chaoskit.sdc.trace import CLASSES, Class

#: So many of the worst that nobody noticed are told.
WORST = 5
_BAD: tuple[Class, ...] = ("silent", "hung", "crashed")


def show(one: SdcMap, console: Console) -> None:
    """The tables, the worst silent ones, how it was measured, the total."""
    console.print(table("place", [(text(place), shares) for place, shares in one.by_place().items()]))
    console.print()
    console.print(table("change", list(one.by_change().items())))
    console.print()
    console.print(table("struck in", [(f"step {step}", shares) for step, shares in one.by_step().items()]))
    console.print()
    console.print(cells(one))
    worst = sorted((r for r in one.results if r.outcome.becomes == "silent"), key=lambda r: -r.outcome.worst)
    if worst:
        console.print()
        console.print(Text("the worst that nobody noticed:", style="bold"))
        for result in worst[:WORST]:
            console.print(Text(f"  {sentence(result)}"), soft_wrap=True)
    console.print()
    for line in measured(one):
        console.print(Text(line), soft_wrap=True)
    console.print()
    console.print(Text(total(one), style="bold"), soft_wrap=True)


def text(place: str) -> str:
    """A place without what goes without saying."""
    return (
        place.replace(":*", "").removesuffix(":1") if place.startswith("collective") else place.replace(":*", "")
    )


def table(head: str, rows: Iterable[tuple[str, Mapping[Class, Share]]]) -> Table:
    """One row a thing: how many, and the share of each outcome with the interval in which it lies."""
    made = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    made.add_column(head, overflow="fold")
    made.add_column("n", justify="right")
    shown = [(name, shares) for name, shares in rows if next(iter(shares.values())).of]
    classes = [name for name in CLASSES if name not in ("hung",) or any(s[name].hits for _, s in shown)]
    for name in classes:
        made.add_column(CLASSES[name].replace(" to the bit", "\nto the bit"), justify="right", vertical="bottom")
    for label, shares in shown:
        cells = [
            Text(percent(shares[name]), style=STYLES["fail"] if name in _BAD and shares[name].hits else "")
            for name in classes
        ]
        made.add_row(label, str(shares["silent"].of), *cells)
    return made


def cells(one: SdcMap) -> Table:
    """Every place and change: how many of how many changed the loss and were not noticed."""
    made = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    made.add_column("silent, of all", overflow="fold")
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
    """'27% 17-41': the share, and its interval."""
    low, high = share.interval
    return f"{100 * share.value:.0f}% {100 * low:.0f}-{100 * high:.0f}"


def sentence(one: Result) -> str:
    """'step 26, rank 1: exponent high into head.weight[3, 7], 0.01 -> 3.4e+36: a loss was off by 1.2'."""
    injection, effect = one.injection, one.effect
    before, after = effect.get("before") or ["?"], effect.get("after") or ["?"]
    numbers = f"{corruption.show(before[0], digits=3)} became {corruption.show(after[0], digits=3)}"
    where = f"{text(str(injection.cell.place))} ({effect.get('where', '?')})"
    at = f"step {injection.window.struck}, rank {injection.rank}"
    return f"{at}: {injection.cell.change} into {where}, {numbers}: {one.outcome.how}"


def measured(one: SdcMap) -> list[str]:
    """How the figures came about, and what stands behind them."""
    alone = len(one.results) - one.shared
    said = [
        f"{len(one.results)} corruptions in {one.launches} launches, each watched for {one.window} steps; "
        f"95% intervals (Wilson); faded: no loss off by more than {one.tolerance:g}"
    ]
    if one.apart:
        said.append(f"each in a launch of its own, because {one.apart}")
    elif one.shared:
        said.append(
            f"{alone} were the first in their launch; the other {one.shared} began in a state that was put back, "
            f"and in the step before each every component of every rank was exact; {one.controls} controls were exact, "
            f"and {one.repeated} corruptions were repeated in launches of their own and came to the same, to the bit"
        )
    said.append(
        f"seed {one.seed}: the first {one.whole} of the sample were all tried"
        + (f", {len(one.refused)} of the sample changed nothing and do not count" if one.refused else "")
    )
    said += [f"{text(place)} was given up: {why}" for place, why in one.closed.items()]
    return [*said, f"kept in {one.run}"]


def total(one: SdcMap) -> str:
    """'312 corruptions in 298 s: 81 detected, 4 crashed, ...'."""
    counts = ((one.count(name).hits, said) for name, said in CLASSES.items())
    told = ", ".join(f"{count} {said}" for count, said in counts if count)
    return f"{len(one.results)} corruptions tried out in {one.seconds:.0f} s: {told}"


def write(one: SdcMap, target: str) -> None:
    """The map as JSON to the file `target`, or to standard output for `-`."""
    write_text(json.dumps(one.to_json(), indent=2) + "\n", target)
