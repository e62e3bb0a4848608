"""What the probe records of programs that nobody wrote for it."""

import sys

import pytest

HEAD = """
import os, random, torch
torch.manual_seed(1)
random.seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
"""


def test_a_plain_loop_gives_every_component_and_exact_losses(probed, cold):
    run = probed(
        HEAD
        + """
for _ in range(3):
    loss = model(torch.randn(5, 4)).square().mean()
    print("LOSS", loss.item().hex())
    loss.backward(); optimizer.step(); optimizer.zero_grad()
""",
        cold=cold,
    )
    assert run.code == 0, run.output
    assert run.events("process.start")[0]["forked"] is not cold
    assert [event["stream"] for event in run.events("rng0")] == ["python", "numpy"]
    steps = run.life.steps
    printed = [line.split()[1] for line in run.output.splitlines() if line.startswith("LOSS")]
    assert [step.losses for step in steps] == [(loss,) for loss in printed]
    assert set(steps[0].components) == {
        "model", "buffers", "optimizer", "options", "lr", "batch", "rng.python", "rng.numpy", "rng.torch"
    }  # fmt: skip
    for name in ("model", "buffers", "optimizer", "batch", "rng.torch"):
        assert len({step.components[name] for step in steps}) == 3, name
    assert len({step.components["lr"] for step in steps}) == 1
    assert run.life.end is not None and not run.life.errors


def test_watching_changes_no_number(probed):
    program = (
        HEAD
        + """
import numpy
numpy.random.seed(1)
model.append(torch.nn.Dropout(0.5))
for _ in range(5):
    loss = model(torch.randn(5, 4) + random.random() + numpy.random.rand() * 0).square().mean()
    loss.backward(); optimizer.step(); optimizer.zero_grad()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, os.environ["CHAOSKIT_OUT"] + "/m.pt")
model.load_state_dict(torch.load(os.environ["CHAOSKIT_OUT"] + "/m.pt")["model"])
for _ in range(2):  # the probe looks for what is not finite
    (model(torch.randn(5, 4)).sum() * float("nan")).backward(); optimizer.step()
print("RESULT", loss.item().hex(), random.random(), numpy.random.rand(), torch.rand(()).item())
"""
    )
    with_probe, without = probed(program, cold=True), probed(program, probe=False)
    result = [line for line in with_probe.output.splitlines() if line.startswith("RESULT")]
    assert result and result == [line for line in without.output.splitlines() if line.startswith("RESULT")]
    assert len(with_probe.life.steps) == 7 and not without.history.incarnations
    assert with_probe.events("step")[-1]["nonfinite"] == ["model", "optimizer"]


def test_keyword_inputs_dataclasses_and_nested_ones_are_the_batch(probed):
    run = probed(
        """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.l = torch.nn.Linear(2, 1)
    def forward(self, *, inputs, extra=None):
        return self.l(inputs["x"][0])
net = Net(); opt = torch.optim.SGD(net.parameters(), lr=0.1)
for value in (1.0, 2.0, 1.0):
    net(inputs={"x": [torch.full((3, 2), value)]}).sum().backward(); opt.step()
"""
    )
    batches = [step.components["batch"] for step in run.life.steps]
    assert batches[0] == batches[2] != batches[1]


def test_of_what_a_model_is_told_beside_tensors_its_data_says_nothing(probed):
    run = probed(
        """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.l = torch.nn.Linear(4, 1)
    def forward(self, x, *_, **__):
        return self.l(x if torch.is_tensor(x) else torch.full((1, 4), float(x)))
net = Net(); opt = torch.optim.SGD(net.parameters(), lr=0.1)
def step(*args, **kwargs):
    net(*args, **kwargs).sum().backward(); opt.step(); opt.zero_grad()
x = torch.ones(3, 4)
step(x, 0); step(x, 7, flag=True, name="epoch 3"); step(x + 1, 0)
step(3); step(4); step(3); step(3, torch.tensor(0.5)); step(4, torch.tensor(0.5))
"""
    )
    assert run.code == 0 and not run.life.errors, run.output
    same, other, new, three, four, again, *scalar = (step.components["batch"] for step in run.life.steps)
    assert same == other != new
    assert three == again != four and scalar[0] != scalar[1]


