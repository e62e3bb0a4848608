"""The schedule, what decays, and the average."""

import pytest
import torch

from tinymodels.config import Config
from tinymodels.model import build
from tinymodels.optimizer import build_average, build_optimizer, build_scheduler, factor


def test_warm_up_then_cosine():
    shares = [factor(step, warmup=4, steps=20) for step in range(21)]
    assert shares[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert shares[12] == pytest.approx(0.55)
    assert shares[20] == pytest.approx(0.1)
    assert shares[4:] == sorted(shares[4:], reverse=True)
    assert factor(500, warmup=4, steps=20) == pytest.approx(0.1)  # past the end: the floor


@pytest.mark.parametrize("kind", ["gpt", "mlp"])
def test_only_matrices_decay(kind):
    config = Config(out="x", model=kind)
    model = build(config, 32)
    decay, plain = build_optimizer(model, config).param_groups
    assert decay["weight_decay"] == config.weight_decay and plain["weight_decay"] == 0.0
    assert {p.dim() for p in plain["params"]} == {1}
    assert len(decay["params"]) + len(plain["params"]) == len(list(model.parameters()))


def test_a_scheduler_built_late_would_clobber_the_rate():
    """Why the trainer restores the optimizer after the scheduler was built."""
    config = Config(out="x", lr=1.0, warmup=3)
    optimizer = build_optimizer(build(config, 32), config)
    for group in optimizer.param_groups:
        group["lr"] = 0.123
    build_scheduler(optimizer, config, 20)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.123 / 4)


def test_average_follows_the_weights():
    config = Config(out="x", ema_decay=0.75)
    model = build(config, 32)
    average = build_average(model, config)
    average.update_parameters(model)
    start = average.module.head.weight.clone()
    with torch.no_grad():
        model.head.weight += 1.0
    average.update_parameters(model)
    assert torch.allclose(average.module.head.weight, start + 0.25)
