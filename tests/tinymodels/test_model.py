"""Both models: sums over rows, nothing for no rows, no look into the future."""

import pytest
import torch

from tinymodels.config import Config
from tinymodels.model import build


@pytest.fixture(params=["gpt", "mlp"])
def model(request):
    torch.manual_seed(0)
    return build(Config(out="x", model=request.param, context=8, dropout=0.0), 32).eval()


def test_loss_is_a_sum(model):
    rows = torch.randint(32, (4, 9))
    assert torch.allclose(model(rows), model(rows[:1]) + model(rows[1:]), rtol=1e-4)


def test_an_empty_batch_has_no_loss_and_zero_gradients(model):
    model(torch.zeros(0, 9, dtype=torch.int64)).backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


def test_the_future_is_hidden(model):
    tokens = torch.randint(32, (1, 8))
    other = tokens.clone()
    other[0, 5] = (other[0, 5] + 1) % 32
    same = (model.hidden(tokens) == model.hidden(other)).all(-1)[0]
    assert same[:5].all() and not same[5]


def test_training_forwards_are_counted_in_a_buffer(model):
    rows = torch.randint(32, (1, 9))
    model(rows)
    assert model.state_dict()["forwards"] == 0
    model.train()(rows)
    assert model.state_dict()["forwards"] == 1
