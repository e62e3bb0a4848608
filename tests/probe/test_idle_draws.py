"""Draws that nobody uses: each iterator of a data loader draws a seed for its workers, also where it has none."""

import pytest

HEAD = """
import random, torch
from torch.utils.data import DataLoader, RandomSampler
torch.manual_seed(3)
rows = torch.arange(12.).reshape(6, 2)
net = torch.nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
class Eager:
    def __iter__(self): return iter(torch.randperm(6).tolist())
    def __len__(self): return 6
def step():
    net(rows[:2]).sum().backward(); opt.step(); opt.zero_grad()
step()
"""


def moves(run):
    """The states of torch's stream in both steps, and the draws that nobody used."""
    assert run.code == 0 and not run.life.errors
    states = [run.life.steps[n].components["rng.torch"] for n in (0, 1)]
    return states, run.life.idle_draws.get("rng.torch", {})


def test_the_seed_of_a_loader_without_workers(probed):
    states, drawn = moves(probed(HEAD + "list(DataLoader(rows, batch_size=2)); list(DataLoader(rows)); step()"))
    assert len(drawn) == 2 and states[0] != states[1]
    assert drawn[drawn[states[0]]] == states[1]


@pytest.mark.parametrize(
    "loader",
    [
        "DataLoader(rows, shuffle=True)",  # the order is drawn by the sampler, later
        "DataLoader(rows, sampler=RandomSampler(rows, replacement=True, num_samples=4))",
        "DataLoader(rows, batch_sampler=[[0]], collate_fn=lambda x: torch.rand(1))",
        "DataLoader(rows, sampler=Eager(), batch_size=None)",  # drawn as the iterator is made, with the seed
        "DataLoader(rows, num_workers=1)",
    ],
)
def test_draws_that_somebody_uses(probed, loader):
    states, drawn = moves(probed(HEAD + f"list({loader}); step()"))
    assert states[0] != states[1] and drawn.get(states[0]) != states[1]


def test_a_generator_of_its_own_moves_nothing(probed):
    states, drawn = moves(probed(HEAD + "list(DataLoader(rows, generator=torch.Generator())); step()"))
    assert states[0] == states[1] and not drawn


def test_the_probe_draws_nothing_by_it(probed):
    program = HEAD + "random.seed(3); list(DataLoader(rows)); print('DREW', torch.rand(1).item(), random.random())"
    lines = [[one for one in probed(program, probe=on).output.splitlines() if "DREW" in one] for on in (True, False)]
    assert lines[0] == lines[1] != []
