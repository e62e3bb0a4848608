"""Numbers made wrong in one process: in every place, at the step that was asked for, and nowhere else."""

import math

import pytest

from tests.probe.struck import Struck, order

HEAD = """
import copy, json, torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4)])
        self.head = nn.Linear(4, 1)
    def forward(self, x, *, y):
        hidden = self.blocks[0](torch.tanh(self.first(x)))
        return {"loss": ((self.head(hidden) - y) ** 2).mean(), "hidden": hidden}
torch.manual_seed(0)
net = Net()
x, y = torch.linspace(-1, 1, 12).reshape(3, 4), torch.ones(3, 1)
def hooks():
    held = [m for m in net.modules() if m._forward_hooks or m._forward_pre_hooks]
    return len(held) + sum(bool(p._backward_hooks) for p in net.parameters())
def say(n, **more):
    grads = {name: p.grad.flatten().tolist() for name, p in net.named_parameters()}
    after = {name: p.flatten().tolist() for name, p in net.named_parameters()}
    print(json.dumps({"n": n, "grads": grads, "after": after, "hooks": hooks(), **more}))
"""

#: Every step begins from the same state.
SAME = """
groups = [{"params": part.parameters()} for part in (net.first, net.blocks, net.head)]
opt = torch.optim.AdamW(groups, lr=0.5)
def step():
    out = net(x, y=y)
    out["loss"].backward()
    return out
step(); opt.step()
start = copy.deepcopy((net.state_dict(), opt.state_dict()))
for n in range(2, STEPS + 1):
    net.load_state_dict(start[0]); opt.load_state_dict(copy.deepcopy(start[1])); opt.zero_grad()
    random = torch.get_rng_state()
    out = step()
    opt.step()
    say(n, loss=out["loss"].item(), hidden=out["hidden"].tolist(), lr=opt.param_groups[0]["lr"],
        x=x.tolist(), random=torch.equal(random, torch.get_rng_state()))
"""

FLIP = {"kind": "bitflip", "bits": 1, "which": "exponent"}
DOUBLE = {"kind": "scale", "factor": 2.0}
EVERYTHING = {"loss", "grads", "after"}

#: Into what, what, into how many elements; what of the step is then another, and where it is said to be.
STRUCK = [
    ("loss", "nan", 1, EVERYTHING, "loss.loss"),
    ("loss", {"kind": "scale", "factor": 100.0}, "all", EVERYTHING, "loss.loss"),
    ("batch", "nan", 1, EVERYTHING, "batch."),
    ("batch", "bad", "all", EVERYTHING | {"hidden"}, "batch.0["),
    ("activation:blocks.0", "inf", 1, EVERYTHING | {"hidden"}, "blocks.0["),
    ("activation:blocks.0", {"kind": "noise", "sigma": 0.5}, "all", EVERYTHING | {"hidden"}, "blocks.0["),
    (
        "gradient:head.weight",
        DOUBLE,
        "all",
        {"grads"},
        "head.weight[",
    ),  # AdamW's update is nearly the same: see below
    ("gradient:first.*:reduced", "zero", "all", {"grads", "after"}, "first."),
    ("parameter:head.weight", FLIP, 1, {"after"}, "head.weight["),
    ("optimizer:*.exp_avg", {"kind": "stuck", "value": 7.0}, 1, {"after"}, ".exp_avg["),
    ("lr", {"kind": "scale", "factor": 100.0}, "all", {"after"}, "lr of group 0"),
]
#: What is refused, and why.
REFUSED = [
    ("collective:all_reduce", "nan", "there is no process group"),
    ("scaler", "nan", "no gradient scaler in use"),
    ("gradient:haed.weight", "nan", "the gradient of haed.weight: there is none of that name (near: head.weight"),
    ("gradient:none:reduced", "nan", "there is none of that name"),
    ("loss", "stale", "stale would change nothing"),
    ("parameter:blocks.0.bais", "nan", "near: blocks.0.bias"),
    ("optimizer:head.weight.exp", "nan", ", head.weight.exp_avg, "),
    (
        "activation:blocks",
        "nan",
        "there is none of that name (near: blocks.0",
    ),  # a list of modules is never called
    ("gradient:head.weight", {"kind": "bitflip", "bit": 40}, "head.weight: float32 has no bit 40"),
    ("optimizer:*.step", {"kind": "stuck", "value": 2.5, "bits": 1}, None),  # it can be
]


