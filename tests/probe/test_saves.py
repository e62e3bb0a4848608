"""Saves and loads as the probe sees them, and the gate in the middle of a save."""

import os
import signal
import sys
import textwrap
import time
from pathlib import Path

import pytest

from chaoskit.analysis.record.history import History
from chaoskit.environments.gate.doors import UnixDoor
from chaoskit.environments.gate.server import GateServer
from chaoskit.protocol.events import rank_events
from tests.probe.started import WITH_PROBE, Started

HEAD = """
import os, torch
out = os.environ["CHAOSKIT_OUT"]
net = torch.nn.Linear(64, 64); opt = torch.optim.AdamW(net.parameters(), lr=0.1)
def step():
    net(torch.ones(3, 64)).sum().backward(); opt.step(); opt.zero_grad()
"""


def test_torch_saves_and_loads_are_events_with_their_position(probed):
    run = probed(
        HEAD
        + """
step(); step()
torch.save({"model": net.state_dict(), "optimizer": opt.state_dict()}, out + "/full.pt")
step()
with open(out + "/weights.pt", "wb") as f:
    torch.save(net.state_dict(), f)
torch.load(out + "/full.pt")
try:
    torch.load(out + "/missing.pt")
except FileNotFoundError:
    pass
torch.save(net.state_dict(), out + "/../elsewhere.pt")
"""
    )
    saves, loads = run.life.saves, run.life.loads
    assert [(Path(s.path).name, s.n, s.full, s.ok) for s in saves] == [
        ("full.pt", 2, True, True),
        ("weights.pt", 3, False, True),
    ], run.output
    assert all(s.ended is not None and s.ended >= s.begun for s in saves)
    assert [(Path(load.path).name, load.n, load.ok) for load in loads] == [
        ("full.pt", 3, True),
        ("missing.pt", 3, False),
    ]
    assert "FileNotFoundError" in loads[1].error


@pytest.mark.parametrize(
    ("call", "variables", "restricted"),
    [
        ("torch.load(path)", {}, True),
        ("torch.load(path, weights_only=True)", {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}, True),
        ("torch.load(path, weights_only=False)", {}, False),
        ("torch.load(path, None, pickle)", {}, False),
        ("torch.load(path)", {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}, False),
        ("torch.load(path, weights_only=False)", {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}, True),
    ],
)
def test_a_load_says_whether_torch_restricts_what_it_unpickles(probed, call, variables, restricted):
    setting = "".join(f"os.environ[{name!r}] = {value!r}\n" for name, value in variables.items())
    save = 'import pickle\nstep()\npath = out + "/f.pt"\ntorch.save({"model": net.state_dict()}, path)\n'
    run = probed(f"{HEAD}{save}{setting}{call}\n")
    (load,) = rank_events(run.run_dir, "load.begin")
    assert load["weights_only"] is restricted, run.output


@pytest.mark.parametrize(("how", "cold"), [("save", True), ("save", False), ("async_save", False)])
def test_distributed_checkpoints_are_one_save_each(probed, how, cold):
    run = probed(
        HEAD
        + f"""
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
step()
state = {{"model": net.state_dict(), "opt": dict(opt.state_dict()["state"])}}
future = dcp.{how}(state, checkpoint_id=out + "/step-1")
if future is not None and hasattr(future, "result"):
    future.result()
step()
dcp.load(state, checkpoint_id=out + "/step-1")
dist.destroy_process_group()
""",
        cold=cold,
    )
    assert run.code == 0, run.output
    (save,) = run.life.saves
    assert (Path(save.path).name, save.n, save.full, save.ok) == ("step-1", 1, True, True)
    assert save.ended is not None and save.api == ("dcp.save" if how == "save" else "dcp.async_save")
    assert [(Path(load.path).name, load.n) for load in run.life.loads] == [("step-1", 2)]


def test_safetensors_are_seen(probed, cold):
    run = probed(
        HEAD
        + """
import safetensors.torch
step()
safetensors.torch.save_file(net.state_dict(), out + "/model.safetensors")
safetensors.torch.load_file(out + "/model.safetensors")
""",
        cold=cold,
    )
    assert [(s.api, s.full) for s in run.life.saves] == [("safetensors", False)], run.output
    assert [load.api for load in run.life.loads] == ["safetensors"]


