"""What windows save: the battery on one job of 60, 600 and 6,000 steps, in windows and whole, beside the yardstick.

    python benchmarks/windows.py
    python benchmarks/windows.py --sizes 60 600 -k rank

The job grows by epochs: 60 steps are three of them. For each size, with an empty store: `chaoskit run -k test_control`,
which makes the uninterrupted runs (the *controls*) and the run that begins late, and then the battery with that store,
as a user would type it, and with `--whole`. Whole batteries are run up to `--whole` steps. The yardstick,
`handwritten.py`, is measured at 60 steps. For a longer job its time is extrapolated: each of its experiments and its
two uninterrupted runs train the further steps once, and the job alone is measured for how long that takes.

A battery runs one experiment of 16 whole as well, to check its windows (an *audit*), which takes as long as the job
itself. What windows cost apart from that is shown by the seconds of the experiments that ended with their windows.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from handwritten import COMMAND, EPOCH, EXPERIMENTS, ROOT, STEPS
from suite import CHAOSKIT, YARDSTICK, Call, timed
from table import Figure, parser, show

#: By number of steps: how much faster than the yardstick the battery should be.
TARGETS = {60: ">= 3.3", 600: ">= 10", 6000: ">= 30"}
GROWTH = "<= 1.2"


@dataclass(frozen=True)
class Size:
    """What one size took: seconds of the job alone, of the controls, and of the battery behind them in windows and
    whole (None: not made), with the names whose verdicts differ. `watched` has the steps of each experiment that ended
    with its window, `each` its seconds; the others were whole, or trained to the end."""

    steps: int
    alone: float
    controls: float
    windows: float
    whole: float | None
    differ: tuple[str, ...] = ()
    watched: tuple[int, ...] = ()
    each: tuple[float, ...] = ()


def job_of(steps: int) -> list[str]:
    """The job with as many steps."""
    return [*COMMAND, "--epochs", str(steps // EPOCH)]


def alone(steps: int) -> float:
    """Seconds that the job takes by itself."""
    with tempfile.TemporaryDirectory(prefix="windows-") as out:
        begun = time.perf_counter()
        words = [word.replace("{out}", out) for word in job_of(steps)]
        subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
        return time.perf_counter() - begun


def measure(steps: int, names: list[str], *, whole: bool) -> Size:
    """The battery on the job with so many steps."""
    rest = [name for name in names if name != "test_control"]
    with tempfile.TemporaryDirectory(prefix="windows-") as scratch:

        def battery(which: str, chosen: list[str], *options: str) -> tuple[Call, list[tuple[int, float]]]:
            answer = Path(scratch, f"{which}.json")
            words = ["--dir", f"{scratch}/store", "--json", str(answer), "-k", " or ".join(chosen), *options]
            call = timed([*CHAOSKIT, *words, "--", *job_of(steps)], answer)
            if missing := sorted({*chosen} - {*call.verdicts}):
                raise SystemExit(f"no verdict of {', '.join(missing)}: {which}, {steps} steps")
            print(f"{which}, {steps} steps: {call.seconds:.1f} s", file=sys.stderr)
            found = [
                (steps["last"] - steps["first"] + 1, each["seconds"])
                for each in json.loads(answer.read_text())["experiments"]
                for steps in each["watched"]
                if steps["last"] < steps["of"]
            ]
            return call, sorted(found)

        controls, _ = battery("controls", ["test_control"])
        windows, watched = battery("windows", rest)
        plain = battery("whole", rest, "--whole")[0] if whole else None
        said = plain.verdicts if plain is not None else windows.verdicts
        differ = tuple(sorted(name for name in said if said[name] != windows.verdicts.get(name)))
        seconds = plain.seconds if plain is not None else None
        return Size(
            steps,
            alone(steps),
            controls.seconds,
            windows.seconds,
            seconds,
            differ,
            tuple(count for count, _ in watched),
            tuple(took for _, took in watched),
        )


def by_hand(substring: str) -> float:
    """Seconds that the yardstick takes at 60 steps."""
    with tempfile.TemporaryDirectory(prefix="windows-") as scratch:
        answer = Path(scratch, "answer.json")
        return timed([*YARDSTICK, "--json", str(answer), "-k", substring], answer).seconds


def figures(sizes: list[Size], yardstick: float, short: float, experiments: int) -> list[Figure]:
    """The table; `short` is how long the job of 60 steps takes by itself."""
    found = []
    for size in sizes:
        hand = yardstick + (experiments + 2) * max(size.alone - short, 0.0)
        name = f"{size.steps:,} steps"
        found.append(Figure(f"{name}: the job alone", size.alone, "s"))
        found.append(Figure(f"{name}: controls", size.controls, "s"))
        found.append(Figure(f"{name}: battery", size.windows, "s"))
        if size.whole is not None:
            found.append(Figure(f"{name}: battery, --whole", size.whole, "s"))
        if size.watched:
            middle = size.watched[len(size.watched) // 2]
            found.append(Figure(f"{name}: steps watched, median of {len(size.watched)}", float(middle), "steps"))
            found.append(Figure(f"{name}: an experiment in a window, median", median(size.each), "s"))
        how = "" if size.steps == STEPS else ", extrapolated"
        found.append(Figure(f"{name}: by hand{how}", hand, "s"))
        total = size.controls + size.windows
        found.append(
            Figure(f"{name}: by hand / battery with controls", hand / total, "times", TARGETS.get(size.steps, ""))
        )
        found.append(Figure(f"{name}: by hand / battery, controls cached", hand / size.windows, "times"))
    by_steps = {size.steps: size for size in sizes}
    if 600 in by_steps and 6000 in by_steps:
        long, short_one = by_steps[6000], by_steps[600]
        growth = long.windows / short_one.windows
        found.append(Figure("battery, 6,000 / 600 steps, controls cached", growth, "times", GROWTH))
        if long.each and short_one.each:
            growth = median(long.each) / median(short_one.each)
            found.append(Figure("an experiment in a window, 6,000 / 600 steps", growth, "times", GROWTH))
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
    show(f"{len(names)} experiments", figures(sizes, yardstick, alone(STEPS), len(names)), json_file=told.json)
    different = [f"{size.steps} steps: {', '.join(size.differ)}" for size in sizes if size.differ]
    print("the verdicts are the same" if not different else "\n".join(["the verdicts differ:", *different]))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