def test_what_a_loss_module_is_given_by_the_model_is_no_data(probed):
    run = probed(
        """
import torch
net = torch.nn.Linear(2, 1); criterion = torch.nn.MSELoss(); opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    criterion(net(torch.ones(3, 2)), torch.ones(3, 1)).backward(); opt.step()
"""
    )
    one, two = run.life.steps
    assert (
        one.components["batch"] == two.components["batch"] and one.components["model"] != two.components["model"]
    )


def test_accumulation_gives_several_losses_and_one_step(probed):
    run = probed(
        HEAD
        + """
for group in (2, 3):
    for _ in range(group):
        model(torch.randn(5, 4)).sum().backward()
    optimizer.step(); optimizer.zero_grad()
"""
    )
    assert [len(step.losses) for step in run.life.steps] == [2, 3]


def test_forward_and_backward_in_a_closure_belong_to_the_step_that_runs_it(probed):
    run = probed(
        HEAD
        + """
def closure():
    optimizer.zero_grad()
    loss = model(torch.randn(5, 4)).sum(); print("LOSS", loss.item().hex()); loss.backward()
    return loss
for _ in range(3):
    optimizer.step(closure)
"""
    )
    printed = [(line.split()[1],) for line in run.output.splitlines() if line.startswith("LOSS")]
    assert [step.losses for step in run.life.steps] == printed


def test_two_optimizers_of_one_backward_are_one_step_and_both_are_known_from_the_first(probed):
    run = probed(
        """
import torch
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
one = torch.optim.SGD(net[0].parameters(), lr=0.1); two = torch.optim.Adam(net[1].parameters(), lr=0.2)
for _ in range(2):
    net(torch.randn(3, 2)).sum().backward(); one.step(); two.step()
"""
    )
    assert len(run.life.steps) == 2
    assert run.life.steps[0].components["lr"].startswith(f"{(0.1).hex()} {(0.2).hex()} @")


def test_a_skipped_step_of_the_scaler_counts_and_the_unscaled_loss_is_recorded(probed):
    run = probed(
        """
import torch
net = torch.nn.Linear(2, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2)
for index in range(4):
    loss = net(torch.ones(3, 2)).sum()
    print("LOSS", loss.item().hex())
    scaler.scale(loss).backward()
    if index == 1:
        net.weight.grad[0, 0] = float("inf")
    scaler.step(opt); scaler.update(); opt.zero_grad()
"""
    )
    printed = [(line.split()[1],) for line in run.output.splitlines() if line.startswith("LOSS")]
    steps = run.life.steps
    assert [step.losses for step in steps] == printed
    assert steps[1].components["model"] == steps[2].components["model"]
    assert len({step.components["scaler"] for step in steps}) >= 3


def test_averaged_models_are_known_before_their_first_update(probed):
    run = probed(
        HEAD
        + """
average = torch.optim.swa_utils.AveragedModel(model)
for _ in range(3):
    model(torch.randn(5, 4)).sum().backward(); optimizer.step(); average.update_parameters(model)
"""
    )
    assert len({step.components["ema"] for step in run.life.steps}) == 3


def test_evaluation_and_recomputation_are_no_batches(probed):
    run = probed(
        """
import torch
from torch.utils.checkpoint import checkpoint
net = torch.nn.Linear(2, 2); opt = torch.optim.SGD(net.parameters(), lr=0.0)
def step(x, again):
    (checkpoint(net, x, use_reentrant=False) if again else net(x)).sum().backward(); opt.step()
step(torch.ones(3, 2), False)
net.eval(); net(torch.zeros(1, 2)); net.train()
with torch.no_grad():
    net(torch.zeros(1, 2))
step(torch.ones(3, 2), True)
"""
    )
    one, two = run.life.steps
    assert one.components["batch"] == two.components["batch"]


def test_compiled_models_are_seen(probed, cold):
    run = probed(
        HEAD
        + """
compiled = torch.compile(model, backend="eager", fullgraph=True)
for _ in range(3):
    compiled(torch.randn(5, 4)).sum().backward(); optimizer.step(); optimizer.zero_grad()
""",
        cold=cold,
    )
    assert run.code == 0, run.output
    assert len({step.components["batch"] for step in run.life.steps}) == 3
    assert len({step.components["buffers"] for step in run.life.steps}) == 3 and not run.life.errors


def test_what_the_hooks_cannot_see_is_said(probed):
    run = probed(
        """
import torch
w = torch.zeros(3, requires_grad=True); opt = torch.optim.SGD([w], lr=0.1)
for _ in range(2):
    (w * torch.randn(3)).sum().backward(); opt.step()
"""
    )
    assert len(run.life.steps) == 2 and "batch" not in run.life.steps[0].components
    assert "no forward pass" in run.life.blind["batch"]


