"""Kills of the harness in the middle of `chaoskit crash-states`: what is left behind after `chaoskit clean`.

No process, no mount and no directory may be.

Each harness is killed by SIGKILL at a random moment, while it records or while it visits.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import remains
from kept_counts import MURDERED, Count, add_keep, kept, totals
from table import Figure, parser, show

from chaoskit import Job
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.environments.machine import processes

REPOSITORY = Path(__file__).resolve().parents[1]
TRAINER = REPOSITORY / "tests" / "trainers" / "publisher.py"
JOB = [sys.executable, str(TRAINER), "--out", "{out}"]
CHAOSKIT = [sys.executable, "-m", "chaoskit"]
#: A harness is killed within so many seconds, and what it leaves has so many to go by itself.
WITHIN, GRACE = 12.0, 10.0


def killed(root: Path, draw: random.Random) -> tuple[dict[str, int], bool]:
    """One harness, killed; what is left once `chaoskit clean` has run, and whether it had begun to visit."""
    harness = subprocess.Popen(
        [*CHAOSKIT, "crash-states", "--dir", str(root), "--visits", "all", "--", *JOB],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    identity = processes.identify(harness.pid)
    assert identity is not None
    time.sleep(draw.uniform(0.5, WITHIN))
    harness.kill()
    harness.wait()
    deadline = time.monotonic() + GRACE
    while remains.left(root, identity)["processes"] and time.monotonic() < deadline:
        time.sleep(0.1)
    visiting = any(root.glob("runs/*/slots/*"))
    subprocess.run([*CHAOSKIT, "clean", "--dir", str(root)], stdout=subprocess.DEVNULL, check=True)
    return {kind: len(those) for kind, those in remains.left(root, identity).items()}, visiting


def main() -> None:
    arguments = parser(__doc__ or "")
    add_keep(arguments)
    arguments.add_argument("--kills", type=int, default=50)
    arguments.add_argument("--seed", type=int, default=0)
    told = arguments.parse_args()
    draw = random.Random(told.seed)
    total = dict.fromkeys(remains.KINDS, 0)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place, "runs")
        Runner(Store(root)).reference(Job.from_command(JOB))  # so that the kills meet records and visits
        visiting, kills = 0, Count(MURDERED, "local, crash-states")
        with kept(told.keep, kills):
            for number in range(told.kills):
                found, visited = killed(root, draw)
                visiting += visited
                kills.times += 1
                kills.wrong += any(found.values())
                total = {kind: total[kind] + count for kind, count in found.items()}
                print(f"kill {number + 1} of {told.kills}: left {found}", file=sys.stderr)
    figures = [Figure(f"left behind: {kind}", count, "", "<= 0") for kind, count in total.items()]
    figures.append(Figure("killed while it visited", visiting, f"of {told.kills}"))
    show(f"The harness of crash states, killed {told.kills} times", figures + totals(told.keep), json_file=told.json)


if __name__ == "__main__":
    main()
