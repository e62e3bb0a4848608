"""The buffers of a step are those that it began with: before its forward pass moves them, as all ranks have them."""

import pytest

from chaoskit.analysis.record.history import History, lifetimes
from tests.probe.struck import Struck

HEAD = """
import os, torch
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def step(*batches, model=net):
    for x in batches:
        model(x).sum().backward()
    opt.step(); opt.zero_grad()
"""


def buffers(run):
    assert not run.life.errors, run.output
    return [step.components.get("buffers") for step in run.life.steps]


def test_the_batch_of_a_step_does_not_show_in_its_buffers(probed):
    """The same state, then another batch, or more micro-batches; and after an evaluation, and a forward for its own."""
    program = """
before = {{k: v.clone() for k, v in net.state_dict().items()}}
step(torch.randn(5, 4))
step(torch.randn(5, 4))
net.load_state_dict(before)
net.eval(); net(torch.randn(5, 4)); net.train()
step({})
"""
    one, two, again = buffers(probed(HEAD + program.format("torch.ones(3, 4), torch.randn(5, 4)")))
    assert one == again != two
    assert [one, two, again] == buffers(probed(HEAD + program.format("torch.zeros(2, 4)")))


def test_what_changes_them_between_two_steps_shows(probed):
    run = probed(
        HEAD
        + """
net[1].momentum = 0.0
x = torch.randn(5, 4)
step(x)
net[1].num_batches_tracked.zero_(); step(x)
net[1].num_batches_tracked.zero_(); net[1].running_mean[3] += 1e-3; step(x)
"""
    )
    one, same, changed = buffers(run)
    assert one == same != changed


def test_a_module_without_buffers_has_no_such_component(probed):
    run = probed(HEAD + "net = torch.nn.Linear(4, 1)\nfor _ in range(2): step(torch.randn(5, 4), model=net)\n")
    assert buffers(run) == [None, None]


DDP = """
import torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + os.environ["CHAOSKIT_OUT"] + "/store", rank=rank, world_size=2)
model = torch.nn.parallel.DistributedDataParallel(net)
if COMPILED:
    model = torch.compile(model, backend="eager")
net[1].running_mean += rank  # what rank 0 has is brought to all as the forward begins
for _ in range(2):
    step(torch.randn(5, 4) + rank, torch.randn(5, 4) - rank, model=model)
net[1].running_var[0] += 1
step(torch.randn(5, 4), model=model)
del model
dist.destroy_process_group()
"""


@pytest.mark.parametrize("compiled", [False, True])
def test_all_ranks_of_a_ddp_job_have_those_of_rank_0(tmp_path, compiled):
    """Within a compiled module no beginning of a forward is seen: they are as its end leaves them on each rank."""
    job = Struck(tmp_path, HEAD + DDP.replace("COMPILED", str(compiled)), {}, world=2)
    assert job.codes == [0, 0], job.output
    ranks = [life for _, life in lifetimes(History.read(tmp_path))]
    zero, one = ([step.components["buffers"] for step in life.steps] for life in ranks)
    assert (zero == one) is not compiled and len(set(zero)) == 3, job.output
    assert not any(life.errors for life in ranks)
