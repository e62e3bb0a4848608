"""Copies of parameters that follow them are found, however they are kept; nothing else is."""

import copy

import pytest
import torch

from chaoskit.probe.followers import Followers


class Shadow:
    """The usual class of a moving average: new tensors at each update."""

    def __init__(self, model):
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model, share=0.01):
        for name, p in model.named_parameters():
            self.weights[name] = (1 - share) * self.weights[name] + share * p.detach()


class InPlace(Shadow):
    def update(self, model):
        for name, p in model.named_parameters():
            self.weights[name].mul_(0.99).add_(p.detach(), alpha=0.01)


class Listed(Shadow):
    def __init__(self, model):
        self.weights = [p.detach().clone() for p in model.parameters()]

    def update(self, model):
        torch._foreach_lerp_(self.weights, [p.detach() for p in model.parameters()], 0.01)


class Twin(Shadow):
    def __init__(self, model):
        self.module = copy.deepcopy(model).requires_grad_(False)

    def update(self, model):
        for own, p in zip(self.module.parameters(), model.parameters(), strict=True):
            own.data.lerp_(p.data, 0.001)


class Half(Shadow):
    """In another precision, now and then."""

    count = 0

    def __init__(self, model):
        self.weights = {name: p.detach().to(torch.bfloat16) for name, p in model.named_parameters()}

    def update(self, model):
        self.count += 1
        if self.count % 3 == 0:
            for name, p in model.named_parameters():
                self.weights[name].lerp_(p.detach().to(torch.bfloat16), 0.25)


class Snapshot(Shadow):
    """A copy of the last weights, for a rollback in memory."""

    def update(self, model):
        super().update(model, share=1.0)


class Noisy(Shadow):
    def update(self, model):
        for name, p in model.named_parameters():
            self.weights[name] = p.detach() + torch.randn_like(p) * 0.01


class Still(Shadow):
    def update(self, model):
        pass


def followed(make, steps=20):
    """Train a little, and say what the followers are afterwards."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    average = make(model)
    followers = Followers()
    for n in range(1, steps + 1):
        torch.nn.functional.mse_loss(model(torch.randn(32, 8)), torch.randn(32, 4)).backward()
        known = [leaf for state in optimizer.state.values() for leaf in state.values()]
        followers.step(n, lambda: dict(model.named_parameters()), lambda known=known: known)
        optimizer.step()
        optimizer.zero_grad()
        average.update(model)
    return followers, model, average


@pytest.mark.parametrize("make", [Shadow, InPlace, Listed, Twin, Half])
def test_an_average_is_found_with_the_parameters_that_it_follows(make):
    followers, model, _ = followed(make, steps=30)
    found = followers.fingerprints()
    assert found.keys() == {name for name, _ in model.named_parameters()}
    assert all(len(own) == 1 for own in found.values())


@pytest.mark.parametrize("make", [Snapshot, Noisy, Still])
def test_what_is_no_average_is_not(make):
    assert followed(make)[0].fingerprints() == {}


def test_what_is_told_is_what_is_there_now():
    followers, model, average = followed(Shadow)
    before = {name: own[0].hexdigest() for name, own in followers.fingerprints().items()}
    assert before == {name: own[0].hexdigest() for name, own in followers.fingerprints().items()}
    average.update(model)
    assert all(own[0].hexdigest() != before[name] for name, own in followers.fingerprints().items())


def test_it_is_let_go_with_the_job_and_draws_no_random_number():
    followers, model, average = followed(Shadow)
    state = torch.get_rng_state()
    followers.step(32, lambda: dict(model.named_parameters()), tuple)
    assert torch.equal(torch.get_rng_state(), state)
    del average
    followers.step(33, lambda: dict(model.named_parameters()), tuple)
    assert followers.fingerprints() == {}
