"""Jobs that close what they did not open, or replace what the probe builds on: they are recorded all the same, and
nothing of theirs is touched."""

import pytest

TRAIN = """
import torch
def train(steps):
    net = torch.nn.Linear(2, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        net(torch.ones(3, 2)).sum().backward(); opt.step(); opt.zero_grad()
"""
RANK = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}


def trained(run, *, steps):
    """Whether the record is whole: no error of the probe, no gap, an end."""
    (incarnation,) = run.history.incarnations
    life = incarnation.ranks[0]
    assert (len(life.steps), life.errors, run.history.gaps) == (steps, [], []), run.output
    return life


@pytest.mark.parametrize("env", [RANK, {}], ids=["a rank from the start", "a rank once it trains"])
def test_it_closes_every_descriptor_and_uses_their_numbers(probed, tmp_path, env):
    """As a daemon does. What the probe writes must not land in the files that have the numbers now."""
    own = tmp_path / "own"
    run = probed(
        TRAIN
        + f"""
import os, signal
train(2)
for _ in range(2):
    os.closerange(3, 1024)
    own = [os.open({str(own)!r}, os.O_RDWR | os.O_CREAT | os.O_APPEND) for _ in range(40)]
    train(2)
os.kill(os.getpid(), signal.SIGRTMAX - 3)
torch.save({{}}, os.environ["CHAOSKIT_OUT"] + "/x.pt")
print("open", all(os.fstat(fd).st_ino == os.stat({str(own)!r}).st_ino for fd in own))
""",
        env=env,
    )
    assert run.code == 0 and "open True" in run.output, run.output
    assert own.read_text() == ""
    trained(run, steps=6)
    assert [event["ok"] for event in run.events("save.end")] == [True]
    assert [event["clean"] for event in run.events("process.end")] == [True]
    stacks = b"".join(path.read_bytes() for path in (run.run_dir / "logs").glob("stack-*"))
    assert b"program.py" in stacks


def test_it_replaces_the_hooks_of_the_interpreter(probed):
    run = probed(
        TRAIN
        + """
import atexit, os, signal, sys, threading
sys.excepthook = threading.excepthook = lambda *_: print("its own hook")
atexit.register(print, "its own end")
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    try:
        signal.signal(number, signal.SIG_IGN)
    except OSError:
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
real = os.fork
os.fork = lambda: real()
train(2)
if os.fork() == 0:
    train(1); os._exit(0)
os.wait()
raise RuntimeError("as it does")
""",
        env=RANK,
    )
    assert run.code == 1 and "its own hook" in run.output and "its own end" in run.output
    trained(run, steps=2)
    (end,) = run.events("process.end")
    assert (end["clean"], end["uncaught"]) == (False, "RuntimeError: as it does")


def test_it_leaves_without_an_end(probed):
    run = probed(TRAIN + "import atexit, os; train(3); atexit._clear(); os._exit(0)", env=RANK)
    assert run.code == 0
    trained(run, steps=3)
    assert run.events("process.end") == []


def test_it_forks_behind_pythons_back(probed):
    run = probed(
        TRAIN
        + """
import ctypes, os
train(2)
if ctypes.PyDLL(None).fork() == 0:
    train(3); os._exit(0)
os.wait()
train(2)
""",
        env=RANK,
    )
    assert run.code == 0, run.output
    trained(run, steps=4)


def test_it_changes_directories_and_its_environment(probed):
    run = probed(
        TRAIN
        + """
import os, shutil, sys, tempfile
gone = tempfile.mkdtemp(); os.chdir(gone); shutil.rmtree(gone)
train(1)
os.chdir("/")
out = os.environ["CHAOSKIT_OUT"]
os.environ.clear(); os.environ["PYTHONPATH"] = "/nowhere"; sys.path[:] = sys.path[1:]
train(2)
torch.save({}, out + "/x.pt")
"""
    )
    assert run.code == 0, run.output
    trained(run, steps=3)
    assert len(run.events("save.end")) == 1
