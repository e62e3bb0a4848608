"""What judging costs: a synthetic run of 1,000 ranks and 10,000 steps, killed half-way, beside its two controls.

Each size is measured in a process of its own, the best of three: from the records in memory to the verdicts on the
state, on the data and on every step. The peak is that of the whole process, the three records included.
The slopes are exponents of a power law (1.0: twice the ranks, twice the processor time), by least squares over the
sizes.
Reading is measured apart: the files of a few ranks, as the probe writes them, to a history in memory.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from table import Figure, parser, show

from chaoskit import checks
from chaoskit.analysis.record.column import Packing
from chaoskit.analysis.record.harness_record import FaultRecord, LaunchRecord
from chaoskit.analysis.record.history import History, Incarnation
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.analysis.record.steps import Steps
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case
from chaoskit.protocol.events import EventWriter
from chaoskit.protocol.fingerprint import of_bytes

RANKS, STEPS = 1000, 10000
#: Events that are read, and in how many files.
EVENTS, FILES = 100_000, 10
#: As in data parallelism: replicas share their fingerprints; random numbers, batches and losses are each rank's own.
SHARED = ("model", "buffers", "optimizer", "options", "lr", "scaler", "ema")
LOCAL = ("rng.torch", "rng.numpy", "batch")


def fingerprints(name: str, own: str, steps: int) -> list[str]:
    """A component at the positions from 0."""
    if name in ("options", "lr"):
        return [of_bytes(f"{name} {own}".encode())] * steps
    return [of_bytes(f"{name} {own} {at}".encode()) for at in range(steps)]


@lru_cache
def replicated(name: str, steps: int) -> list[str]:
    """What all ranks have."""
    return fingerprints(name, "", steps)


class Rank:
    """What one rank does, in each of the runs alike."""

    def __init__(self, rank: int, steps: int) -> None:
        self.rank, self.steps = rank, steps
        self.columns = {name: replicated(name, steps) for name in SHARED}
        self.columns |= {name: fingerprints(name, f"{rank}", steps) for name in LOCAL}
        self.losses = [(1.0 / (rank + step)).hex() for step in range(1, steps + 1)]

    def life(
        self,
        packing: Packing,
        base: int,
        last: int,
        *,
        start: float,
        ended: bool,
        like: RankLifetime | None = None,
    ) -> RankLifetime:
        """Its steps from position `base` to position `last`, one a second; in memory as a history keeps them."""
        count = last - base
        kept = Steps(
            numbers=array("q", range(1, count + 1)),
            times=array("d", (start + i for i in range(1, count + 1))),
            losses=self.losses[base:last],
            samples=[""] * count,
            rows=[""] * count,
            own=array("d", [-1.0]) * count,
            columns={name: column[base:last] for name, column in self.columns.items()},
        )
        kept.pack(packing, like=like.steps if like is not None else None)
        return RankLifetime(self.rank, self.rank, start, kept, end=start + count + 1 if ended else None)


def control(ranks: int, steps: int) -> History:
    """An uninterrupted run, without its ranks."""
    launch = LaunchRecord(0, 0.0, steps + 2.0, 0, "itself")
    return History([Incarnation(0, 0, 0, ranks)], [launch], end="finished")


def killed(ranks: int, steps: int) -> History:
    """A run that is killed half-way and goes on from a tenth before, without its ranks."""
    half = steps // 2
    again = float(half + 10)
    return History(
        [Incarnation(0, 0, 0, ranks), Incarnation(1, 1, 0, ranks)],
        [LaunchRecord(0, 0.0, again - 1, 1, "itself"), LaunchRecord(1, again - 0.5, again + steps, 0, "itself")],
        [FaultRecord(0, {"text": "kill"}, half + 0.5, half + 0.5, half + 0.6)],
        end="finished",
    )


def records(ranks: int, steps: int) -> tuple[History, History, History]:
    """Two controls and the run, a rank at a time, as they are read."""
    one, two, run = control(ranks, steps), control(ranks, steps), killed(ranks, steps)
    half, base = steps // 2, steps // 2 - steps // 10
    packings = [Packing() for _ in range(3)]
    for rank in range(ranks):
        own = Rank(rank, steps)
        first = own.life(packings[0], 0, steps, start=0.0, ended=True)
        one.incarnations[0].ranks[rank] = first
        two.incarnations[0].ranks[rank] = own.life(packings[1], 0, steps, start=0.0, ended=True, like=first)
        run.incarnations[0].ranks[rank] = own.life(packings[2], 0, half, start=0.0, ended=False, like=first)
        run.incarnations[1].ranks[rank] = own.life(
            packings[2], base, steps, start=half + 10.0, ended=True, like=first
        )
    return one, two, run


def peak() -> float:
    """That of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(ranks: int, steps: int) -> dict[str, float]:
    """Seconds from the records to the verdicts, also of processor time, and the peak of the whole process in GiB."""
    *controls, run = records(ranks, steps)
    fastest = cpu = math.inf
    for _ in range(3):
        begun, before = time.perf_counter(), time.process_time()
        case = Case(run, Reference(tuple(controls)))
        verdicts = [
            check(case) for check in (checks.state_restored(), checks.same_data(), checks.matches_reference())
        ]
        fastest, cpu = min(fastest, time.perf_counter() - begun), min(cpu, time.process_time() - before)
        assert all(verdict.outcome == "pass" for verdict in verdicts), verdicts
    return {"seconds": fastest, "cpu": cpu, "gib": peak()}


