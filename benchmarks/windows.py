"""What windows save: the battery on one job of 60, 600 and 6,000 steps, in windows and whole, beside the yardstick.

    python benchmarks/windows.py
    python benchmarks/windows.py --sizes 60 600 -k rank

For each size, with an empty store: `chaoskit run -k test_control`, which makes the uninterrupted runs (the *controls*),
and then the battery with that store, in windows (`--windows`) and whole. Whole runs are made up to `--whole` steps. The
yardstick, `handwritten.py`, is measured at 60 steps. For a longer job its time is extrapolated: each of its experiments
and its two uninterrupted runs train the further steps once, at the pace of the controls here.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from handwritten import COMMAND, EXPERIMENTS, STEPS
from suite import CHAOSKIT, YARDSTICK, Call, timed
from table import Figure, parser, show

#: By number of steps: how much faster than the yardstick the battery should be.
TARGETS = {60: ">= 3.3", 600: ">= 10", 6000: ">= 30"}
#: How often the job is trained to make `test_control` and its reference.
CONTROL_RUNS = 3
GROWTH = "<= 1.2"


@dataclass(frozen=True)
class Size:
    """What one size took: seconds of the controls, and of the battery behind them in windows and whole (None: not
    made), with the names whose verdicts differ and how many steps each experiment in a window watched."""

    steps: int
    controls: float
    windows: float
    whole: float | None
    differ: tuple[str, ...] = ()
    watched: tuple[int, ...] = ()


def job_of(steps: int) -> list[str]:
    """The job with as many steps: three epochs over so many samples."""
    return [*COMMAND, "--samples", str(617 * steps // STEPS)]


def measure(steps: int, names: list[str], *, whole: bool) -> Size:
    """The battery on the job with so many steps."""
    rest = [name for name in names if name != "test_control"]
    with tempfile.TemporaryDirectory(prefix="windows-") as scratch:

        def battery(which: str, chosen: list[str], *options: str) -> tuple[Call, list[int]]:
            answer = Path(scratch, f"{which}.json")
            words = ["--dir", f"{scratch}/store", "--json", str(answer), "-k", " or ".join(chosen), *options]
            call = timed([*CHAOSKIT, *words, "--", *job_of(steps)], answer)
            watched = [steps for each in json.loads(answer.read_text())["experiments"] for steps in each["watched"]]
            return call, [steps["last"] - steps["first"] + 1 for steps in watched]

        controls, _ = battery("controls", ["test_control"])
        windows, watched = battery("windows", rest, "--windows")
        plain = battery("whole", rest)[0] if whole else None
        said = plain.verdicts if plain is not None else windows.verdicts
        differ = tuple(sorted(name for name in said if said[name] != windows.verdicts.get(name)))
        seconds = plain.seconds if plain is not None else None
        return Size(steps, controls.seconds, windows.seconds, seconds, differ, tuple(sorted(watched)))


def by_hand(substring: str) -> float:
    """Seconds that the yardstick takes at 60 steps."""
    with tempfile.TemporaryDirectory(prefix="windows-") as scratch:
        answer = Path(scratch, "answer.json")
        return timed([*YARDSTICK, "--json", str(answer), "-k", substring], answer).seconds


def figures(sizes: list[Size], yardstick: float, experiments: int) -> list[Figure]:
    """The table."""
    found = []
    first = sizes[0]
    for size in sizes:
        pace = (size.controls - first.controls) / (CONTROL_RUNS * max(1, size.steps - first.steps))
        hand = yardstick + (experiments + 2) * (size.steps - STEPS) * max(pace, 0.0)
        total = size.controls + size.windows
        name = f"{size.steps:,} steps"
        found.append(Figure(f"{name}: controls", size.controls, "s"))
        found.append(Figure(f"{name}: battery in windows", size.windows, "s"))
        if size.whole is not None:
            found.append(Figure(f"{name}: battery whole", size.whole, "s"))
        if size.watched:
            middle = size.watched[len(size.watched) // 2]
            found.append(Figure(f"{name}: steps watched, median", float(middle), "steps"))
        how = "" if size.steps == STEPS else ", extrapolated"
        found.append(Figure(f"{name}: by hand{how}", hand, "s"))
        found.append(Figure(f"{name}: by hand / in windows", hand / total, "times", TARGETS.get(size.steps, "")))
    by_steps = {size.steps: size for size in sizes}
    if 600 in by_steps and 6000 in by_steps:
        growth = by_steps[6000].windows / by_steps[600].windows
        found.append(
            Figure("battery in windows, 6,000 / 600 steps, without the controls", growth, "times", GROWTH)
        )
    return found


def main() -> int:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--sizes", type=int, nargs="+", default=sorted(TARGETS), help="numbers of steps")
    arguments.add_argument(
        "--whole", type=int, default=600, help="largest size whose battery is also run whole (600)"
    )
    arguments.add_argument("-k", metavar="SUBSTRING", default="", help="only experiments whose names contain it")
    told = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is cleared away
    names = [name for name in EXPERIMENTS if told.k in name]
    yardstick = by_hand(told.k)
    sizes = [measure(steps, names, whole=steps <= told.whole) for steps in told.sizes]
    show(f"{len(names)} experiments, in windows", figures(sizes, yardstick, len(names)), json_file=told.json)
    different = [f"{size.steps} steps: {', '.join(size.differ)}" for size in sizes if size.differ]
    print("the verdicts are the same" if not different else "\n".join(["the verdicts differ:", *different]))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