def is_held(into):
    return into.split(":")[0] in ("parameter", "optimizer", "scaler", "lr")


def at(n, into, how, elements):
    """By when an order must be given for what is to strike in step `n`."""
    stale = (how if isinstance(how, str) else how["kind"]) == "stale"
    return n - (not is_held(into)) - stale, order(into, how, elements=elements)


@pytest.fixture(scope="module")
def struck(tmp_path_factory):
    """Every other step, from the fourth on, one of them."""
    every = [each[:3] for each in STRUCK] + [(into, how, 1) for into, how, _ in REFUSED]
    orders = [at(2 * index + 4, *each) for index, each in enumerate(every)]
    assert len(dict(orders)) == len(every)
    program = HEAD + SAME.replace("STEPS", str(2 * len(every) + 4))
    run = Struck(tmp_path_factory.mktemp("struck"), program, orders)
    assert run.codes == [0], run.output
    assert not run.events("probe.error")
    run.told = [run.said[when] for when, _ in orders]
    run.steps = {line["n"]: line for line in run.printed[0]}
    return run


@pytest.mark.parametrize("index", range(len(STRUCK)), ids=[f"{into}-{how}" for into, how, *_ in STRUCK])
def test_a_change_takes_effect_in_its_step(struck, index):
    into, how, elements, differs, where = STRUCK[index]
    n, told = 2 * index + 4, struck.told[index]
    assert "refused" not in told, told
    assert told["n"] == n and told["component"] == into.split(":")[0] and where in told["where"], told
    assert told["before"] != told["after"] and told["rank"] == 0 and 1 <= told["changed"] <= told["of"]
    assert told["changed"] == (1 if elements == 1 else told["of"])
    if how == "nan":
        assert told["after"] == ["nan"]
    clean, step = struck.steps[3], struck.steps[n]
    assert {key for key in clean if clean[key] != step[key]} - {"n"} >= differs
    assert step["x"] == clean["x"] and step["lr"] == clean["lr"], (
        "the job's own batch, and the rate once it is over"
    )
    event, *more = [each for each in struck.events("corrupted") if each["n"] == n]
    assert len(more) == (2 if into == "lr" else 0), "there are three groups"
    assert {key: event[key] for key in told} == told


@pytest.mark.parametrize("index", range(len(STRUCK), len(STRUCK) + len(REFUSED)))
def test_what_cannot_be_is_refused_with_the_reason(struck, index):
    says, told = REFUSED[index - len(STRUCK)][-1], struck.told[index]
    if says is None:
        assert "refused" not in told
    else:
        assert says in told["refused"], told
        assert struck.steps[2 * index + 4] == {**struck.steps[3], "n": 2 * index + 4}
        (event,) = [each for each in struck.events("refused") if each["n"] == 2 * index + 4]
        assert event["why"] == told["refused"]


def test_nothing_is_left_behind_and_no_random_number_is_drawn(struck):
    clean = struck.steps[3]
    assert all(step["hooks"] == 0 and step["random"] for step in struck.steps.values())
    for n in range(5, max(struck.steps) + 1, 2):
        assert struck.steps[n] == {**clean, "n": n}


def test_the_record_keeps_the_clean_batch_and_says_that_a_number_is_none(struck):
    steps = {event["n"]: event for event in struck.events("step")}
    assert len({event["state"]["batch"] for event in steps.values()}) == 1
    assert steps[4]["losses"] == ["nan"] and "nonfinite" in steps[4].data and "nonfinite" not in steps[3].data


def test_the_gradients_follow_the_loss(struck):
    clean, step = struck.steps[3], struck.steps[6]
    assert step["loss"] == pytest.approx(100 * clean["loss"])
    for name, values in clean["grads"].items():
        assert step["grads"][name] == pytest.approx([100 * value for value in values], rel=1e-3)


