"""Steps whose update is left out, checkpoints that are read in mid-life, and which ranks hold replicas."""

HEAD = """
import os, random, torch
torch.manual_seed(1)
out = os.environ["CHAOSKIT_OUT"]
net = torch.nn.Linear(4, 1)
opt = torch.optim.AdamW(net.parameters(), lr=0.1)
batches = torch.randn(20, 5, 4)
def save(): torch.save({"model": net.state_dict(), "optimizer": opt.state_dict()}, out + "/c.pt")
def load():
    state = torch.load(out + "/c.pt")
    net.load_state_dict(state["model"]); opt.load_state_dict(state["optimizer"])
def backward(index): net(batches[index]).square().mean().backward()
"""


def test_a_step_that_the_job_leaves_out_is_a_step_all_the_same(probed):
    run = probed(
        HEAD
        + """
for index in range(5):
    backward(index)
    if index != 2: opt.step()
    opt.zero_grad()
    if index == 2: save()
"""
    )
    steps = run.life.steps
    assert list(steps.numbers) == [1, 2, 3, 4, 5], run.output
    assert len(set(steps.columns["batch"])) == 5 and all(len(step.losses) == 1 for step in steps)
    moved = [a != b for a, b in zip(steps.columns["model"], steps.columns["model"][1:], strict=False)]
    assert moved == [True, True, False, True]
    assert steps.columns["optimizer"][2] == steps.columns["optimizer"][3]
    assert [save.n for save in run.life.saves] == [3]
    assert run.life.left_out == [3]


def test_a_step_is_left_out_too_where_gradients_are_cleared_at_the_head_of_the_next(probed):
    run = probed(
        HEAD
        + """
for index in range(4):
    opt.zero_grad()
    backward(index)
    if index != 1: opt.step()
"""
    )
    assert len(run.life.steps) == 4, run.output
    assert run.life.steps.columns["model"][1] == run.life.steps.columns["model"][2]


def test_a_job_that_always_throws_gradients_away_takes_no_more_steps_for_it(probed):
    run = probed(
        HEAD
        + """
for index in range(3):
    backward(index); opt.zero_grad()  # a look around, as sharpness-aware optimizers have it
    backward(index); opt.step(); opt.zero_grad()
"""
    )
    assert [len(step.losses) for step in run.life.steps] == [2, 2, 2], run.output


def test_another_optimizer_whose_gradients_are_cleared_takes_no_step(probed):
    run = probed(
        HEAD
        + """
other = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
for index in range(3):
    backward(index); other.zero_grad(); opt.step(); opt.zero_grad()
"""
    )
    assert len(run.life.steps) == 3, run.output


def test_the_step_after_a_load_in_mid_life_says_so_and_a_rollback_is_a_life_of_its_own(probed):
    run = probed(
        HEAD
        + """
load_data = lambda: torch.load(out + "/d.pt")
torch.save(batches, out + "/d.pt"); load_data()
def step(index): backward(index); opt.step(); opt.zero_grad()
step(0); step(1); save(); load_data(); step(2); step(3)
backward(4); load(); opt.zero_grad()     # it goes back instead
step(2); step(3)
"""
    )
    assert [event["n"] for event in run.events("step") if event.get("loaded")] == [3, 6], run.output
    first, second = run.history.incarnations
    assert (len(first.ranks[0].steps), len(second.ranks[0].steps), second.taken) == (5, 2, 5)
    before, after = first.ranks[0].steps, second.ranks[0].steps
    for name in ("model", "optimizer", "batch"):
        assert list(before.columns[name][2:4]) == list(after.columns[name]), name
    assert before.losses[2:4] == after.losses
    assert [load.n for load in second.ranks[0].loads] == [0]
    assert [save.n for save in first.ranks[0].saves] == [0, 2]


def test_the_ranks_of_a_distributed_model_hold_replicas(probed):
    run = probed(
        HEAD
        + """
torch.distributed.init_process_group("gloo", init_method=f"file://{out}/meet", rank=0, world_size=1)
wrapped = torch.nn.parallel.DistributedDataParallel(net)
for index in range(2):
    wrapped(batches[index]).sum().backward(); opt.step(); opt.zero_grad()
"""
    )
    assert [event["ranks"] for event in run.events("replicas")] == [[0]], run.output
    assert run.life.replicas == (0,)


def test_a_bare_model_has_no_replicas(probed):
    run = probed(HEAD + "backward(0); opt.step()\n")
    assert run.events("replicas") == [] and not run.life.errors