def contents(run):
    """Of the saves and of the loads, in order."""
    return [[event["content"] for event in run.events(kind)] for kind in ("save.begin", "load.end")]


@pytest.mark.parametrize(
    "save, load",
    [
        ('torch.save({"model": state}, out + "/f")', 'torch.load(out + "/f")["model"]'),
        (
            'torch.save(obj={"model": state}, f=open(out + "/f", "wb"))',
            'torch.load(open(out + "/f", "rb"))["model"]',
        ),
        (
            'safetensors.torch.save_file({f"model.{k}": v for k, v in state.items()}, out + "/f")',
            '{k[6:]: v for k, v in safetensors.torch.load_file(out + "/f").items()}',
        ),
    ],
)
def test_what_is_given_to_a_save_and_what_comes_back_are_compared_key_by_key(probed, save, load):
    run = probed(
        HEAD
        + f"""
import safetensors.torch
step()
state = net.state_dict()
{save}
back = {load}
state = {{**back, "bias": back["bias"] + 1}}
{save}
{load}
"""
    )
    assert run.code == 0, run.output
    (saved, altered), (loaded, other) = contents(run)
    assert saved == loaded and altered == other and set(saved) == {"model.weight", "model.bias"}
    assert [key for key in saved if saved[key] != altered[key]] == ["model.bias"]
    assert "nonfinite" not in run.events("save.begin")[0].data


@pytest.mark.parametrize("how", ["save", "async_save"])
def test_what_distributed_checkpoints_hold(probed, how):
    run = probed(
        HEAD
        + f"""
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
class App:
    asked = given = 0
    def state_dict(self):
        App.asked += 1
        return {{"weight": net.weight, "step": 7}}
    def load_state_dict(self, state):
        App.given += 1
        assert state["step"] == 7
        state.clear()
step()
state = {{"net": net, "opt": opt.state_dict(), "app": App(), "epoch": 3}}
future = dcp.{how}(state, checkpoint_id=out + "/step-1")
if hasattr(future, "result"):
    future.result()
assert App.asked == 1
weight = net.weight.detach().clone()
step()
state["epoch"] = 0
dcp.load(state_dict=state, checkpoint_id=out + "/step-1")
assert (App.asked, App.given, state["epoch"]) == (2, 1, 3) and state["net"] is net
assert torch.equal(net.weight, weight)
print("GOES ON")
"""
    )
    assert "GOES ON" in run.output, run.output
    (saved,), (loaded,) = contents(run)
    assert saved == loaded
    assert {"net.weight", "opt.state.0.exp_avg", "opt.param_groups.0.lr", "app.weight", "app.step", "epoch"} < set(
        saved
    )
    assert (saved["app.step"], saved["epoch"]) == ("=7", "=3") and len(saved["net.weight"]) == 32


def test_of_a_sharded_state_what_this_rank_holds(probed):
    run = probed(
        HEAD
        + """
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
fully_shard(net, mesh=init_device_mesh("cpu", (1,)))
opt = torch.optim.AdamW(net.parameters(), lr=0.1)
step()
model, optimizer = get_state_dict(net, opt)
dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=out + "/step-1")
step()
model, optimizer = get_state_dict(net, opt)
dcp.load({"model": model, "optimizer": optimizer}, checkpoint_id=out + "/step-1")
"""
    )
    assert run.code == 0, run.output
    (saved,), (loaded,) = contents(run)
    assert saved == loaded and {"model.weight", "optimizer.state.weight.exp_avg"} < set(saved)
    assert not any(value.startswith("=<") for value in saved.values())
    # The tensors of the step that follows have the same fingerprints.
    assert run.events("tensors")[1]["tensors"]["model"]["weight"] == saved["model.weight"]


def test_a_byte_that_changed_in_the_file_shows(probed):
    run = probed(
        HEAD
        + """
step()
torch.save({"model": net.state_dict()}, out + "/f")
data = bytearray(open(out + "/f", "rb").read())
at = data.find(net.weight.detach().numpy().tobytes()[:64])
data[at + 100] ^= 1
open(out + "/f", "wb").write(data)
try:
    torch.load(out + "/f")
except RuntimeError as error:  # some versions check
    print(error)
"""
    )
    (saved,), *_ = contents(run)
    (load,) = run.life.loads
    assert not load.ok or [key for key in saved if load.content[key] != saved[key]] == ["model.weight"], run.output


