"""Single tensors have the names that the model gives them, whatever is wrapped around it."""

import pytest

from chaoskit.probe.deferred import DeferredEvent
from chaoskit.probe.tensors import tensors
from chaoskit.protocol.fingerprint import of_value

torch = pytest.importorskip("torch")


def trained(wrap=lambda model: model):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    root = wrap(model)
    optimizer = torch.optim.Adam(root.parameters(), lr=0.1)
    root(torch.ones(5, 3)).sum().backward()
    optimizer.step()
    average = torch.optim.swa_utils.AveragedModel(model)
    return named([optimizer], [root], [average]), model


def named(optimizers, roots, averages=()):
    return DeferredEvent({"tensors": tensors(optimizers, roots, averages)}).settled()["tensors"]


def test_each_component_by_name():
    found, model = trained()
    assert found["model"] == {name: of_value(p) for name, p in model.named_parameters()}
    assert found["buffers"] == {name: of_value(b) for name, b in model.named_buffers()}
    assert set(found["optimizer"]) == {
        f"{name}.{key}" for name in found["model"] for key in ("step", "exp_avg", "exp_avg_sq")
    }
    assert set(found["ema"]) == {*found["model"], *found["buffers"], "n_averaged"}


def test_wrappers_do_not_show():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        plain, _ = trained()
        compiled, _ = trained(lambda model: torch.compile(model, backend="eager"))
        replicated, _ = trained(torch.nn.parallel.DistributedDataParallel)
        both, _ = trained(
            lambda model: torch.compile(torch.nn.parallel.DistributedDataParallel(model), backend="eager")
        )
    finally:
        torch.distributed.destroy_process_group()
    assert plain == compiled == replicated == both


def test_parameters_that_only_an_optimizer_knows():
    w, v = (torch.ones(2, requires_grad=True) for _ in range(2))
    optimizer = torch.optim.SGD([{"params": [w]}, {"params": [v]}], lr=0.1, momentum=0.9)
    (w + v).sum().backward()
    optimizer.step()
    found = named([optimizer], [])
    assert set(found["model"]) == {"group0.0", "group1.0"} and "ema" not in found
    assert set(found["optimizer"]) == {"group0.0.momentum_buffer", "group1.0.momentum_buffer"}


def test_two_modules_that_use_one_name_are_told_apart():
    one, two = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    found = named([torch.optim.SGD([*one.parameters(), *two.parameters()], lr=0.1)], [one, two])
    assert found["model"]["weight"] == of_value(one.weight) and found["model"]["weight~2"] == of_value(two.weight)


def test_of_a_sharded_parameter_the_part_that_lies_here():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        model = torch.nn.Linear(3, 4)
        values = of_value(model.weight)
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        found = named([torch.optim.SGD(model.parameters(), lr=0.1)], [model])
    finally:
        torch.distributed.destroy_process_group()
    assert found["model"]["weight"] == values