def test_a_gradient_is_struck_alone(struck):
    clean, step = struck.steps[3], struck.steps[2 * 6 + 4]
    differs = [name for name in clean["grads"] if clean["grads"][name] != step["grads"][name]]
    assert differs == ["head.weight"]
    assert step["grads"]["head.weight"] == pytest.approx([2 * value for value in clean["grads"]["head.weight"]])


def test_a_change_of_the_rate_is_for_one_update(struck):
    clean, step = struck.steps[3], struck.steps[2 * 10 + 4]
    moved = [abs(a - b) for a, b in zip(step["after"]["head.weight"], clean["after"]["head.weight"], strict=True)]
    assert max(moved) > 10


#: Micro-batches, an output that is no loss, a gradient scaler, an update that is left out.
OTHERWISE = """
opt = torch.optim.SGD(net.parameters(), lr=0.0, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1000)
for n in range(1, STEPS + 1):
    opt.zero_grad()
    losses = []
    for part in (0, 1):
        out = net(x + part + n / 10, y=y)
        loss = (out["hidden"] ** 2).mean() + 0 * out["loss"].detach()
        scaler.scale(loss).backward()
        losses.append(loss.item())
        grads = net.head.weight.grad
    scaler.unscale_(opt)
    scaler.step(opt); scaler.update()
    for p in net.parameters():
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
    say(n, losses=losses, scale=scaler.get_scale())
"""


@pytest.fixture(scope="module")
def otherwise(tmp_path_factory):
    def of_hidden(text):
        return text.replace('"loss": ((self.head(hidden) - y) ** 2).mean()', '"loss": hidden.detach().sum()')

    orders = [
        (1, order("loss", {"kind": "scale", "factor": 4.0}, elements="all")),
        (3, order("loss", "inf")),
        (6, order("scaler", {"kind": "scale", "factor": 0.5}, elements="all")),
        (7, order("gradient:first.weight", {"kind": "zero"}, elements="all")),
        (9, order("gradient:first.weight:reduced", {"kind": "zero"}, elements="all")),
        (10, order("activation:blocks.0", "stale", elements="all", steps=2)),
        (14, order("parameter:first.weight", "stale", elements="all")),
        (16, order("activation:first", {"kind": "stuck", "value": 0.0}, elements=2, steps=3)),
        (20, order("gradient:head.weight", "nan")),
        (22, order("gradient:first.weight", {"kind": "noise", "sigma": 0.1}, elements="all", steps=None)),
    ]
    run = Struck(tmp_path_factory.mktemp("otherwise"), of_hidden(HEAD) + OTHERWISE.replace("STEPS", "26"), orders)
    assert run.codes == [0], run.output
    assert not run.events("probe.error")
    run.steps = {line["n"]: line for line in run.printed[0]}
    return run


def struck_steps(run, id_of):
    return [event["n"] for event in run.events("corrupted") if event["id"] == id_of]


def test_a_loss_that_the_script_computes_is_changed_where_the_backward_begins(otherwise):
    told = otherwise.said[1]
    assert told["where"] == "loss" and told["n"] == 2
    first, _ = otherwise.steps[2]["losses"]
    before, after = (float.fromhex(told[key][0]) for key in ("before", "after"))
    assert first == after == pytest.approx(4 * before), "the job sees it, too"
    # Of the two micro-batches the first weighs four times what it did: about, for these gradients grow with n.
    grads = {n: sum(abs(value) for value in otherwise.steps[n]["grads"]["blocks.0.weight"]) for n in (1, 2, 3)}
    assert grads[2] > 1.5 * grads[1] and grads[3] < grads[2]
    steps = {event["n"]: event for event in otherwise.events("step")}
    assert float.fromhex(steps[2]["losses"][0]) == after, "the record has the loss before it was scaled"


def test_an_infinite_loss_has_the_scaler_leave_out_the_update(otherwise):
    assert otherwise.said[3]["after"] == ["inf"] and math.isinf(otherwise.steps[4]["losses"][0])
    assert otherwise.steps[3]["scale"] == 8 and otherwise.steps[4]["scale"] == 4


