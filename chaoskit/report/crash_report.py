"""What crashes do to a job, for people: how many states came to what, and for each kind of failure a short story."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaoskit.exploration import CLASSES, Exploration, Story
from chaoskit.report.json_report import write_text
from chaoskit.report.terminal import STYLES

#: What a profile of the model stands for.
PROFILES = {
    "kill": "kill: the processes die",
    "ext4": "power cut, ext4",
    "posix": "power cut, POSIX at its weakest",
}
#: So many stories are told.
STORIES = 6


def show(one: Exploration, console: Console) -> None:
    """The table, the stories, the total."""
    console.print(outcomes_table(one))
    stories = one.stories()
    for story in stories[:STORIES]:
        console.print()
        _tell(story, console)
    if (left := len(stories) - STORIES) > 0:
        more = f"{left} more kind{'' if left == 1 else 's'}"
        console.print(Text(f"\n  and {more}: --json tells them all"), soft_wrap=True)
    console.print()
    console.print(Text(covered(one)), soft_wrap=True)
    console.print(Text(f"run kept in {one.run.dir}"), soft_wrap=True)
    console.print()
    console.print(Text(total(one), style="bold"), soft_wrap=True)


def covered(one: Exploration) -> str:
    """How many of the states were judged, and how."""
    judged, visited, distinct = len(one.judged), one.visited, one.found.distinct
    said = f"{distinct} different states; the job was shown {visited} of them"
    if judged > visited:
        said += f", and cannot tell {judged - visited} others from these: they differ in nothing that it looked at"
        said += (
            f" ({one.tried} of such were shown to it all the same, and {one.tried - one.unlike} came to the same)"
        )
    if judged < distinct:
        said += f"; {distinct - judged} were not judged: --visits all does"
    return said if one.found.examined == one.found.planned else f"{one.found.sampling}; {said}"


def outcomes_table(one: Exploration) -> Table:
    """One row for each profile: in how many of its states the job came to what."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("crash", overflow="fold")
    for name in (
        "states",
        "resumed\nexactly",
        "lost\nwork",
        "crashed until a\nperson cleans up",
        "silently\nwrong",
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


def _tell(story: Story, console: Console) -> None:
    head = Text("FAIL", style=STYLES["fail"])
    states = f"{story.count} state{'' if story.count == 1 else 's'}"
    head.append(f" {CLASSES[story.becomes]} ({states}): {', '.join(story.codes)}", style="bold")
    console.print(head, soft_wrap=True)
    console.print(Text(f"  {story}"), soft_wrap=True)


def total(one: Exploration) -> str:
    """'2890 states that a crash in the save after step 20 could leave, judged in 57.3 s: 2880 resumed exactly, ...'."""
    counts = ((one.count(becomes), text) for becomes, text in CLASSES.items())
    told = ", ".join(f"{count} {text}" for count, text in counts if count) or "nothing was visited"
    states = f"{len(one.judged)} states that a crash in the save after step {one.position} could leave"
    return f"{states}, judged in {one.seconds:.1f} s: {told}"


def write(one: Exploration, target: str) -> None:
    """The same as JSON to the file `target`, or to standard output for `-`."""
    write_text(json.dumps(one.to_json(), indent=2) + "\n", target)
