"""A state that is kept and put back is the same to the bit, and so is all that is computed from it afterwards."""

import json
import random
import sys

import pytest
import torch

from chaoskit.probe import components
from chaoskit.probe.naming import parameters
from chaoskit.probe.snapshot import is_raised_by_job, put_back, take
from chaoskit.probe.streams import streams


class Job:
    """A small training that uses whatever there is: dropout, buffers, an average, a schedule in the groups."""

    def __init__(self, optimizer=torch.optim.AdamW, **options):
        torch.manual_seed(5)
        random.seed(5)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)
        )
        self.average = torch.optim.swa_utils.AveragedModel(self.model, use_buffers=True)
        self.optimizer = optimizer(self.model.parameters(), lr=0.05, **options)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    @property
    def held(self):
        return [self.optimizer], [self.model], [self.average], [self.scaler]

    def step(self):
        x = torch.randn(6, 4) * random.random()
        loss = self.model(x).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.optimizer.param_groups[0]["lr"] *= 0.9
        self.average.update_parameters(self.model)
        return loss.item().hex()

    def fingerprints(self):
        optimizers, roots, averages, scalers = self.held
        return [
            components.model(parameters(optimizers, roots)).hexdigest(),
            components.buffers(roots).hexdigest(),
            components.optimizer(optimizers, roots).hexdigest(),
            components.learning_rates(optimizers, roots),
            components.options(optimizers, roots).hexdigest(),
            components.averages(averages).hexdigest(),
            (found := components.scaler(scalers)) and found.hexdigest(),
            streams(torch),
        ]


@pytest.mark.parametrize(
    "optimizer, options",
    [
        (torch.optim.AdamW, {"amsgrad": True}),
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.Adagrad, {}),
        (torch.optim.LBFGS, {"max_iter": 1}),
    ],
)
def test_what_comes_after_is_the_same_to_the_bit(optimizer, options, tmp_path):
    job = Job(optimizer, **options)
    if optimizer is torch.optim.LBFGS:
        job.scaler = torch.amp.GradScaler("cpu", enabled=False)
        job.scaler.step = lambda optimizer: optimizer.step(lambda: job.model(torch.ones(6, 4)).square().mean())
    for _ in range(3):
        job.step()
    kept, then = take(*job.held, torch), job.fingerprints()
    torch.save(kept, tmp_path / "kept.pt")
    losses = [job.step() for _ in range(4)]
    for parameter in job.model.parameters():
        parameter.data.fill_(float("nan"))
    put_back(torch.load(tmp_path / "kept.pt", weights_only=True), *job.held, torch)
    assert job.fingerprints() == then
    assert [job.step() for _ in range(4)] == losses


def test_every_tensor_stays_where_it_is():
    job = Job()
    job.step()
    kept = take(*job.held, torch)
    before = [p.data_ptr() for p in job.model.parameters()]
    moments = [state["exp_avg"].data_ptr() for state in job.optimizer.state.values()]
    job.step()
    put_back(kept, *job.held, torch)
    assert [p.data_ptr() for p in job.model.parameters()] == before
    assert [state["exp_avg"].data_ptr() for state in job.optimizer.state.values()] == moments


def test_gradients_that_a_skipped_update_has_left_go():
    job = Job()
    kept = take(*job.held, torch)
    job.model(torch.full((6, 4), float("nan"))).sum().backward()
    put_back(kept, *job.held, torch)
    assert all(parameter.grad is None for parameter in job.model.parameters())


def test_what_cannot_be_copied_is_said():
    job = Job()
    job.step()
    next(iter(job.optimizer.state.values()))["odd"] = object()
    with pytest.raises(TypeError, match="a object in the training state cannot be kept"):
        take(*job.held, torch)


def test_another_form_is_refused():
    job = Job()
    kept = take(*job.held, torch)
    with pytest.raises((RuntimeError, ValueError)):
        put_back({**kept, "parameters": kept["parameters"][1:]}, *job.held, torch)


def guard(loss):
    if loss != loss:
        raise RuntimeError("stop here")


def claim(loss):
    assert loss == loss


@pytest.mark.parametrize(
    "act, own",
    [
        (lambda: guard(float("nan")), True),
        (lambda: claim(float("nan")), True),
        (lambda: 1 / 0, False),
        (lambda: [][1], False),
        (lambda: json.loads("{"), False),
        (lambda: torch.zeros(2) @ torch.zeros(3), False),
        (lambda: torch.nn.Linear(2, 2)(torch.zeros(3)), False),
    ],
)
def test_a_guard_is_told_from_an_accident(act, own):
    try:
        act()
    except Exception:
        assert is_raised_by_job(sys.exc_info()[2]) is own
    else:
        pytest.fail("it raised nothing")
