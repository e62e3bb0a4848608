"""What a verdict costs: a synthetic run of 1,000 ranks and 10,000 steps, killed half-way, beside its two controls.

Judging: each size is measured in a process of its own, the best of three: from the records in memory to the verdicts
on the state, on the data and on every step. The peak is that of the whole process, the three records included. The run
does what the controls did, and passes; or it fails, because every rank has another state, other random numbers and
other losses in every step behind its resume, in columns of its own. The slopes are exponents of a power law (1.0: twice
the ranks, twice the processor time), by least squares over the sizes.

Reading is measured apart: the files of a few ranks, as the probe writes them, to a history in memory, by one process
and with the readers of `chaoskit.engine.record_readers`. The whole record is extrapolated from them.
"""

from __future__ import annotations

import json
import math
import random
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
from chaoskit.engine import record_readers
from chaoskit.protocol.events import EventWriter
from chaoskit.protocol.fingerprint import of_bytes

RANKS, STEPS = 1000, 10000
#: Events that are read, and in how many files.
EVENTS, FILES = 100_000, 10
#: As in data parallelism: replicas share their fingerprints; random numbers, batches and losses are each rank's own.
SHARED = ("model", "buffers", "optimizer", "options", "lr", "scaler", "ema")
LOCAL = ("rng.torch", "rng.numpy", "batch")
#: What also a run has that goes wrong: the data and the schedule of the training.
DATA = ("batch", "options", "lr")


def fingerprints(name: str, own: str, steps: int) -> list[str]:
    """A component at the positions from 0."""
    if name in ("options", "lr"):
        return [of_bytes(f"{name} {own}".encode())] * steps
    digits = random.Random(f"{name} {own}").randbytes(16 * steps).hex()
    return [digits[at : at + 32] for at in range(0, len(digits), 32)]


@lru_cache
def replicated(name: str, steps: int, otherwise: str = "") -> list[str]:
    """What all ranks have."""
    return fingerprints(name, otherwise, steps)


class Rank:
    """What one rank does, in each of the runs alike; or `otherwise`."""

    def __init__(self, rank: int, steps: int, otherwise: str = "") -> None:
        self.rank, self.steps = rank, steps
        self.columns = {name: replicated(name, steps, otherwise) for name in SHARED}
        self.columns |= {name: fingerprints(name, f"{otherwise}{rank}", steps) for name in LOCAL}
        self.losses = [(1.0 / (rank + step + len(otherwise))).hex() for step in range(1, steps + 1)]

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


def records(ranks: int, steps: int, *, otherwise: bool) -> tuple[History, History, History]:
    """Two controls and the run, a rank at a time, as they are read. The first step after the resume is the reference's;
    `otherwise`, no later one is."""
    one, two, run = control(ranks, steps), control(ranks, steps), killed(ranks, steps)
    half, base = steps // 2, steps // 2 - steps // 10
    packings = [Packing() for _ in range(3)]
    for rank in range(ranks):
        own = Rank(rank, steps)
        first = own.life(packings[0], 0, steps, start=0.0, ended=True)
        one.incarnations[0].ranks[rank] = first
        two.incarnations[0].ranks[rank] = own.life(packings[1], 0, steps, start=0.0, ended=True, like=first)
        run.incarnations[0].ranks[rank] = own.life(packings[2], 0, half, start=0.0, ended=False, like=first)
        again = own
        if otherwise:
            again = Rank(rank, steps, "otherwise ")
            for name, column in again.columns.items():
                same = name in DATA
                again.columns[name] = (
                    own.columns[name] if same else [*own.columns[name][: base + 1], *column[base + 1 :]]
                )
        run.incarnations[1].ranks[rank] = again.life(
            packings[2], base, steps, start=half + 10.0, ended=True, like=first
        )
    return one, two, run


