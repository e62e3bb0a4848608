"""A small trainer that resumes exactly, in the ways in which jobs use a GPU (`--kind`), and with settings that make it
deterministic switched off (`--loose`). benchmarks/gpu/kinds.py and determinism.py break it with `chaoskit run`.

    torchrun --nproc-per-node 1 benchmarks/gpu/trainer.py --out /tmp/run --kind graph-step
"""

import argparse
import os
import random
from pathlib import Path

KINDS = (
    "plain", "pinned", "copied", "prefetched", "bf16", "fp16", "compile", "reduce-overhead", "graph-step",
    "graph-backward", "graphed-model", "fsdp", "fused", "foreach", "capturable",
)  # fmt: skip
LOOSE = ("nothing", "algorithms", "workspace", "benchmark", "tf32", "all")

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--kind", choices=KINDS, default="plain")
parser.add_argument("--loose", choices=LOOSE, default="nothing")
parser.add_argument("--device", default="cuda")
parser.add_argument("--steps", type=int, default=36)
parser.add_argument("--opens", help="a module to import first")
told = parser.parse_args()
if told.loose not in ("workspace", "all"):
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

if told.opens:
    __import__(told.opens)
KIND, DEVICE = told.kind, torch.device(told.device)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(told.loose not in ("algorithms", "all"))
torch.backends.cudnn.benchmark = told.loose in ("benchmark", "all")
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = told.loose in ("tf32", "all")
torch.manual_seed(7)
random.seed(7)


class Rows(Dataset):
    """Rows that say who they are."""

    def __len__(self):
        return 96

    def __getitem__(self, i):
        return torch.randn(64, generator=torch.Generator().manual_seed(i)), torch.tensor(i % 8)


class Net(nn.Module):
    """Matrices, a convolution, dropout, and sums whose order is chance where algorithms are not deterministic."""

    def __init__(self):
        super().__init__()
        self.first, self.conv, self.last = nn.Linear(64, 256), nn.Conv2d(1, 8, 3, padding=1), nn.Linear(2048, 8)
        self.register_buffer("slots", torch.arange(8 * 256) % 16)

    def forward(self, x, y):
        hidden = F.dropout(F.gelu(self.first(x)), 0.1, self.training)
        seen = self.conv(hidden.view(-1, 1, 16, 16))
        loss = F.cross_entropy(self.last(seen.flatten(1)), y)
        if KIND == "plain":
            each = seen.permute(0, 2, 3, 1).reshape(-1, 8).float()
            pooled = torch.zeros(16, 8, device=x.device).index_add(0, self.slots[: len(each)], each)
            loss = loss + pooled.square().mean() * 1e-3
        return loss


model = Net().to(DEVICE)
options = {"fused": {"fused": True}, "foreach": {"foreach": True}}.get(KIND, {})
if KIND in ("capturable", "graph-step") and DEVICE.type == "cuda":
    options = {"capturable": True}
if "RANK" in os.environ:
    dist.init_process_group("nccl" if DEVICE.type == "cuda" else "gloo")
if KIND == "fsdp":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    fully_shard(model, mesh=init_device_mesh(DEVICE.type, (1,)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **options)
scaler = torch.amp.GradScaler(DEVICE.type, enabled=KIND == "fp16", growth_interval=8)
narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(KIND)
train = model
if KIND in ("compile", "reduce-overhead"):
    train = torch.compile(model, mode="reduce-overhead" if KIND == "reduce-overhead" else None)

checkpoint, done = told.out / "last.pt", 0
if checkpoint.exists():
    saved = torch.load(checkpoint, map_location=DEVICE, weights_only=True)
    done = saved["done"]
    if KIND == "fsdp":
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict

        full = StateDictOptions(full_state_dict=True)
        set_state_dict(
            model, optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"], options=full
        )
    else:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    scaler.load_state_dict(saved["scaler"])


def save():
    states = model.state_dict(), optimizer.state_dict()
    if KIND == "fsdp":
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

        states = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True))
    streams = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if DEVICE.type == "cuda":
        streams["cuda"] = torch.cuda.get_rng_state()
    state = {"done": done, "model": states[0], "optimizer": states[1], "scaler": scaler.state_dict()}
    torch.save(state | {"streams": streams}, f"{checkpoint}.new")
    os.replace(f"{checkpoint}.new", checkpoint)


def batches():
    """The rest of the batches, as the kind gets them to the device."""
    static = torch.empty(8, 64, device=DEVICE), torch.empty(8, dtype=torch.int64, device=DEVICE)
    for epoch in range(done // 12, told.steps // 12):
        order = torch.randperm(96, generator=torch.Generator().manual_seed(epoch)).tolist()[8 * (done % 12) :]
        pinned = KIND in ("pinned", "prefetched") and DEVICE.type == "cuda"
        own = torch.Generator().manual_seed(epoch)  # or each iterator would draw from the stream of the training
        for x, y in DataLoader(Rows(), batch_size=8, sampler=order, pin_memory=pinned, generator=own):
            match KIND:
                case "pinned":
                    yield x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
                case "copied" | "graph-step" | "graph-backward":
                    yield static[0].copy_(x), static[1].copy_(y)
                case "prefetched" if DEVICE.type == "cuda":
                    side = torch.cuda.Stream()
                    with torch.cuda.stream(side):
                        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
                    torch.cuda.current_stream().wait_stream(side)
                    yield x, y
                case _:
                    yield x.to(DEVICE), y.to(DEVICE)


def backward(x, y):
    with torch.autocast(DEVICE.type, narrow, enabled=narrow is not None):
        loss = train(x, y)
    scaler.scale(loss).backward()
    return loss


def whole(x, y):
    loss = backward(x, y)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=not KIND.startswith("graph-"))
    return loss


if KIND == "graphed-model" and DEVICE.type == "cuda":
    sample = torch.randn(8, 64, device=DEVICE), torch.zeros(8, dtype=torch.int64, device=DEVICE)
    train = torch.cuda.make_graphed_callables(model, sample)
if checkpoint.exists():
    random.setstate(saved["streams"]["python"])
    torch.set_rng_state(saved["streams"]["torch"].cpu())
    if DEVICE.type == "cuda":
        torch.cuda.set_rng_state(saved["streams"]["cuda"].cpu())
graph, loss, taken = None, None, 0
for x, y in batches():
    if KIND.startswith("graph-") and DEVICE.type == "cuda":
        # The first steps of each launch run eagerly, beside the default stream, as a capture wants it.
        if taken < 3:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                loss = whole(x, y)
            torch.cuda.current_stream().wait_stream(side)
        else:
            if graph is None:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    loss = whole(x, y) if KIND == "graph-step" else backward(x, y)
            graph.replay()
            if KIND == "graph-backward":
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
    else:
        loss = whole(x, y)
    taken, done = taken + 1, done + 1
    print(f"step {done} loss {loss.item():.6f}", flush=True)
    if done % 6 == 0:
        save()
if dist.is_initialized():
    dist.destroy_process_group()
