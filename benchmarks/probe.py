"""What the probe costs: a training step with it over the same step without, fingerprints against xxh3 itself, and how
many bytes a step takes.

Two processes train the same model, one under the probe and one not; they take turns, a block of steps each, so that
whatever else the machine does strikes both alike. On a processor it is processor time that is measured. The figure is
the median over the ratios of neighbouring blocks. The records are those of a run of tinymodels that saves every 100
steps, on one rank; what it wrote is written once more, to measure how long that takes. Each figure is given for a
record of every step, and of every tenth.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from table import Figure, parser, show

import chaoskit.probe
from chaoskit.protocol.events import Event, EventWriter, read_events
from chaoskit.protocol.recording import BURST, VARIABLE

SITE = Path(chaoskit.probe.__file__).parent / "site"
#: The whole state is recorded at each of so many steps.
EVERY = (1, 10)
#: Flags of tinymodels, samples per step, steps per block.
MODELS = {
    "tiny GPT": (["--layers", "2", "--width", "32"], 8, 40),
    "GPT with 10 million parameters": (
        ["--layers", "6", "--width", "372", "--heads", "6", "--context", "128"], 8, 2,
    ),
}  # fmt: skip


def worker(flags: list[str], batch: int, device: str) -> None:
    """Train a block of as many steps as each line on stdin says, and answer with the seconds that it took: of processor
    time, unless it is on an accelerator."""
    import torch

    from tinymodels.config import parse
    from tinymodels.model import build
    from tinymodels.optimizer import build_optimizer

    config = parse(["--out", tempfile.gettempdir(), *flags])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    vocabulary = 64
    model = build(config, vocabulary).to(device)
    optimizer = build_optimizer(model, config)
    rows = torch.randint(0, vocabulary, (batch, config.context + 1)).to(device)
    print(sum(p.numel() for p in model.parameters()), flush=True)
    # Of one thread on a processor, the time that it computes: what else the machine does is not in it.
    clock = time.perf_counter if device == "cuda" else time.process_time
    for line in sys.stdin:
        begun = clock()
        for _ in range(int(line)):
            model(rows).backward()
            optimizer.step()
            optimizer.zero_grad()
        if device == "cuda":
            torch.cuda.synchronize()
        print(clock() - begun, flush=True)


class Worker:
    """A process that trains when it is told to."""

    def __init__(self, flags: list[str], batch: int, device: str, run_dir: Path | None, every: int = 1) -> None:
        env = dict(os.environ)
        if run_dir is not None:
            for name in ("events", "logs", "out"):
                (run_dir / name).mkdir(parents=True)
            env |= {"CHAOSKIT_RUN": str(run_dir), "PYTHONPATH": str(SITE), VARIABLE: str(every)}
        words = [sys.executable, __file__, "--worker", device, str(batch), *flags]
        self.process = subprocess.Popen(
            words, env=env, cwd=Path(__file__).parents[1], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.parameters = int(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the training process ended early")
        return line

    def block(self, steps: int) -> float:
        """Seconds for a block of steps."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """End the process by closing its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def recording(every: int) -> str:
    """How the state is recorded, for the name of a figure."""
    return f", --record-every {every}" if every > 1 else ""


