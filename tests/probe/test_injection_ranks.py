"""Numbers made wrong in one of two ranks, whose gradients DDP or FSDP2 brings together: what spreads and what does not.

One program does both, so that two processes are started and no more.
"""

import math

import pytest

from tests.probe.struck import Struck, order
from tests.probe.test_injection import is_held

PROGRAM = """
import json, os, torch, warnings
from torch import nn
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
rank = int(os.environ["RANK"])
store = "file://" + os.environ["CHAOSKIT_OUT"] + "/store"
dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4)])
        self.head = nn.Linear(4, 2)
        self.register_buffer("shift", torch.ones(4))
    def forward(self, x, *, y):
        hidden = self.blocks[0](torch.tanh(self.first(x) + self.shift))
        return ((self.head(hidden) - y) ** 2).mean()
def wrapped(kind):
    net = Net()
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.00001)
    fully_shard(net.blocks[0]); fully_shard(net)
    return net
def local(tensor):
    return getattr(tensor, "_local_tensor", tensor)
torch.manual_seed(0)
x, y = torch.linspace(-1, 1, 12).reshape(3, 4) + rank, torch.ones(3, 2)
for kind in ("ddp", "fsdp"):
    net = wrapped(kind)
    opt = torch.optim.AdamW(net.parameters(), lr=0.5)
    start = {name: local(value).clone() for name, value in net.state_dict().items()}
    for n in range(1, STEPS + 1):
        for name, value in net.state_dict().items():
            local(value).copy_(start[name])
        opt.zero_grad()
        loss = net(x, y=y)
        loss.backward()
        grads = {name.removeprefix("module."): local(p.grad).tolist() for name, p in net.named_parameters()}
        every = [torch.zeros(()) for _ in range(2)]
        dist.all_gather(every, loss.detach())
        names = [None, None]
        dist.all_gather_object(names, {"rank": rank})
        opt.step()
        print(json.dumps({"kind": kind, "n": n, "loss": loss.item(), "every": [e.item() for e in every], **grads}))
dist.destroy_process_group()
"""

GRADIENTS = {
    "first.weight", "first.bias", "blocks.0.weight", "blocks.0.bias", "head.weight", "head.bias"
}  # fmt: skip
ALL, NAN, NOISE = "all", "nan", {"kind": "noise", "sigma": 0.5}
DOUBLE, FIVE = {"kind": "scale", "factor": 2.0}, {"kind": "stuck", "value": 5.0}

