"""What a fault costs that is armed and has not struck: a training step with one over the same step without.

One process under the probe trains; its steps take turns: no fault is there (not armed); one is to come at a step far
ahead (armed), as the controller has it; the rank stops at its gate before every step, as it would without knowing when
the fault comes. The figure is the median over the ratios of steps of one turn, in processor time, in which nobody else
on the machine has a part; beside it that of steps that differ in nothing. Where the rank waits for an answer, the clock
counts.
"""

from __future__ import annotations

import os
import select
import statistics
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from random import Random
from time import perf_counter, process_time

from table import Figure, parser, show

import chaoskit.probe
from chaoskit.engine.armed_fault import NEVER
from chaoskit.environments.gate.doors import UnixDoor
from chaoskit.environments.gate.server import GateServer

SITE = Path(chaoskit.probe.__file__).parent / "site"
#: Flags of tinymodels, steps of each kind.
MODELS = {
    "tiny GPT": (["--layers", "2", "--width", "32"], 800),
    "GPT of width 256": (["--layers", "4", "--width", "256", "--heads", "4"], 60),
}
BATCH = 8
KINDS = ("not armed", "armed", "not armed again", "stopping")


def worker(flags: list[str], rounds: int) -> None:
    """Train `rounds` steps of each kind, in turns, and print the milliseconds of each, of the processor and in all;
    first those of the looks."""
    import torch

    from chaoskit.probe.session import session
    from tinymodels.config import parse
    from tinymodels.model import build
    from tinymodels.optimizer import build_optimizer

    config = parse(["--out", tempfile.gettempdir(), *flags])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    vocabulary = 64
    model = build(config, vocabulary)
    optimizer = build_optimizer(model, config)
    rows = torch.randint(0, vocabulary, (BATCH, config.context + 1))

    def step() -> str:
        begun, wall = process_time(), perf_counter()
        model(rows).backward()
        optimizer.step()
        optimizer.zero_grad()
        return f"{(process_time() - begun) * 1e3} {(perf_counter() - wall) * 1e3}"

    assert session is not None and session.open()
    gate = session.gate
    assert gate is not None and gate.open
    for _ in range(20):
        step()
    # A step looks twice around the forward pass and the backward pass, three times as its record is made.
    looks = timeit.timeit("session.injector; session.gate", globals={"session": session}, number=100_000) / 100_000
    print(looks * 7 * 1e3, flush=True)
    for number in range(rounds):
        # In another order every time, so that none always follows the same one.
        for kind in Random(number).sample(KINDS, len(KINDS)):
            session.gate = None if kind.startswith("not") else gate
            gate.until = NEVER if kind == "armed" else 0
            print(f"{kind}: {step()}")


def measure(name: str, *, times: float) -> list[Figure]:
    """The figures of one model."""
    flags, rounds = MODELS[name]
    with tempfile.TemporaryDirectory() as scratch:
        run_dir = Path(scratch)
        for folder in ("events", "logs", "out"):
            (run_dir / folder).mkdir()
        gate = GateServer(UnixDoor(run_dir))
        env = os.environ | {"CHAOSKIT_RUN": scratch, "PYTHONPATH": str(SITE), **gate.door.environment}
        words = [sys.executable, __file__, "--worker", str(int(rounds * times)), *flags]
        with (run_dir / "said").open("w+") as said:
            training = subprocess.Popen(words, env=env, cwd=Path(__file__).parents[1], stdout=said)
            while training.poll() is None:
                select.select([gate], [], [], 0.1)
                for arrived in gate.arrivals():
                    gate.release(arrived.rank, keep_gating=True)
            said.seek(0)
            looks, *lines = said.read().splitlines()
        gate.close()
    if training.returncode:
        raise SystemExit("the training process failed")
    found: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in KINDS}
    for line in lines:
        kind, _, took = line.partition(": ")
        found[kind].append(tuple(map(float, took.split())))
    base = statistics.median(processor for processor, _ in found["not armed"])

    def more(kind: str, *, clock: bool = False) -> float:
        """By how many percent a step of that kind takes longer."""
        pairs = zip(found[kind], found["not armed"], strict=True)
        return 100 * (statistics.median(one[clock] / other[clock] for one, other in pairs) - 1)

    return [
        Figure(f"{name}: armed and not struck / not armed", more("armed"), "% more", "<= 1"),
        Figure(f"{name}: not armed / not armed", more("not armed again"), "% more"),
        Figure(f"{name}: not armed, its looks for an order", 100 * float(looks) / base, "% of the step", "<= 0.1"),
        Figure(f"{name}: stopping before every step / not armed", more("stopping", clock=True), "% more"),
        Figure(f"{name}: step, not armed", base, "ms of a processor"),
    ]


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[3:], int(sys.argv[2]))
        return
    arguments = parser(__doc__ or "")
    arguments.add_argument("--times", type=float, default=1.0, help="so many times the steps")
    told = arguments.parse_args()
    figures = [figure for name in MODELS for figure in measure(name, times=told.times)]
    show("What an armed fault costs", figures, json_file=told.json)


if __name__ == "__main__":
    main()