def test_what_is_not_finite_in_a_save_is_named(probed):
    run = probed(
        HEAD
        + """
net.weight.data[3, 3] = float("nan")
torch.save({"model": net.state_dict(), "best": float("inf")}, out + "/f")
"""
    )
    assert run.events("save.begin")[0]["nonfinite"] == ["model.weight", "best"], run.output


def test_contents_that_cannot_be_looked_at_fail_no_save(probed):
    run = probed(
        HEAD
        + """
class Key:
    def __str__(self): raise RuntimeError("no name")
torch.save({"model": net.state_dict(), Key(): 1}, out + "/f")
print("GOES ON")
"""
    )
    assert "GOES ON" in run.output
    assert "content" not in run.events("save.begin")[0].data and run.life.saves[0].ok
    assert any("no name" in error for error in run.life.errors)


class AtGate:
    """A program that stops at a gate which the test holds."""

    def __init__(self, tmp_path, text, *, cold):
        for name in ("events", "logs", "out"):
            (tmp_path / name).mkdir()
        self.run_dir, self.out = tmp_path, tmp_path / "out"
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(text))
        self.gate = GateServer(UnixDoor(tmp_path))
        env = {
            **os.environ,
            "PYTHONPATH": WITH_PROBE, "CHAOSKIT_RUN": str(tmp_path), "CHAOSKIT_OUT": str(self.out),
            **self.gate.door.environment, "RANK": "0", "WORLD_SIZE": "1",
        }  # fmt: skip
        command, log = [sys.executable, str(program)], tmp_path / "output.txt"
        self.process = Started(command, env=env, cwd=tmp_path, log=log, cold=cold)

    def until(self, at):
        """Let the program go on until it arrives at such a place; None if it ends before."""
        while True:
            for arrived in self.gate.arrivals():
                if arrived.at == at:
                    return arrived
                self.gate.release(arrived.rank, keep_gating=True)
            if self.process.poll() is not None:
                return None
            time.sleep(0.001)

    @property
    def life(self):
        return History.read(self.run_dir).incarnations[0].ranks[0]

    def close(self):
        self.process.close()
        self.gate.close()


@pytest.fixture
def at_gate(tmp_path):
    made = []

    def start(text, *, cold=False):
        made.append(AtGate(tmp_path, text, cold=cold))
        return made[0]

    yield start
    for each in made:
        each.close()


@pytest.mark.parametrize(
    "save",
    [
        'torch.save(net.state_dict(), out + "/file")',
        'f = open(out + "/file", "wb"); torch.save(net.state_dict(), f); f.close()',
        'import safetensors.torch; safetensors.torch.save_file(net.state_dict(), out + "/file")',
    ],
)
def test_a_rank_stops_in_the_middle_of_a_save_with_half_of_it_on_disk(at_gate, save):
    program = at_gate(HEAD + "step()\n" + save + "\nstep()\n")
    arrived = program.until("save")
    assert arrived.n == 1 and arrived.call == 1
    half = (program.out / "file").stat().st_size
    program.gate.release(0, keep_gating=True)
    assert program.until("saved").n == 1
    whole = (program.out / "file").stat().st_size
    assert 0 < half < whole
    (save,) = program.life.saves
    assert save.ended is not None


def test_a_rank_killed_in_the_middle_of_a_save_has_not_saved(at_gate):
    program = at_gate(HEAD + 'step()\ntorch.save(net.state_dict(), out + "/file")\n')
    assert program.until("save") is not None
    program.process.kill()
    assert program.process.wait(timeout=20) == -signal.SIGKILL
    (save,) = program.life.saves
    assert save.ended is None


def test_what_was_saved_in_halves_can_be_loaded(at_gate, cold):
    program = at_gate(
        HEAD
        + """
step()
torch.save({"model": net.state_dict()}, out + "/file.pt")
assert torch.equal(torch.load(out + "/file.pt")["model"]["weight"], net.weight)
step()
open(out + "/right", "w").close()
""",
        cold=cold,
    )
    assert program.until("nothing") is None and (program.out / "right").exists()


