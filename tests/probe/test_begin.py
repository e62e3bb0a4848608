"""The random streams as a step begins: recorded for the first step, and for those that follow a save or a load."""

HEAD = """
import os, random, torch
from torch.utils.data import DataLoader
torch.manual_seed(3)
net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(), torch.nn.Linear(3, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def step(x):
    net(x).sum().backward(); opt.step(); opt.zero_grad()
out = os.path.join(os.environ["CHAOSKIT_OUT"], "x.pt")
"""


def test_as_the_first_forward_begins_and_as_the_batch_is_drawn(probed):
    run = probed(
        HEAD
        + """
for n, x in enumerate(DataLoader(torch.ones(10, 3), batch_size=2), start=1):
    x = x + torch.randn_like(x)
    for part in x.split(1): net(part).sum().backward()
    opt.step(); opt.zero_grad()
    if n == 3: torch.save(net.state_dict(), out)
"""
    )
    assert run.code == 0 and not run.life.errors
    begins, steps = run.life.begins, run.life.steps
    assert sorted(begins) == [1, 4] and all(set(named) == {"draw", "forward"} for named in begins.values())
    for n, named in begins.items():
        values = [named["draw"]["rng.torch"], named["forward"]["rng.torch"], steps[n - 1].components["rng.torch"]]
        assert len(set(values)) == 3  # noise, then two masks
        assert named["draw"]["rng.python"] == steps[0].components["rng.python"]
    assert begins[4]["draw"]["rng.torch"] == steps[2].components["rng.torch"]


def test_of_a_loader_that_runs_forward_the_draw_of_the_batch_that_is_used(probed):
    run = probed(
        HEAD
        + """
batches = iter(DataLoader(torch.ones(10, 3), batch_size=2))
for _ in range(2): next(batches)
torch.manual_seed(7)
state = torch.default_generator.get_state()
x = next(batches)
step(x)
"""
    )
    named = run.life.begins[1]
    assert named["draw"] == named["forward"]


def test_the_probe_draws_nothing_by_it(probed):
    program = HEAD + "step(torch.ones(2, 3)); print('DREW', torch.rand(1).item(), random.random())"
    seeded = program.replace("torch.manual_seed(3)", "torch.manual_seed(3); random.seed(3)")
    lines = [[one for one in probed(seeded, probe=on).output.splitlines() if "DREW" in one] for on in (True, False)]
    assert lines[0] == lines[1] != []
