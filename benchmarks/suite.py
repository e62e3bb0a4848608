"""chaoskit beside the yardstick: the wall time of the battery, and whether both come to the same verdicts.

    python benchmarks/suite.py
    python benchmarks/suite.py -k twice --rounds 3 --json some.json

Each round does the same experiments to the same job three times: `benchmarks/handwritten.py`; `chaoskit run` as a user
would type it, with an empty store; and the same again with that store, where the reference is there already. They take
turns, so that all of them see the same machine; the figures are medians over the rounds.
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

from handwritten import COMMAND, EXPERIMENTS, ROOT
from table import Figure, parser, show

TARGET = ">= 6"
CHAOSKIT = [sys.executable, "-m", "chaoskit", "run"]
YARDSTICK = [sys.executable, str(Path(__file__).with_name("handwritten.py"))]


@dataclass(frozen=True)
class Call:
    """What one call came to: wall seconds seen from outside, and the verdict of each experiment."""

    seconds: float
    verdicts: dict[str, str]


def timed(command: list[str], answer: Path) -> Call:
    """Call it; it writes its results to `answer`."""
    begun = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, stdout=sys.stderr) as process:
        try:
            process.wait()
        except BaseException:
            process.terminate()  # whichever it is, it clears away what it has started
            raise
    seconds = time.perf_counter() - begun
    if not answer.exists():
        raise SystemExit(f"no results, exit code {process.returncode}: {' '.join(command)}")
    found = json.loads(answer.read_text())["experiments"]
    if isinstance(found, list):  # chaoskit's; the yardstick's are by name
        found = {entry["name"]: entry for entry in found}
    return Call(seconds, {name: entry["verdict"] for name, entry in found.items()})


def round_of(names: list[str], substring: str) -> dict[str, Call]:
    """Each of the three, once."""
    with tempfile.TemporaryDirectory(prefix="suite-") as scratch:
        answers = {which: Path(scratch, f"{which}.json") for which in ("yardstick", "chaoskit", "cached")}

        def chaoskit(which: str) -> Call:
            options = ["--dir", f"{scratch}/store", "--json", str(answers[which]), "-k", " or ".join(names)]
            return timed([*CHAOSKIT, *options, "--", *COMMAND], answers[which])

        by_hand = timed([*YARDSTICK, "--json", str(answers["yardstick"]), "-k", substring], answers["yardstick"])
        return {"yardstick": by_hand, "chaoskit": chaoskit("chaoskit"), "cached": chaoskit("cached")}


def differences(calls: dict[str, Call]) -> list[str]:
    """The experiments that not all of the calls say the same of."""
    names = sorted({name for call in calls.values() for name in call.verdicts})
    said = {name: {which: call.verdicts.get(name, "nothing") for which, call in calls.items()} for name in names}
    return [f"{name}: {verdicts}" for name, verdicts in said.items() if len(set(verdicts.values())) > 1]


def without_counterpart() -> list[str]:
    """The experiments of the battery that the yardstick does not do, or the other way round."""
    listed = subprocess.run([*CHAOSKIT, "--list"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted({line.split()[0] for line in listed.splitlines()} ^ set(EXPERIMENTS))


def figures(rounds: list[dict[str, Call]]) -> list[Figure]:
    """The table: medians over the rounds, of the ratios too."""

    def seconds(which: str) -> float:
        return median(calls[which].seconds for calls in rounds)

    def ratio(which: str) -> float:
        return median(calls["yardstick"].seconds / calls[which].seconds for calls in rounds)

    return [
        Figure("by hand", seconds("yardstick"), "s"),
        Figure("chaoskit, nothing cached", seconds("chaoskit"), "s"),
        Figure("chaoskit, the reference cached", seconds("cached"), "s"),
        Figure("by hand / chaoskit", ratio("chaoskit"), "times", TARGET),
        Figure("by hand / chaoskit, the reference cached", ratio("cached"), "times"),
    ]


def main() -> int:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--rounds", type=int, default=1)
    arguments.add_argument("-k", metavar="SUBSTRING", default="", help="only experiments whose names contain it")
    told = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is cleared away
    alone = without_counterpart()
    names = [name for name in EXPERIMENTS if told.k in name]
    if not names or set(names) & set(alone):
        raise SystemExit(f"nothing to compare: -k {told.k!r} selects {names}; without a counterpart: {alone}")
    rounds = []
    for number in range(told.rounds):
        print(f"round {number + 1} of {told.rounds}", file=sys.stderr)
        rounds.append(round_of(names, told.k))
    show(
        f"{len(names)} experiments, chaoskit and by hand (median of {told.rounds})",
        figures(rounds),
        json_file=told.json,
    )
    if alone:
        print(f"left out, one side has it only: {', '.join(alone)}")
    different = [line for calls in rounds for line in differences(calls)]
    print("the verdicts are the same" if not different else "\n".join(["the verdicts differ:", *different]))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
