"""What the probe records of programs that nobody wrote for it."""

import sys

HEAD = """
import os, random, torch
torch.manual_seed(1)
random.seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
"""


def test_a_plain_loop_gives_every_component_and_exact_losses(probed):
    run = probed(
        HEAD
        + """
for _ in range(3):
    loss = model(torch.randn(5, 4)).square().mean()
    print("LOSS", loss.item().hex())
    loss.backward(); optimizer.step(); optimizer.zero_grad()
"""
    )
    assert run.code == 0, run.output
    steps = run.life.steps
    printed = [line.split()[1] for line in run.output.splitlines() if line.startswith("LOSS")]
    assert [step.losses for step in steps] == [(loss,) for loss in printed]
    assert set(steps[0].components) == {
        "model", "buffers", "optimizer", "lr", "batch", "rng.python", "rng.numpy", "rng.torch"
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
model.append(torch.nn.Dropout(0.5))
for _ in range(5):
    loss = model(torch.randn(5, 4) + random.random() + numpy.random.rand() * 0).square().mean()
    loss.backward(); optimizer.step(); optimizer.zero_grad()
torch.save(model.state_dict(), os.environ["OUT"] + "/m.pt")
print("RESULT", loss.item().hex(), random.random(), torch.rand(()).item())
"""
    )
    with_probe, without = probed(program), probed(program, probe=False)
    result = [line for line in with_probe.output.splitlines() if line.startswith("RESULT")]
    assert result and result == [line for line in without.output.splitlines() if line.startswith("RESULT")]
    assert len(with_probe.life.steps) == 5 and not without.history.incarnations


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
    assert run.life.steps[0].components["lr"] == f"{(0.1).hex()} {(0.2).hex()}"


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


def test_compiled_models_are_seen(probed):
    run = probed(
        HEAD
        + """
compiled = torch.compile(model, backend="eager", fullgraph=True)
for _ in range(3):
    compiled(torch.randn(5, 4)).sum().backward(); optimizer.step(); optimizer.zero_grad()
"""
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


def test_what_a_device_computes_follows_late_and_means_the_same(probed):
    program = (
        """
import chaoskit.fingerprint as fp
def tensor(self, value):
    self.text(str(value.dtype) + str(tuple(value.shape)))
    self.reductions.extend(fp.reduce_on_device(value.reshape(-1)))
fp.Fingerprint.tensor = tensor  # stands in for an accelerator: every tensor is reduced where it lies
"""
        + HEAD
        + """
for _ in range(3):
    model(torch.randn(5, 4)).square().mean().backward(); optimizer.step(); optimizer.zero_grad()
torch.save(model.state_dict(), os.environ["OUT"] + "/m.pt")
"""
    )
    one, two = probed(program), probed(program)
    assert [event["n"] for event in one.events("late")] == [1, 2, 3], one.output
    assert "model" not in one.events("step")[0]["state"]
    first, second = one.life.steps, two.life.steps
    assert [step.components for step in first] == [step.components for step in second]
    assert len({step.components["model"] for step in first}) == 3 and len(first[0].components) == 8
    # The last one is written before a save begins, and not only when the process ends.
    kinds = [(e.kind, e.t) for e in one.events("late")[-1:] + one.events("save.begin")]
    assert kinds[0][1] <= kinds[1][1]