def test_loops_without_a_torch_optimizer_can_speak_for_themselves(probed):
    program = """
import torch, chaoskit.probe
w = torch.zeros(3)
for index in range(3):
    w += index
    chaoskit.probe.step(loss=w.sum(), batch=torch.tensor([index]), model={"w": w})
print("DONE")
"""
    run = probed(program)
    assert [step.losses for step in run.life.steps] == [(float(v).hex(),) for v in (0, 3, 9)]
    assert len({step.components["model"] for step in run.life.steps}) == 3
    without = probed(program, probe=False)
    assert "DONE" in without.output and not without.history.incarnations


def test_a_program_started_as_a_module(probed):
    run = probed(
        HEAD + "model(torch.randn(5, 4)).sum().backward(); optimizer.step()",
        command=(sys.executable, "-m", "program"),
    )
    assert run.code == 0 and len(run.life.steps) == 1


def test_epochs_are_where_a_loader_begins_and_training_follows(probed):
    run = probed(
        HEAD
        + """
data = torch.utils.data.TensorDataset(torch.randn(6, 4))
train, valid = (torch.utils.data.DataLoader(data, batch_size=2, num_workers=w) for w in (2, 0))
for _ in range(2):
    for index, (x,) in enumerate(train):
        model(x).sum().backward(); optimizer.step()
        if index == 1:
            model.eval()
            for (v,) in valid:
                model(v)
            model.train()
"""
    )
    assert run.life.epochs == [0, 3] and len(run.life.steps) == 6
    assert len(run.history.incarnations[0].ranks) == 1 and not run.life.errors


def test_options_of_parameter_groups_are_a_component(probed):
    run = probed(
        """
import torch
net = torch.nn.Linear(2, 1)
opt = torch.optim.AdamW([{"params": [net.weight]}, {"params": [net.bias], "weight_decay": 0}], lr=0.1)
def step():
    net(torch.ones(3, 2)).sum().backward(); opt.step()
step(); step()
opt.param_groups[1]["weight_decay"] = 0.1; step()
opt.param_groups[1]["weight_decay"] = 0.0; opt.param_groups[0]["lr"] = 0.2; step()
opt.param_groups[0]["betas"] = (0.8, 0.999); step()
opt.param_groups[0]["betas"] = [torch.tensor(0.9), 0.999]; step()
"""
    )
    one, two, three, four, five, six = (step.components["options"] for step in run.life.steps)
    assert one == two == four and len({one, three, five}) == 3, run.output
    assert not run.life.errors and six not in (three, five)


def test_samples_are_the_rows_of_what_the_model_is_given(probed):
    run = probed(
        """
import torch
net = torch.nn.Linear(2, 1); criterion = torch.nn.MSELoss(); opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.arange(12.).view(6, 2), torch.arange(6.).view(6, 1)
def step(*places):
    for at in places:
        criterion(net(x[at]), y[at]).backward()
    opt.step()
step(slice(0, 4)); step(slice(0, 2), slice(2, 4)); step([3, 2, 5]); step([])
class Named(torch.nn.Module):
    def forward(self, *, ids, mask, lengths): return net(ids) * lengths.numel()
named = Named()
named(ids=x, mask=torch.ones(6, 1, 1), lengths=torch.ones(6)).sum().backward(); opt.step()
named(ids=x, mask=torch.ones(1, 6), lengths=torch.ones(6)).sum().backward(); opt.step()
net(x[:2].requires_grad_()).sum().backward(); opt.step()
"""
    )
    assert run.code == 0, run.output
    whole, halves, mixed, empty, named, uneven, computed = (step.get("samples") for step in run.events("step"))
    assert len(set(whole)) == 4 and halves == whole
    assert mixed[:2] == [whole[3], whole[2]] and mixed[2] not in whole
    assert empty == [] and len(set(named)) == 6
    assert uneven is None and computed is None
    assert not run.life.errors


