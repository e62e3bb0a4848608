"""The report of `chaoskit crash-states` in the terminal: outcomes by crash profile, and each kind of failure."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaoskit.report.machine.json_report import write_text
from chaoskit.report.terminal.table import STYLES
from chaoskit.studies.crash_states.result import CLASSES, Exploration, FailureStory

#: The crash profiles in words.
PROFILES = {
    "kill": "processes killed",
    "ext4": "power cut, ext4",
    "posix": "power cut, weakest POSIX",
}
#: Maximum number of failures shown.
STORIES = 6


def show(one: Exploration, console: Console) -> None:
    """Print the table, the failures and the total."""
    codes, bug = one.resume_bug
    if bug:
        head = Text("FAIL", style=STYLES["fail"])
        head.append(f" a bug of the resume itself: {', '.join(codes)}", style="bold")
        console.print(head, soft_wrap=True)
        rest = "the states below are compared with this resume" if one.judged else "no crash state was judged"
        console.print(Text(f"  {bug}; {rest}"), soft_wrap=True)
        console.print()
    console.print(outcomes_table(one))
    stories = one.stories()
    for story in stories[:STORIES]:
        console.print()
        _show(story, console)
    if (left := len(stories) - STORIES) > 0:
        more = f"{left} more kind{'' if left == 1 else 's'} of failure"
        console.print(Text(f"\n  and {more}: --json lists all of them"), soft_wrap=True)
    console.print()
    console.print(Text(covered(one)), soft_wrap=True)
    console.print(Text(f"run stored in {one.run.dir}"), soft_wrap=True)
    console.print()
    console.print(Text(total(one), style="bold"), soft_wrap=True)


def covered(one: Exploration) -> str:
    """Say how many of the states were judged, and how."""
    judged, tried, distinct = len(one.judged), one.visited, one.found.distinct
    text = f"{distinct} distinct states: {tried} tested by a resume trial"
    if judged > tried:
        text += f", {judged - tried} judged with them because they agree in everything that the job read"
        text += f" (verified with {one.tried} extra trials: {one.tried - one.unlike} had the same result)"
    if judged < distinct:
        text += f"; {distinct - judged} were not judged (use --visits all)"
    return text if one.found.examined == one.found.planned else f"{one.found.sampling}; {text}"


def outcomes_table(one: Exploration) -> Table:
    """Make a table with one row for each profile: the number of its states with each outcome."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("crash", overflow="fold")
    for name in (
        "states",
        "resumed\nexactly",
        "lost\nwork",
        "crashed until\nmanual cleanup",
        "wrong\nstate",
        "hung",
    ):
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    seen = {judged.profile for judged in one.judged}
    rows = [(profile, text) for profile, text in PROFILES.items() if profile in seen]
    for profile, text in rows:
        _row(table, text, [one.count(becomes, profile) for becomes in CLASSES])
    if len(rows) > 1:
        _row(table, "all", [one.count(becomes) for becomes in CLASSES])
    return table


def _row(table: Table, name: str, counts: list[int]) -> None:
    cells = [Text(str(count), style=STYLES["fail"] if at and count else "") for at, count in enumerate(counts)]
    table.add_row(name, str(sum(counts)), *cells)


def _show(story: FailureStory, console: Console) -> None:
    head = Text("FAIL", style=STYLES["fail"])
    states = f"{story.count} state{'' if story.count == 1 else 's'}"
    head.append(f" {CLASSES[story.becomes]} ({states}): {', '.join(story.codes)}", style="bold")
    console.print(head, soft_wrap=True)
    console.print(Text(f"  {story}"), soft_wrap=True)


def total(one: Exploration) -> str:
    """'2890 states that a crash in the save after step 20 could leave, judged in 57.3 s: 2880 resumed exactly, ...'."""
    counts = ((one.count(becomes), text) for becomes, text in CLASSES.items())
    outcomes = ", ".join(f"{count} {text}" for count, text in counts if count) or "no resume trial ran"
    states = f"{len(one.judged)} states that a crash in the save after step {one.position} could leave"
    return f"{states}, judged in {one.seconds:.1f} s: {outcomes}"


def write(one: Exploration, target: str) -> None:
    """Write the result as JSON to the file `target`, or to standard output for `-`."""
    write_text(json.dumps(one.to_json(), indent=2) + "\n", target)