def step_ratio(name: str, *, every: int, rounds: int, device: str) -> list[Figure]:
    """Step time with the probe over step time without."""
    flags, batch, steps = MODELS[name]
    if every > steps:  # each block has as many steps of which the state is recorded
        rounds, steps = max(3, rounds * steps // every), every
    with tempfile.TemporaryDirectory() as scratch:
        bare = Worker(flags, batch, device, None)
        probed = Worker(flags, batch, device, Path(scratch) / "run", every)
        first = max(steps, BURST)
        try:
            bare.block(first), probed.block(first)  # imports, allocations, and the steps that are always recorded
            pairs = [(bare.block(steps), probed.block(steps)) for _ in range(rounds)]
        finally:
            bare.close(), probed.close()
        recorded = sum(
            path.read_text().count('"e":"step"') for path in (Path(scratch) / "run" / "events").glob("*.jsonl")
        )
    if recorded != first + steps * rounds:
        raise SystemExit(f"the probe recorded {recorded} steps of {first + steps * rounds}: nothing was measured")
    ratio = statistics.median(with_probe / without for without, with_probe in pairs)
    cost = statistics.median(with_probe - without for without, with_probe in pairs) / steps
    base = statistics.median(without for without, _ in pairs) / steps
    millions = f"{bare.parameters / 1e6:.3g}M"
    target = "<= 1.05" if "10 million" in name else ""
    how = recording(every)
    return [
        Figure(f"{name} ({millions}): step with probe / without{how}", ratio, "ratio", target),
        Figure(f"{name}: cost of the probe{how}", cost * 1e3, "ms/step"),
        Figure(f"{name}: step without the probe", base * 1e3, "ms/step"),
    ]


def records(*, every: int, epochs: int, rounds: int) -> list[Figure]:
    """The size of the record of a small job, and the share of a step that writing it takes."""
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        for name in ("events", "logs", "out"):
            (run / name).mkdir(parents=True)
        root = Path(__file__).parents[1]
        env = {**os.environ, "CHAOSKIT_RUN": str(run), "PYTHONPATH": f"{SITE}{os.pathsep}{root}", VARIABLE: str(every)}
        words = [sys.executable, "-m", "tinymodels.train", "--out", str(run / "out"), "--epochs", str(epochs)]
        words += ["--save-every", "100"]
        subprocess.run(words, env=env, cwd=root, check=True, stdout=subprocess.DEVNULL)
        (path,) = (run / "events").glob("rank-*.jsonl")
        lines = path.read_bytes().splitlines(keepends=True)
        events = [event for event in read_events(path) if isinstance(event, Event)]
        steps = [event for event in events if event.kind == "step"]
        if not steps:
            raise SystemExit("the probe recorded no step: nothing was measured")
        writer, taken = EventWriter(run / "again.jsonl"), []
        for _ in range(rounds):
            begun = time.perf_counter()
            for event in steps:
                writer.write(event.kind, **event.data)
            taken.append((time.perf_counter() - begun) / len(steps))
        writer.close()
    step = statistics.median(b.t - a.t for a, b in pairwise(steps))
    own = [line for line in lines if b'"e":"step"' in line]
    saves = sum(event.kind == "save.end" for event in events)
    beside = sum(map(len, lines)) - sum(map(len, own))
    samples, how = statistics.median(len(event.get("samples", ())) for event in steps), recording(every)
    whole = sum(not event.get("thin") for event in steps)
    return [
        Figure(f"record of a rank and step, {samples:g} samples{how}", statistics.mean(map(len, own)), "bytes"),
        Figure(f"steps with the whole state{how}", whole / len(steps), "share"),
        Figure(f"all other records, for each save{how}", beside / max(saves, 1), "bytes"),
        Figure(f"writing the record of a step{how}", statistics.median(taken) * 1e6, "us"),
        Figure(f"writing it / step{how}", statistics.median(taken) / step, "share"),
    ]


def reading(*, rounds: int) -> list[Figure]:
    """Processor time to read the state of one step, where it is recorded and where it is left out."""
    import torch

    from chaoskit.probe.training_state import TrainingState
    from tinymodels.config import parse
    from tinymodels.model import build
    from tinymodels.optimizer import build_optimizer

    torch.set_num_threads(1)
    found = []
    for name, (flags, _, _) in MODELS.items():
        config = parse(["--out", tempfile.gettempdir(), *flags])
        model = build(config, 64)
        optimizer = build_optimizer(model, config)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        state = TrainingState(lambda _, action, *args: action(*args))
        state.add("root", model), state.add("optimizer", optimizer)
        for whole in (True, False):
            taken = []
            for _ in range(rounds):
                begun = time.process_time()
                state.read(lambda: None, whole=whole)
                taken.append(time.process_time() - begun)
            which = "its state" if whole else "what a thin step records of it"
            found.append(Figure(f"{name}: reading {which}", statistics.median(taken) * 1e3, "ms"))
    return found


def throughput(*, rounds: int, device: str) -> list[Figure]:
    """Fingerprints of a 10-million-parameter model with its optimizer, as a share of the device's own best."""
    import torch

    from chaoskit.protocol.fingerprint import Fingerprint, memory, new_hasher
    from tinymodels.config import parse
    from tinymodels.model import build
    from tinymodels.optimizer import build_optimizer

    flags, _, _ = MODELS["GPT with 10 million parameters"]
    config = parse(["--out", tempfile.gettempdir(), *flags])
    model = build(config, 64).to(device)
    optimizer = build_optimizer(model, config)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    tensors = [*model.parameters(), *(t for s in optimizer.state.values() for t in s.values())]
    size = sum(t.numel() * t.element_size() for t in tensors)
    buffer = torch.zeros(size // 4, device=device)

    def fingerprints() -> None:
        fingerprint = Fingerprint()
        for tensor in tensors:
            fingerprint.tensor(tensor)
        fingerprint.hexdigest()

    def best() -> None:
        if device == "cuda":
            buffer.sum()
        else:
            hasher = new_hasher()
            hasher.update(memory(buffer.data_ptr(), size // 4 * 4))
            hasher.hexdigest()

    def timed(action: object) -> float:
        begun = time.perf_counter()
        action()  # type: ignore[operator]
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begun

    timed(fingerprints), timed(best)
    pairs = [(timed(fingerprints), timed(best)) for _ in range(rounds)]
    share = statistics.median(one / ours for ours, one in pairs)
    speed = size / statistics.median(ours for ours, _ in pairs) / 1e9
    against = "one reduction over one buffer" if device == "cuda" else "xxh3 on one buffer"
    return [
        Figure(
            f"fingerprints / {against} ({size / 1e6:.0f} MB)", share, "share", ">= 0.7" if device == "cpu" else ""
        ),
        Figure("fingerprints", speed, "GB/s"),
    ]


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[4:], int(sys.argv[3]), sys.argv[2])
        return
    arguments = parser(__doc__ or "")
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    told = arguments.parse_args()
    figures = [
        figure
        for name in MODELS
        for every in EVERY
        for figure in step_ratio(name, every=every, rounds=told.rounds, device=told.device)
    ]
    figures += [figure for every in EVERY for figure in records(every=every, epochs=8, rounds=told.rounds)]
    figures += reading(rounds=told.rounds) if told.device == "cpu" else []
    figures += throughput(rounds=told.rounds * 3, device=told.device)
    show("What the probe costs", figures, json_file=told.json)


if __name__ == "__main__":
    main()
