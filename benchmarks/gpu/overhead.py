"""What the probe costs a model that fills the device: the time of a step with it over that without, the memory that it
adds, and whether it makes the thread that trains wait for the device.

    python benchmarks/gpu/overhead.py
    python benchmarks/gpu/overhead.py --device cpu --layers 2 --width 64 --tokens 256   # only to see that it runs

Two processes train the same model, one under the probe and one not. They take turns, some steps each. Then each takes a
step more under `torch.cuda.set_sync_debug_mode("error")`, in which whatever waits for the device raises, and some under
torch's profiler, which counts the calls that wait.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

from table import Figure, parser, show  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "chaoskit" / "probe" / "site"
#: Calls of CUDA that return only once the device has done what it was given.
WAITING = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy")


def worker(device: str, layers: int, width: int, tokens: int) -> None:
    """Do what each line on stdin says, and answer in JSON."""
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.checkpoint import checkpoint

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            rows, length, _ = x.shape
            q, k, v = (
                part.view(rows, length, -1, 64).transpose(1, 2) for part in self.qkv(self.one(x)).chunk(3, dim=-1)
            )
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
            return x + self.down(F.gelu(self.up(self.two(x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(8192, width), nn.Linear(width, 8192, bias=False)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))

        def forward(self, ids: Any) -> Any:
            x = self.embed(ids[:, :-1])
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return F.cross_entropy(self.head(x).flatten(0, 1), ids[:, 1:].flatten())

    torch.manual_seed(1)
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")
    length = min(2048, tokens)
    batch = torch.randint(0, 8192, (tokens // length, length + 1)).pin_memory() if device == "cuda" else torch.randint(
        0, 8192, (tokens // length, length + 1)
    )

    def step() -> None:
        with torch.autocast(device, torch.bfloat16):
            loss = model(batch.to(device, non_blocking=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def timed(count: int) -> float:
        wait()
        begun = time.perf_counter()
        for _ in range(count):
            step()
        wait()
        return time.perf_counter() - begun

    def strictly() -> str:
        if device != "cuda":
            step()
            return ""
        torch.cuda.set_sync_debug_mode("error")
        try:
            step()
        except RuntimeError as error:
            return str(error)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        return ""

    def profiled(count: int) -> dict[str, int]:
        with torch.profiler.profile() as profile:
            for _ in range(count):
                step()
        found = {event.key: event.count for event in profile.key_averages()}
        return {name: found.get(name, 0) for name in WAITING}

    def answer(value: Any) -> None:
        print(json.dumps(value), flush=True)

    answer(sum(p.numel() for p in model.parameters()))
    for line in sys.stdin:
        word, _, count = line.strip().partition(" ")
        match word:
            case "time":
                answer(timed(int(count)))
            case "strict":
                answer(strictly())
            case "profile":
                answer(profiled(int(count)))
            case "memory":
                answer(torch.cuda.max_memory_allocated() if device == "cuda" else 0)


class Worker:
    """A process that trains when it is told to."""

    def __init__(self, words: list[str], run: Path | None) -> None:
        env = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
        if run is not None:
            for name in ("events", "logs", "out"):
                (run / name).mkdir(parents=True)
            env |= {"CHAOSKIT_RUN": str(run), "PYTHONPATH": os.pathsep.join((str(SITE), str(ROOT)))}
        command = [sys.executable, __file__, "--worker", *words]
        self.process = subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.parameters = self._answer()

    def ask(self, line: str) -> Any:
        """What it answers."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the training process ended early")
        return json.loads(line)

    def close(self) -> None:
        """End it by closing its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], *map(int, sys.argv[3:]))
        return
    arguments = parser(__doc__ or "")
    arguments.add_argument("--device", default="cuda")
    arguments.add_argument("--layers", type=int, default=16)
    arguments.add_argument("--width", type=int, default=2048)
    arguments.add_argument("--tokens", type=int, default=32768)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--steps", type=int, default=2, help="steps in a turn")
    told = arguments.parse_args()
    words = [told.device, str(told.layers), str(told.width), str(told.tokens)]
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        bare, probed = Worker(words, None), Worker(words, run)
        try:
            turn = f"time {told.steps}"
            # The first steps load modules; of each number of steps that is a power of two, the probe looks for NaN.
            for each in (bare, probed):
                each.ask("time 2")
            pairs = [(bare.ask(turn), probed.ask(turn)) for _ in range(told.rounds)]
            memory = [each.ask("memory") for each in (bare, probed)]
            strict = [each.ask("strict") for each in (bare, probed)]
            counted = [each.ask("profile 3") for each in (bare, probed)]
        finally:
            bare.close(), probed.close()
        events = "".join(path.read_text() for path in (run / "events").glob("*.jsonl"))
    steps = 2 + told.rounds * told.steps + 1 + 3
    if events.count('"e":"step"') != steps:
        recorded = events.count('"e":"step"')
        raise SystemExit(f"the probe recorded {recorded} steps of {steps}: nothing was measured")
    errors = [line for line in events.splitlines() if '"e":"probe.error"' in line]
    ratio = statistics.median(with_probe / without for without, with_probe in pairs)
    base = statistics.median(without for without, _ in pairs) / told.steps
    million = f"{bare.parameters / 1e6:.4g} million parameters, {told.tokens} tokens"
    figures = [
        Figure(f"{million}: step with probe / without", ratio, "ratio", "<= 1.01" if told.device == "cuda" else ""),
        *(Figure(f"  turn {n + 1}", b / a, "ratio") for n, (a, b) in enumerate(pairs)),
        Figure("step without the probe", base * 1e3, "ms"),
        Figure("memory that the probe adds at the peak", (memory[1] - memory[0]) / 2**20, "MiB"),
        Figure("peak without it", memory[0] / 2**20, "MiB"),
        Figure("errors of the probe, also where waiting is an error", len(errors), "", "<= 0"),
        *(
            Figure(f"{name} in 3 steps: with probe, less without", counted[1][name] - counted[0][name], "")
            for name in WAITING
        ),
        *(Figure(f"{name} in 3 steps without it", counted[0][name], "") for name in WAITING),
    ]
    show("The probe and a model that fills the device", figures, json_file=told.json)
    for who, said in zip(("without", "with the probe"), strict, strict=True):
        print(f"a step that must not wait, {who}: {said or 'nothing waited'}")
    print(*errors[:10], sep="\n")


if __name__ == "__main__":
    main()