def test_a_rank_does_what_it_is_ordered_at_the_gate(at_gate):
    program = at_gate(
        HEAD
        + """
step()
try:
    step()
except torch.OutOfMemoryError as error:
    open(out + "/caught", "w").write(str(error))
step()
"""
    )
    assert program.until("step").n == 0
    program.gate.release(0, keep_gating=True)
    assert program.until("step").n == 1
    program.gate.order(0, {"do": "raise", "type": "OutOfMemoryError", "message": "no room"})
    program.gate.release(0, keep_gating=True)
    arrived = program.until("step")
    assert arrived.n == 1 and program.gate.raised(0)  # the step that raised was not taken
    assert (program.out / "caught").read_text() == "no room"
    program.gate.order(0, {"do": "exit", "code": 7})
    program.gate.release(0, keep_gating=True)
    assert program.process.wait(timeout=20) == 7


@pytest.mark.parametrize("gating", [True, False])
def test_a_rank_ordered_to_makes_its_loss_nan_once_and_says_so(at_gate, gating):
    program = at_gate(
        HEAD
        + """
import torch.utils.checkpoint
def step():
    net.eval(); net(torch.ones(1, 64)); net.train()
    hidden = net(torch.ones(3, 64))
    loss = hidden.sum(); loss.backward(); print(loss.item()); opt.step(); opt.zero_grad()
step(); step(); step(); step()
open(out + "/done", "w").close()
"""
    )
    program.until("step")
    program.gate.release(0, keep_gating=True)
    assert program.until("step").n == 1
    order = {
        "do": "corrupt",
        "into": {"kind": "loss"},
        "how": {"kind": "nan"},
        "elements": 1,
        "steps": 1,
        "seed": 0,
    }
    number = program.gate.corrupt(0, order)
    assert program.gate.corrupted(0, number) is None
    program.gate.release(0, keep_gating=gating)
    if gating:
        arrived = program.until("step")  # step 2 was taken as it was: the backward after it began from the NaN
        assert arrived.n == 2 and arrived.record["losses"] == ["nan"] and arrived.record["nonfinite"] == []
        assert program.gate.corrupted(0, number)["after"] == ["nan"]
        program.gate.release(0, keep_gating=False)
    assert program.process.wait(timeout=60) == 0 and (program.out / "done").exists()
    told = program.gate.corrupted(0, number)
    assert (told["n"], told["where"], told["after"]) == (3, "loss", ["nan"])
    from chaoskit.protocol.events import read_events

    (path,) = (program.run_dir / "events").glob("*.jsonl")
    events = [event for event in read_events(path) if event.kind in ("step", "corrupted")]
    assert [(event.kind, event["n"]) for event in events] == [
        ("step", 1), ("step", 2), ("corrupted", 3), ("step", 3), ("step", 4)
    ]  # fmt: skip
    assert [event.get("nonfinite") for event in events] == [[], [], None, [], ["model", "optimizer"]]


def test_a_rank_that_need_not_stop_goes_by_until_it_must_or_has_read_a_checkpoint(at_gate):
    program = at_gate(
        HEAD
        + """
step(); step()
torch.save({"model": net.state_dict(), "optimizer": opt.state_dict()}, out + "/full.pt")
for _ in range(6): step()
torch.load(out + "/full.pt")
step(); step()
"""
    )

    def arrivals():
        while (arrived := program.until("step")) is not None:
            yield arrived.n
            program.gate.release(0, keep_gating=True, **told.pop(arrived.n, {}))

    # What an answer does not say does not last: not after the save, either, nor after any other arrival.
    told = {0: {"names": 3}, 2: {"until": 5}, 6: {"until": 20}}
    assert list(arrivals()) == [0, 1, 2, 5, 6, 8, 9]
    from chaoskit.protocol.events import read_events

    (path,) = (program.run_dir / "events").glob("*.jsonl")
    named = [event["n"] for event in read_events(path) if event.kind == "tensors"]
    assert named == [1, 2, 3, 4, 9]


def test_a_rank_goes_on_alone_when_the_harness_is_gone(at_gate):
    program = at_gate(HEAD + "step()\nstep()\nopen(out + '/done', 'w').close()\n")
    assert program.until("step") is not None
    program.gate.close()
    assert program.process.wait(timeout=30) == 0 and (program.out / "done").exists()
    assert len(program.life.steps) == 2
