"""CUDA graphs: what a capture has seen is recorded with each replay. A class of our own stands in for a graph."""

HEAD = """
import torch
from chaoskit.probe import session as probe
from chaoskit.probe.graphs import hook_graphs
class Graph:
    "Repeats what it is told to, past all hooks."
    def capture_begin(self): pass
    def capture_end(self): pass
    def replay(self): self.repeats()
session = probe.session
hook_graphs(session, session.observer, Graph, session.outside)
torch.manual_seed(1)
net = torch.nn.Linear(3, 1, bias=False); opt = torch.optim.SGD(net.parameters(), lr=0.1)
rows, loss = torch.zeros(4, 3), torch.zeros(())
def backward():
    with torch.no_grad():
        loss.copy_((rows @ net.weight.t()).mean())
        net.weight.grad = rows.mean(0, keepdim=True)
def update():
    with torch.no_grad(): net.weight.add_(net.weight.grad, alpha=-0.1)
def forward():
    made = net(rows).mean(); made.backward(); return made
def fill(n): rows.copy_(torch.full((4, 3), float(n + 1)) + torch.arange(4.0)[:, None])
def eager(n): fill(n); forward(); opt.step(); opt.zero_grad()
"""
EAGER = HEAD + "for n in range(5): eager(n)\n"


def all_alike(plain, graphed):
    """Each of the five steps tells the same, however it was taken."""
    assert graphed.code == 0 and not graphed.life.errors, graphed.output
    one, two = plain.life.steps, graphed.life.steps
    assert len(one) == len(two) == 5
    assert [(step.components, step.samples) for step in one] == [(step.components, step.samples) for step in two]
    assert [len(step.losses) for step in two] == [1] * 5


def test_replays_of_a_whole_step_are_steps_like_any_other(probed):
    plain = probed(EAGER)
    graphed = probed(
        HEAD
        + """
for n in range(2): eager(n)
graph = Graph()
fill(2)
kept = net.weight.detach().clone()
graph.capture_begin(); made = forward().detach(); opt.step(); opt.zero_grad(); graph.capture_end()
with torch.no_grad(): net.weight.copy_(kept)  # a capture computes nothing
def both(): backward(); made.copy_(loss); update()
graph.repeats = both
for n in range(2, 5): fill(n); graph.replay()
"""
    )
    all_alike(plain, graphed)


def test_replays_of_forward_and_backward_leave_the_step_to_the_job(probed):
    plain = probed(EAGER)
    graphed = probed(
        HEAD
        + """
for n in range(2): eager(n)
graph = Graph()
fill(2)
graph.capture_begin(); made = forward().detach(); graph.capture_end()
graph.repeats = lambda: (backward(), made.copy_(loss))
for n in range(2, 5): fill(n); graph.replay(); opt.step(); opt.zero_grad()
"""
    )
    all_alike(plain, graphed)


def test_graphs_within_a_model_or_of_something_else_are_no_steps(probed):
    run = probed(
        HEAD
        + """
class Holder(torch.nn.Module):
    def __init__(self): super().__init__(); self.net = net
    def forward(self, x): graph.replay(); return self.net(x)
graph, other = Graph(), Graph()
graph.capture_begin(); made = net(rows); graph.capture_end()
graph.repeats = other.repeats = lambda: None
other.replay()
whole = Holder()
for n in range(3):
    fill(n); whole(rows).mean().backward(); opt.step(); opt.zero_grad()
"""
    )
    assert run.code == 0 and not run.life.errors, run.output
    assert [(len(step.losses), len(step.samples)) for step in run.life.steps] == [(1, 4)] * 3