def step_events(rank: int, steps: int) -> Iterator[dict[str, object]]:
    """The fields of the steps of a rank, with eight samples each."""
    own = Rank(rank, steps)
    for at in range(steps):
        samples = [of_bytes(f"{rank} {at} {each}".encode())[:16] for each in range(8)]
        yield {
            "n": at + 1, "losses": [own.losses[at]], "state": {name: own.columns[name][at] for name in own.columns},
            "own": 0.003782, "samples": samples, "rows": " ".join(f"{8 * at + each}" for each in range(8)),
        }  # fmt: skip


def read(events: int) -> dict[str, float]:
    """Seconds to read a million of such events, their bytes a rank and step, and the peak in GiB."""
    steps = max(1, events // FILES)
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "events"
        directory.mkdir()
        # In a process of its own: what is made here is not read, and counts for no peak.
        subprocess.run([sys.executable, __file__, "--write", str(directory), str(steps)], check=True)
        size = sum(path.stat().st_size for path in directory.iterdir())
        begun, before = time.perf_counter(), time.process_time()
        history = History.read(Path(scratch))
        seconds, cpu = time.perf_counter() - begun, time.process_time() - before
        assert [len(own.steps) for own in history.incarnations[0].ranks.values()] == [steps] * FILES
    million = 1e6 / (FILES * steps)
    return {"seconds": seconds * million, "cpu": cpu * million, "bytes": size / (FILES * steps), "gib": peak()}


def write(directory: Path, steps: int) -> None:
    """The files of a few ranks."""
    for rank in range(FILES):
        writer = EventWriter(directory / f"rank-{rank}.jsonl")
        writer.write("process.start", role="rank", rank=rank, world=FILES, launch=0, restart=0, pid=rank + 1)
        for fields in step_events(rank, steps):
            writer.write("step", **fields)
        writer.close()


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The exponent of the power law that fits best."""
    xs, ys = [math.log(size) for size in sizes], [math.log(value) for value in values]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def main() -> None:
    """All sizes, and the table."""
    made = parser(__doc__ or "")
    made.add_argument("--one", type=int, nargs=2, metavar=("RANKS", "STEPS"), help="measure one size, print JSON")
    made.add_argument("--read", type=int, metavar="EVENTS", help="measure reading alone, print JSON")
    made.add_argument("--write", nargs=2, metavar=("DIRECTORY", "STEPS"), help="write what --read reads")
    made.add_argument("--ranks", type=int, default=RANKS, help=f"of the largest run ({RANKS})")
    made.add_argument("--steps", type=int, default=STEPS, help=f"of the largest run ({STEPS})")
    made.add_argument("--events", type=int, default=EVENTS, help=f"that are read ({EVENTS})")
    args = made.parse_args()
    if args.one or args.read:
        print(json.dumps(measure(*args.one) if args.one else read(args.read)))
        return
    if args.write:
        write(Path(args.write[0]), int(args.write[1]))
        return

    def alone(*words: object) -> dict[str, float]:
        command = [sys.executable, __file__, *map(str, words)]
        found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return found

    ranks, steps = args.ranks, args.steps
    sizes = [(ranks, steps), (ranks // 2, steps), (ranks // 4, steps), (ranks, steps // 2), (ranks, steps // 4)]
    found = {size: alone("--one", *size) for size in sizes}
    by_ranks, by_steps = [sizes[i] for i in (2, 1, 0)], [sizes[i] for i in (4, 3, 0)]
    reading = alone("--read", args.events)
    figures = [
        Figure(f"{ranks} ranks x {steps} steps", found[sizes[0]]["seconds"], "s", "<= 30"),
        Figure("processor time of that", found[sizes[0]]["cpu"], "s"),
        Figure("peak memory, records and all", found[sizes[0]]["gib"], "GiB", "<= 2"),
        Figure(
            "slope in ranks",
            slope([r for r, _ in by_ranks], [found[s]["cpu"] for s in by_ranks]),
            "",
            "<= 1.15",
        ),
        Figure(
            "slope in steps",
            slope([s for _, s in by_steps], [found[s]["cpu"] for s in by_steps]),
            "",
            "<= 1.15",
        ),
        Figure("reading a million steps", reading["seconds"], "s"),
        Figure("processor time of that", reading["cpu"], "s"),
        Figure("a rank and step as stored, with 8 samples", reading["bytes"], "bytes"),
        Figure(f"peak memory of reading {args.events} steps", reading["gib"], "GiB"),
    ]
    show("Alignment", figures, json_file=args.json)


if __name__ == "__main__":
    main()