def test_the_scale_of_the_scaler(otherwise):
    assert otherwise.said[6]["where"] == "scale" and otherwise.said[6]["n"] == 6
    assert otherwise.steps[5]["scale"] == 4 and otherwise.steps[6]["scale"] == 2


def test_a_gradient_of_one_micro_batch_and_that_of_all(otherwise):
    own, reduced = (otherwise.steps[n]["grads"]["first.weight"] for n in (8, 10))
    assert any(own), "the second micro-batch has given its own"
    assert not any(reduced), "what all have made of it is gone"


def test_a_stale_tensor_is_that_of_the_step_before(otherwise):
    told = otherwise.said[10]
    assert told["n"] == 12 and struck_steps(otherwise, 6) == [12, 13]
    assert "refused" in otherwise.said[14], "with a rate of nothing, no parameter has changed"
    assert "stale would change nothing" in otherwise.said[14]["refused"]


def test_several_steps_strike_the_same_elements(otherwise):
    events = [event for event in otherwise.events("corrupted") if event["id"] == 8]
    assert [event["n"] for event in events] == [17, 18, 19]
    assert len({event["where"] for event in events}) == 1 and all(event["changed"] == 2 for event in events)
    assert otherwise.said[16]["n"] == 17, "the first one is told"


def test_a_gradient_that_never_comes_is_refused(otherwise):
    assert otherwise.said[20] == {"refused": "the backward passes of the step gave head.weight no gradient"}


def test_until_the_process_ends(otherwise):
    assert struck_steps(otherwise, 10) == [23, 24, 25, 26]


#: No module, no process group of several; and a module whose output autograd computes once more.
PLAIN = """
import os, torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
weight = torch.nn.Parameter(torch.ones(2, 3))
opt = torch.optim.SGD([weight], lr=0.1)
def step():
    opt.zero_grad()
    loss = (weight ** 2).sum(); loss.backward(); opt.step()
    return loss.item()
print([step() for _ in range(4)])
inner = torch.nn.Linear(3, 3)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.inner = inner
    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False).sum()
net = Net(); opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    opt.zero_grad(); net(torch.ones(2, 3)).backward(); opt.step()
print(bool(inner._forward_hooks))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    orders = [
        (0, order("gradient:group0.0:reduced", "nan")),
        (1, order("loss", {"kind": "stuck", "value": 5.0})),
        (2, order("activation:inner", "nan")),
        (3, order("collective:all_reduce", "nan")),
        (5, order("activation:inner", {"kind": "stuck", "value": 5.0})),
        (6, order("gradient:inner.*", {"kind": "bitflip", "which": "sign"}, elements="all")),
    ]
    run = Struck(tmp_path_factory.mktemp("plain"), PLAIN, orders)
    assert run.codes == [0] and not run.events("probe.error"), run.output
    return run


def test_a_loop_without_modules_is_struck_from_its_first_step_on(plain):
    first = plain.said[0]
    assert (first["n"], first["where"].split("[")[0], first["after"]) == (1, "group0.0", ["nan"])
    second = plain.said[1]
    assert (second["n"], second["before"], second["after"]) == (2, ["nan"], [(5.0).hex()])
    assert "the step did not use the output of inner" in plain.said[2]["refused"]
    assert "it made none at all" in plain.said[3]["refused"]


def test_what_autograd_computes_once_more_is_struck_once(plain):
    assert plain.said[5]["n"] == 6 and plain.said[5]["after"] == [(5.0).hex()]
    assert len([event for event in plain.events("corrupted") if event["n"] == 6]) == 1
    assert plain.said[6]["n"] == 7 and plain.output.splitlines()[-1] == "False"


def test_an_order_that_is_none_costs_the_rank_nothing(tmp_path):
    wrong = {**order("loss", "nan"), "into": {"kind": "moon"}}
    run = Struck(tmp_path, HEAD + SAME.replace("STEPS", "4"), [(1, wrong), (2, order("loss", {"kind": "melt"}))])
    assert run.codes == [0], run.output
    assert "the order is not valid: into: there is no target 'moon'" in run.said[1]["refused"]
    assert "there is no change 'melt'" in run.said[2]["refused"]
    assert len(run.events("step")) == 4 and len(run.events("probe.error")) == 1