def test_single_tensors_are_written_at_first_and_after_a_save_or_a_load(probed):
    run = probed(
        HEAD
        + """
average = torch.optim.swa_utils.AveragedModel(model)
def step():
    model(torch.randn(5, 4)).sum().backward(); optimizer.step()
step(); step()
torch.save(model.state_dict(), os.environ["CHAOSKIT_OUT"] + "/m.pt")
step(); step()
torch.load(os.environ["CHAOSKIT_OUT"] + "/m.pt"); torch.load(os.environ["CHAOSKIT_OUT"] + "/m.pt")
step(); step()
"""
    )
    events = run.events("tensors")
    assert [event["n"] for event in events] == [1, 3, 5], run.output
    first, second = (event["tensors"] for event in events[:2])
    assert set(first) == {"model", "buffers", "options", "ema"} and set(second) == {*first, "optimizer"}
    assert {"0.weight", "2.bias"} < set(first["model"]) and "0.weight.exp_avg" in second["optimizer"]
    # What was saved is what the next step began with.
    (save,) = run.events("save.begin")
    assert save["content"] == {**second["model"], **save["content"]} and len(second["model"]) == 6


def test_what_is_not_finite_is_looked_for_at_times_and_in_each_step_once_a_loss_was_not(probed):
    run = probed(
        """
import torch
net = torch.nn.Linear(2, 1, bias=False); opt = torch.optim.Adam(net.parameters(), lr=0.1)
def step(factor):
    (net(torch.ones(3, 2)).sum() * factor).backward(); opt.step(); opt.zero_grad()
step(1.0); step(float("nan"))
with torch.no_grad():
    net.weight.fill_(1.0)
step(0.0)
for state in opt.state.values():
    state["exp_avg"].zero_(); state["exp_avg_sq"].zero_()
with torch.no_grad():
    net.weight.fill_(1.0)
step(0.0)
"""
    )
    assert [step.get("nonfinite") for step in run.events("step")] == [[], [], ["optimizer"], []], run.output


def test_a_mask_is_told_from_a_parameter_that_training_spoilt(probed):
    run = probed(
        """
import torch
net = torch.nn.Linear(2, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
net.mask = torch.nn.Parameter(torch.full((2,), -torch.inf))
net.unused = torch.nn.Parameter(torch.full((2,), torch.nan), requires_grad=False)
opt.add_param_group({"params": [net.mask]})
for n in range(1, 9):
    net(torch.ones(3, 2)).sum().backward(); opt.step(); opt.zero_grad()
    if n == 3:
        with torch.no_grad():
            net.mask.fill_(torch.nan)
"""
    )
    told = [step.get("nonfinite") for step in run.events("step")]
    assert told == [["masks"], ["masks"], None, ["model", "masks"], None, None, None, ["model", "masks"]], run.output


def test_loops_that_speak_for_themselves_have_samples_and_tensors(probed):
    run = probed(
        """
import torch, chaoskit.probe
w = torch.zeros(3)
for index in range(2):
    batch = {"x": torch.arange(4) + index, "y": torch.ones(4, 2)}
    chaoskit.probe.step(loss=w.sum(), batch=batch, model={"w": w}, optimizer={"state": {0: {"m": w + 1}}})
"""
    )
    one, two = (step["samples"] for step in run.events("step"))
    assert one[1:] == two[:3] and len(set(one)) == 4, run.output
    (event,) = run.events("tensors")
    assert {name: set(found) for name, found in event["tensors"].items()} == {
        "model": {"w"}, "optimizer": {"state.0.m"}
    }  # fmt: skip


#: Stands in for an accelerator: every tensor is reduced where it lies.
DEVICE = """
import torch
torch.Tensor.is_cpu = property(lambda self: False)
"""


def test_what_a_device_computes_follows_late_and_means_the_same(probed):
    program = (
        DEVICE
        + HEAD
        + """
for _ in range(3):
    model(torch.randn(5, 4)).square().mean().backward(); optimizer.step(); optimizer.zero_grad()
torch.save(model.state_dict(), os.environ["CHAOSKIT_OUT"] + "/m.pt")
"""
    )
    one, two = probed(program), probed(program)
    assert [event["n"] for event in one.events("late")] == [1, 2, 3], one.output
    early, late = one.events("step")[0], one.events("late")[0]
    assert "model" not in early["state"] and not {"samples", "losses"} & set(early.data)
    assert len(late["samples"]) == 5 and len(late["losses"]) == 1
    (tensors,) = one.events("tensors")
    assert len(tensors["tensors"]["model"]) == 6 and len(set(tensors["tensors"]["model"].values())) >= 4
    first, second = one.life.steps, two.life.steps
    assert [step.components for step in first] == [step.components for step in second]
    assert len({step.components["model"] for step in first}) == 3 and len(first[0].components) == 9
    assert [event["samples"] for event in one.events("late")] == [event["samples"] for event in two.events("late")]
    # The last one is written before a save begins, and not only when the process ends.
    kinds = [(e.kind, e.t) for e in one.events("late")[-1:] + one.events("save.begin")]
    assert kinds[0][1] <= kinds[1][1]


