"""Partitions at random steps, of random kinds and lengths, on a job of two nodes: each must be survived to the bit,
none may hang, and nothing may be left behind. Every seed is one run, which can be repeated by itself.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from table import Figure, parser, show

from chaoskit import Job, checks, faults
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Run, Runner
from chaoskit.environments.machine import processes, scratch
from chaoskit.faults import Fault
from chaoskit.verdict import Outcome

REPOSITORY = Path(__file__).resolve().parents[1]
TIMEOUT = 3  # seconds that a collective of the job waits
CLAIMS = (
    checks.completed(),
    checks.resumed_from_last_valid(),
    checks.state_restored(),
    checks.same_data(),
    checks.matches_reference(),
    checks.no_orphans(),
    checks.faults_took_effect(),
)


def job(ranks: int) -> Job:
    """Two nodes with so many ranks each."""
    args = ["--out", "{out}", "--timeout", str(TIMEOUT)]
    return Job("tinymodels.train", args, module=True, nnodes=2, nproc_per_node=ranks, cwd=str(REPOSITORY))


def drawn(seed: int, *, first: int, last: int) -> Fault:
    """The partition of a seed: which, for how long, and when (at a step from `first` to `last`)."""
    draw = random.Random(seed)
    seconds = draw.uniform(0.2, 2.5 * TIMEOUT)
    source = draw.randrange(2)
    made = draw.choice(
        [
            faults.partition(groups=((0,), (1,)), seconds=seconds),
            faults.one_way(source=source, target=1 - source, seconds=seconds),
            faults.isolate(node=source, seconds=seconds),
        ]
    )
    return made.at_step(draw.randint(first, last))


def machine() -> dict[str, set[str]]:
    """What runs could leave on this machine under no name of theirs."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout.splitlines()
    names = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout.splitlines()
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {
        "links": {line.split(":")[1].strip() for line in links},
        "names of namespaces": set(names),
        "mounts": set(mounts),
    }


def left_by(run: Run) -> dict[str, int]:
    """What a run has left under its own name: processes, which hold its namespaces, and its directory."""
    commands = [path for path in Path("/proc").glob("[0-9]*/cmdline") if run.id in _read(path)]
    alive = {int(path.parent.name) for path in commands} | {each.pid for each in processes.marked(run.id)}
    return {"processes": len(alive), "directories": int(scratch.path(run.id).exists())}


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def judge(run: Run) -> str:
    """`ridden out` or `recovered`, or what was found wrong."""
    bad = [verdict for verdict in run.judge(*CLAIMS) if verdict.outcome is not Outcome.PASS]
    if bad:
        return f"{run.history.faults[0].name}: " + "; ".join(f"{v.check}: {v.sentence}" for v in bad)
    return "ridden out" if len(run.history.launches) == 1 else "recovered"


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument(
        "--runs", type=int, default=30, help="of each shape: 2 nodes x 1 rank, 2 nodes x 2 ranks"
    )
    arguments.add_argument("--first", type=int, default=0, help="the seed of the first run")
    arguments.add_argument("--ranks", type=int, choices=(1, 2), help="of a node: this shape alone")
    told = arguments.parse_args()
    figures, wrong = [], []
    with tempfile.TemporaryDirectory() as place:
        runner = Runner(Store(place), environment="netns")
        for ranks in (told.ranks,) if told.ranks else (1, 2):
            shape, came = f"2 nodes x {ranks}", Counter[str]()
            reference = runner.reference(job(ranks))
            assert reference.deterministic, f"{shape}: the controls differ"
            before, left = machine(), Counter[str](processes=0, directories=0)
            for seed in range(told.first, told.first + told.runs):
                run = runner.run(job(ranks), drawn(seed, first=reference.saves[0] + 2, last=reference.steps - 1))
                left.update(left_by(run))
                found = judge(run)
                print(f"{shape}, seed {seed}: {found}", file=sys.stderr)
                came[found if found in ("ridden out", "recovered") else "wrong"] += 1
                wrong += [found] * (found not in ("ridden out", "recovered"))
            left.update({name: len(now - before[name]) for name, now in machine().items()})
            figures += [Figure(f"{shape}: {what}", came[what], "runs") for what in ("ridden out", "recovered")]
            figures.append(Figure(f"{shape}: anything else", came["wrong"], "runs", "<= 0"))
            figures += [Figure(f"{shape}: {name} left behind", count, "", "<= 0") for name, count in left.items()]
    show(f"{told.runs} partitions at random of each shape", figures, json_file=told.json)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