#: Into what, what, into how many; what then differs on the rank that is not struck, and on the one that is.
DDP = [
    ("gradient:head.weight", NAN, 1, {"head.weight"}, {"head.weight"}),
    ("gradient:head.weight:reduced", DOUBLE, ALL, set(), {"head.weight"}),
    ("collective:all_reduce:2", NAN, 1, set(), {"blocks.0.bias"}),
    ("collective:all_reduce:2:sent", NAN, 1, {"blocks.0.bias"}, {"blocks.0.bias"}),
    ("collective:broadcast", NOISE, ALL, {"every", *GRADIENTS}, {"every", "loss", *GRADIENTS}),
    ("collective:all_gather", FIVE, 1, set(), {"every"}),
    ("collective:all_gather:1:sent", FIVE, 1, {"every"}, {"every"}),
    ("loss", "inf", 1, {"every", *GRADIENTS}, {"every", "loss", *GRADIENTS}),
    ("activation:blocks.0", "zero", ALL, {"every", *GRADIENTS}, {"every", "loss", *GRADIENTS}),
    ("batch", "bad", ALL, {"every", *GRADIENTS}, {"every", "loss", *GRADIENTS}),
    ("gradient:first.weight", {"kind": "bitflip", "which": "sign"}, 1, {"first.weight"}, {"first.weight"}),
    (
        "collective:reduce_scatter",
        NAN,
        1,
        "it made all_gather 1 times, all_reduce 5 times, broadcast 1 times",
        None,
    ),
]
# Each rank has a half of every gradient: element [0, 3] of the head's is in that of rank 0.
FSDP = [
    ("gradient:head.weight", NAN, 1, {"head.weight"}, set()),
    ("gradient:head.weight:reduced", DOUBLE, ALL, set(), {"head.weight"}),
    ("collective:all_gather:1", NOISE, ALL, {"every", *GRADIENTS}, {"every", "loss", *GRADIENTS}),
    ("collective:all_gather:2:sent", NAN, 1, {"every", "loss", *GRADIENTS}, {"every", "loss", *GRADIENTS}),
    ("collective:reduce_scatter:2", NAN, 1, set(), {"first.weight"}),
    ("collective:reduce_scatter:2:sent", NAN, 1, {"first.weight"}, set()),
    ("collective:reduce_scatter:1", NAN, 1, set(), {"blocks.0.weight"}),
    ("activation:blocks.0", "inf", 1, {"every", *GRADIENTS}, {"every", "loss", *GRADIENTS}),
    ("parameter:blocks.*", {"kind": "bitflip", "bit": 30}, 1, set(), set()),
    ("optimizer:*.exp_avg_sq", {"kind": "stuck", "value": 3.0}, 1, set(), set()),
    ("collective:broadcast", NAN, 1, "it made all_gather 4 times, reduce_scatter 2 times", None),
]
STEPS = 2 * len(DDP) + 2


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    orders = {}
    for base, struck in ((0, DDP), (STEPS, FSDP)):
        for index, (into, how, elements, *_) in enumerate(struck):
            n = base + 2 * index + 2
            orders[n - (not is_held(into))] = order(into, how, elements=elements)
    assert len(orders) == len(DDP) + len(FSDP)
    program = PROGRAM.replace("STEPS", str(STEPS))
    run = Struck(tmp_path_factory.mktemp("ranks"), program, orders, rank=1, world=2)
    assert run.codes == [0, 0], run.output
    assert not run.events("probe.error")
    return run


def differs(run, rank, kind, n):
    """What of the step is other than in the first."""
    lines = {(line["kind"], line["n"]): line for line in run.printed[rank]}
    clean, step = lines[kind, 1], lines[kind, n]
    return {key for key in clean if clean[key] != step[key]} - {"n"}


@pytest.mark.parametrize(
    ("kind", "index"),
    [("ddp", index) for index in range(len(DDP))] + [("fsdp", index) for index in range(len(FSDP))],
)
def test_what_is_struck_on_one_rank_spreads_as_far_as_it_should(ranks, kind, index):
    into, _, elements, there, here = (DDP if kind == "ddp" else FSDP)[index]
    n = 2 * index + 2
    n_all = n + (0 if kind == "ddp" else STEPS)
    told = ranks.said[n_all - (not is_held(into))]
    if here is None:
        assert there in told["refused"], told
        there = here = set()
    else:
        assert told.get("n") == n_all and told["rank"] == 1, told
        assert told["changed"] == (told["of"] if elements == ALL else 1)
    # A few weights have no part in what differs, and one element of many may be in another part of it.
    assert differs(ranks, 0, kind, n) == there and differs(ranks, 1, kind, n) == here


def test_the_step_after_is_as_it_was(ranks):
    for rank in (0, 1):
        for kind in ("ddp", "fsdp"):
            for n in range(3, STEPS + 1, 2):
                assert not differs(ranks, rank, kind, n), (rank, kind, n)


def test_a_sharded_tensor_is_struck_in_the_part_that_the_rank_holds(ranks):
    gradient, reduced = ranks.said[STEPS + 1], ranks.said[STEPS + 3]
    assert (gradient["of"], reduced["of"]) == (8, 4)
    parameter = ranks.said[STEPS + 2 * 8 + 2]
    assert parameter["of"] == 8 and parameter["where"].startswith("blocks.0.weight[")
    assert parameter["where"].endswith(" of this rank's part") and gradient["where"].endswith("]")
    before, after = (float.fromhex(parameter[key][0]) for key in ("before", "after"))
    assert after == before * 2**128 or math.isinf(after)


def test_torch_says_nothing_of_it(ranks):
    said = [line for line in ranks.output.splitlines() if line and not line.startswith("{")]
    assert not [line for line in said if "kernel" in line or "Warning" in line], said