def peak() -> float:
    """That of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(ranks: int, steps: int, *, otherwise: bool) -> dict[str, float]:
    """Seconds from the records to the verdicts, also of processor time, and the peak of the whole process in GiB."""
    *controls, run = records(ranks, steps, otherwise=otherwise)
    fastest = cpu = math.inf
    for _ in range(3):
        begun, before = time.perf_counter(), time.process_time()
        case = Case(run, Reference(tuple(controls)))
        verdicts = [
            check(case) for check in (checks.state_restored(), checks.same_data(), checks.matches_reference())
        ]
        fastest, cpu = min(fastest, time.perf_counter() - begun), min(cpu, time.process_time() - before)
        assert [verdict.outcome for verdict in verdicts] == ["fail", "pass", "fail"] if otherwise else ["pass"] * 3
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


def read(events: int, *, readers: bool) -> dict[str, float]:
    """Microseconds to read one of such events, also of processor time, their bytes, and the peak in GiB: of this
    process, and of each of the readers."""
    steps = max(1, events // FILES)
    if readers:
        record_readers.LARGE = 0
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "events"
        directory.mkdir()
        # In a process of its own: what is made here is not read, and counts for no peak.
        subprocess.run([sys.executable, __file__, "--write", str(directory), str(steps)], check=True)
        size = sum(path.stat().st_size for path in directory.iterdir())
        begun, before = time.perf_counter(), processor_time()
        history = History.read(Path(scratch), files=record_readers.record_files() if readers else None)
        seconds, cpu = time.perf_counter() - begun, processor_time() - before
        assert [len(own.steps) for own in history.incarnations[0].ranks.values()] == [steps] * FILES
    count = FILES * steps
    return {"wall": 1e6 * seconds / count, "cpu": 1e6 * cpu / count, "bytes": size / count, "gib": peak()}


def processor_time() -> float:
    """That of this process and of those that it has waited for, in seconds."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


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
    made.add_argument("--otherwise", action="store_true", help="with --one: the run differs after its resume")
    made.add_argument("--read", type=int, metavar="EVENTS", help="measure reading alone, print JSON")
    made.add_argument("--readers", action="store_true", help="with --read: in several processes")
    made.add_argument("--write", nargs=2, metavar=("DIRECTORY", "STEPS"), help="write what --read reads")
    made.add_argument("--ranks", type=int, default=RANKS, help=f"of the largest run ({RANKS})")
    made.add_argument("--steps", type=int, default=STEPS, help=f"of the largest run ({STEPS})")
    made.add_argument("--events", type=int, default=EVENTS, help=f"that are read ({EVENTS})")
    args = made.parse_args()
    if args.one:
        print(json.dumps(measure(*args.one, otherwise=args.otherwise)))
        return
    if args.read:
        print(json.dumps(read(args.read, readers=args.readers)))
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
    figures = []
    for what, options in (("", ()), (", all but the data differs", ("--otherwise",))):
        found = {size: alone("--one", *size, *options) for size in sizes}
        whole, name = found[sizes[0]], f"judging {ranks} ranks x {steps} steps{what}"
        figures += [
            Figure(name, whole["seconds"], "s", "<= 30"),
            Figure("  processor time", whole["cpu"], "s"),
            Figure("  peak memory, records and all", whole["gib"], "GiB", "<= 2"),
        ]
        for of, line, at in (("ranks", (2, 1, 0), 0), ("steps", (4, 3, 0), 1)):
            exponent = slope([sizes[i][at] for i in line], [found[sizes[i]]["cpu"] for i in line])
            figures.append(Figure(f"  slope in {of}", exponent, "", "<= 1.15"))
    here, several = alone("--read", args.events), alone("--read", args.events, "--readers")
    count = ranks * steps / 1e6
    figures += [
        Figure("reading a rank's step, processor time", here["cpu"], "us"),
        Figure("  bytes as stored, with 8 samples", here["bytes"], "bytes"),
        Figure(f"  peak memory of {args.events} of them", here["gib"], "GiB"),
        Figure(f"  in several processes, {ranks} x {steps}, extrapolated", several["wall"] * count, "s"),
        Figure("  processor time of that", several["cpu"] * count, "s"),
    ]
    show("Alignment", figures, json_file=args.json)


if __name__ == "__main__":
    main()