def test_on_a_device_a_bad_loss_is_known_one_step_later(probed):
    run = probed(
        DEVICE
        + """
net = torch.nn.Linear(2, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
for factor in (1.0, float("nan"), 1.0, 1.0):
    (net(torch.ones(3, 2)).sum() * factor).backward(); opt.step(); opt.zero_grad()
"""
    )
    assert [late.get("nonfinite") for late in run.events("late")] == [[], [], ["model"], ["model"]], run.output


BY_GROUPS = """
import torch
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
groups = [{"params": list(net[0].parameters())}, {"params": list(net[1].parameters()), "lr": 0.2}]
opt = torch.optim.AdamW(groups, lr=0.1)
for n in range(3):
    net(torch.randn(5, 4)).sum().backward()
    if n == 2:
        changed()
    every = opt.param_groups
    for group in every if TURNS else [every]:
        opt.param_groups = [group] if TURNS else group
        opt.step()
    opt.param_groups = every
    opt.zero_grad()
"""
CHANGES = {
    "nothing": "pass",
    "moments": "opt.state[net[1].weight]['exp_avg'].zero_()",
    "rate": "opt.param_groups[1]['lr'] = 0.3",
    "weights": "net[1].weight.data.zero_()",
}


def test_an_optimizer_that_steps_one_group_after_the_other_is_seen_with_all_of_them(probed):
    """As DeepSpeed's ZeRO does, which takes the other groups away meanwhile."""

    def last(turns, change):
        run = probed(f"TURNS = {turns}\ndef changed():\n    {CHANGES[change]}\n{BY_GROUPS}")
        assert run.code == 0 and not run.life.errors, run.output
        assert [step.n for step in run.life.steps] == [1, 2, 3]
        return run.life.steps[2].components

    usual = last(True, "nothing")
    for name in ("model", "optimizer", "lr", "options"):
        assert usual[name] == last(False, "nothing")[name], name
    for change, name in (("moments", "optimizer"), ("rate", "lr"), ("weights", "model")):
        differ = {each for each, value in last(True, change).items() if value != usual[each]}
        assert differ == {name}, change


@pytest.mark.parametrize("options", ["", ", foreach=True"])
def test_a_step_count_that_was_loaded_to_a_device_is_the_same_number(probed, options):
    """`torch.load(map_location=device)` brings it there, and only fused and capturable optimizers keep it there."""
    run = probed(
        """
import torch
away, kept = set(), []
torch.Tensor.is_cpu = property(lambda x: id(x) not in away)
net = torch.nn.Linear(2, 1); opt = torch.optim.AdamW(net.parameters(), lr=0.0, weight_decay=0.0OPTIONS)
def step(): net(torch.ones(3, 2)).sum().backward(); opt.step(); opt.zero_grad()
step(); step()
for state in opt.state.values():
    for key in state: state[key] = torch.zeros_like(state[key])
step()
for state in opt.state.values():
    for key in ("exp_avg", "exp_avg_sq"): state[key].zero_()
    state["step"] = torch.tensor(0.0); away.add(id(state["step"]))
step()
""".replace("OPTIONS", options)
    )
    _, _, in_memory, there = run.life.steps
    assert run.code == 0 and not run.life.errors, run.output
    assert in_memory.components["optimizer"] == there.components["optimizer"]


def test_a_loss_of_several_numbers_on_a_device_counts_by_its_numbers(probed):
    program = DEVICE + """
import sys
net = torch.nn.Linear(2, 1); opt = torch.optim.SGD(net.parameters(), lr=0.0)
with torch.no_grad(): net.weight.fill_(1.0); net.bias.fill_(0.0)
for factor in (1.0, 1.0, 2.0):
    (net(torch.ones(3, 2)) * factor).backward(torch.ones(3, 1)); opt.step(); opt.zero_grad()
"""
    run = probed(program)
    one, two, three = (late["losses"] for late in run.events("late"))
    assert one == two != three and one[0].startswith("tensor:"), run.output
