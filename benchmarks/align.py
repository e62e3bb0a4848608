"""What alignment costs: a synthetic run of 256 ranks and 5,000 steps, killed half-way, beside its reference.

Each size is measured in a process of its own, the best of three: from the record in memory to the verdicts on the
state, on the data and on every step.
The slopes are exponents of a power law (1.0: twice the ranks, twice the time), by least squares over the sizes.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from array import array
from collections.abc import Sequence
from sys import intern

from table import Figure, parser, show

from chaoskit import checks
from chaoskit.analysis.record.harness_record import FaultRecord, LaunchRecord
from chaoskit.analysis.record.history import History, Incarnation
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.analysis.record.steps import Steps
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case
from chaoskit.protocol.fingerprint import of_bytes

RANKS, STEPS = 256, 5000
#: As in data parallelism: replicas share their fingerprints; random numbers, batches and losses are each rank's own.
SHARED = ("model", "buffers", "optimizer", "options", "lr", "scaler", "ema")
LOCAL = ("rng.torch", "rng.numpy", "batch")


def column(name: str, rank: int, first: int, last: int) -> list[str]:
    """The fingerprints at positions from `first` to `last` (exclusive)."""
    own = rank if name in LOCAL else ""
    constant = name in ("options", "lr")
    return [intern(of_bytes(f"{name} {own} {0 if constant else at}".encode())) for at in range(first, last)]


def life(rank: int, base: int, steps: int, *, start: float, ended: bool) -> RankLifetime:
    """The steps of one rank from position `base` to position `steps`, one a second."""
    count = steps - base
    kept = Steps(
        numbers=array("q", range(1, count + 1)),
        times=array("d", (start + i for i in range(1, count + 1))),
        losses=[intern((1.0 / (rank + step)).hex()) for step in range(base + 1, steps + 1)],
        samples=[""] * count,
        rows=[""] * count,
        own=array("d", [-1.0]) * count,
        columns={name: list(column(name, rank, base, steps)) for name in (*SHARED, *LOCAL)},
    )
    return RankLifetime(rank, rank, start, kept, end=start + count + 1 if ended else None)


def control(ranks: int, steps: int) -> History:
    """An uninterrupted run."""
    lives = {rank: life(rank, 0, steps, start=0.0, ended=True) for rank in range(ranks)}
    return History(
        [Incarnation(0, 0, 0, ranks, lives)], [LaunchRecord(0, 0.0, steps + 2.0, 0, "itself")], end="finished"
    )


def killed(ranks: int, steps: int) -> History:
    """A run that is killed half-way and goes on from a tenth before."""
    half, base = steps // 2, steps // 2 - steps // 10
    again = float(half + 10)
    first = {rank: life(rank, 0, half, start=0.0, ended=False) for rank in range(ranks)}
    second = {rank: life(rank, base, steps, start=again, ended=True) for rank in range(ranks)}
    return History(
        [Incarnation(0, 0, 0, ranks, first), Incarnation(1, 1, 0, ranks, second)],
        [LaunchRecord(0, 0.0, again - 1, 1, "itself"), LaunchRecord(1, again - 0.5, again + steps, 0, "itself")],
        [FaultRecord(0, {"text": "kill"}, half + 0.5, half + 0.5, half + 0.6)],
        end="finished",
    )


def measure(ranks: int, steps: int) -> dict[str, float]:
    """Seconds from the record to the verdicts, and the peak of the whole process in GiB."""
    controls, run = (control(ranks, steps), control(ranks, steps)), killed(ranks, steps)
    fastest = math.inf
    for _ in range(3):
        begun = time.perf_counter()
        case = Case(run, Reference(controls))
        verdicts = [
            check(case) for check in (checks.state_restored(), checks.same_data(), checks.matches_reference())
        ]
        fastest = min(fastest, time.perf_counter() - begun)
        assert all(verdict.outcome == "pass" for verdict in verdicts), verdicts
    return {"seconds": fastest, "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The exponent of the power law that fits best."""
    xs, ys = [math.log(size) for size in sizes], [math.log(value) for value in values]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def main() -> None:
    """All sizes, and the table."""
    made = parser(__doc__ or "")
    made.add_argument("--one", type=int, nargs=2, metavar=("RANKS", "STEPS"), help="measure one size, print JSON")
    made.add_argument("--ranks", type=int, default=RANKS, help=f"of the largest run ({RANKS})")
    made.add_argument("--steps", type=int, default=STEPS, help=f"of the largest run ({STEPS})")
    args = made.parse_args()
    if args.one:
        print(json.dumps(measure(*args.one)))
        return
    ranks, steps = args.ranks, args.steps
    sizes = [(ranks, steps), (ranks // 2, steps), (ranks // 4, steps), (ranks, steps // 2), (ranks, steps // 4)]
    found = {}
    for size in sizes:
        words = [sys.executable, __file__, "--one", *map(str, size)]
        found[size] = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    by_ranks, by_steps = [sizes[i] for i in (2, 1, 0)], [sizes[i] for i in (4, 3, 0)]
    figures = [
        Figure(f"{ranks} ranks x {steps} steps", found[sizes[0]]["seconds"], "s", "<= 20"),
        Figure("peak memory, records and all", found[sizes[0]]["gib"], "GiB", "<= 1"),
        Figure(
            "slope in ranks",
            slope([r for r, _ in by_ranks], [found[s]["seconds"] for s in by_ranks]),
            "",
            "<= 1.15",
        ),
        Figure(
            "slope in steps",
            slope([s for _, s in by_steps], [found[s]["seconds"] for s in by_steps]),
            "",
            "<= 1.15",
        ),
    ]
    show("Alignment", figures, json_file=args.json)


if __name__ == "__main__":
    main()
