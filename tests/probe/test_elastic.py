"""What an elastic job records besides: parts of what is sharded, and what it held as it saved."""

import multiprocessing
import warnings

import pytest

from chaoskit.probe import components
from chaoskit.probe.deferred import DeferredEvent
from chaoskit.probe.elastic import Elastic
from chaoskit.probe.naming import parameters
from chaoskit.protocol.sharded_hash import Shards, whole_of
from tests.sharding import Mesh, shard

torch = pytest.importorskip("torch")


def guard(where, action, *args):
    return action(*args)


def sharded_by_torch(rank, world, send):
    """The parts of one rank of FSDP2, which holds its shards before it has heard of the others."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    warnings.simplefilter("ignore")
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.LayerNorm(7), torch.nn.Linear(7, 3))
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        for parameter in model.parameters():
            parameter.grad = parameter.detach() * 0.5
        optimizer.step()
    elastic = Elastic(guard)
    elastic.asked = True
    send.put((rank, DeferredEvent({"parts": elastic.parts([optimizer], [model], [])}).settled()["parts"]))


def parts_of_torch(world):
    import torch._dynamo  # once, for all that are forked
    import torch.distributed.fsdp
    import torch.testing._internal.distributed.fake_pg  # noqa: F401

    fork = multiprocessing.get_context("fork")
    got = fork.SimpleQueue()
    ranks = [fork.Process(target=sharded_by_torch, args=(rank, world, got)) for rank in range(world)]
    for each in ranks:
        each.start()
        each.join(60)
    return dict(got.get() for _ in ranks)


def test_the_whole_of_an_fsdp2_job_is_the_same_on_any_number_of_ranks():
    """Seven rows on five ranks: the last of them has none."""
    alone = parts_of_torch(1)
    for world in (2, 5):
        ranks = parts_of_torch(world)
        assert set(ranks[0]) == {"model", "optimizer"}
        for name in ranks[0]:
            assert whole_of([ranks[rank][name] for rank in range(world)]) == whole_of([alone[0][name]])
            assert len({ranks[rank][name] for rank in range(world)}) == world


def trained():
    model = torch.nn.Linear(3, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_a_job_that_is_not_elastic_or_not_sharded_records_no_parts(monkeypatch):
    model, optimizer = trained()
    assert Elastic(guard).parts([optimizer], [model], []) == {}
    assert Elastic(guard).held(1, [optimizer], [model], []) is None
    monkeypatch.setenv("CHAOSKIT_ELASTIC", "1")
    assert Elastic(guard).parts([optimizer], [model], []) == {}


def test_components_without_a_shard_have_no_part(monkeypatch):
    monkeypatch.setenv("CHAOSKIT_ELASTIC", "1")
    mesh = Mesh(2, 1)
    whole = torch.arange(10.0).reshape(5, 2)
    parameter = shard(whole, mesh)
    optimizer = torch.optim.SGD([{"params": [torch.nn.Parameter(whole)]}])
    optimizer.param_groups[0]["params"] = [parameter]
    found = Elastic(guard).parts([optimizer], [], [])
    assert set(found) == {"model", "optimizer"}
    part = Shards()
    components.model([parameter], part)
    assert found["model"].settled([]) == part.settled([])


def test_what_was_held_is_told_once_after_each_step(monkeypatch):
    monkeypatch.setenv("CHAOSKIT_ELASTIC", "1")
    model, optimizer = trained()
    elastic = Elastic(guard)
    assert elastic.held(0, [optimizer], [model], []) is None
    held = elastic.held(1, [optimizer], [model], [])
    assert held["state"]["model"] == components.model(parameters([optimizer], [model])).hexdigest()
    assert held["state"]["optimizer"] == components.optimizer([optimizer], [model]).hexdigest()
    assert set(held) == {"state", "parts"} and "ema" not in held["state"]
    assert elastic.held(1, [optimizer], [model], []) is None
    assert elastic.held(2, [optimizer], [model], []) is not None


def test_an_error_of_one_part_does_not_cost_the_others(monkeypatch):
    monkeypatch.setenv("CHAOSKIT_ELASTIC", "1")
    errors = []

    def careful(where, action, *args):
        try:
            return action(*args)
        except Exception as error:
            errors.append((where, str(error)))
            return None

    mesh = Mesh(2, 0)
    parameter = shard(torch.arange(10.0).reshape(5, 2), mesh)
    type(parameter)._local_tensor = torch.zeros(1, 2)  # not what torch says that a rank holds
    assert Elastic(careful).parts([], [torch.nn.ParameterList()], [Averaged(parameter)]) == {}
    assert [where for where, _ in errors] == ["ema"] and "does not say which elements" in errors[0][1]


PROGRAM = """
import os, torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 1))
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.ones(2, 3)).sum().backward(); optimizer.step(); optimizer.zero_grad()
    state = {"optimizer": {"step": step}}
    if step:
        torch.save(state, f"{os.environ['CHAOSKIT_OUT']}/{dist.get_rank()}.pt")
        torch.save(state, f"{os.environ['CHAOSKIT_OUT']}/{dist.get_rank()}-again.pt")
dist.destroy_process_group()
"""


def test_the_record_of_a_sharded_job(probed):
    """What is held at a save is what the next step finds."""
    run = probed(PROGRAM, env={"CHAOSKIT_ELASTIC": "1"})
    assert run.code == 0, run.output
    steps, held = run.life.steps, run.life.held
    assert [set(step.parts) for step in steps] == [{"model", "optimizer"}] * 3 and not run.life.errors
    assert sorted(held) == [2, 3] and held[2].n == 3
    assert held[2].parts == steps[2].parts
    assert dict(held[2].components) == {name: steps[2].components[name] for name in ("model", "optimizer")}
    assert len({step.parts["optimizer"] for step in steps}) == 3


def test_a_job_that_is_not_elastic_pays_nothing(probed):
    run = probed(PROGRAM)
    assert run.code == 0, run.output
    assert not any(step.parts for step in run.life.steps) and not run.life.held and len(run.life.steps) == 3


class Averaged:
    def __init__(self, parameter):
        self.parameter = parameter

    def parameters(self):
        return [self.parameter]

    def buffers(self):
        return []
