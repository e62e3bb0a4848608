"""Which processes are ranks, what becomes of errors, and how the record survives."""

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from chaoskit.analysis.record.history import History
from chaoskit.probe.session import ProbeSession
from tests.probe.started import WITH_PROBE, Started

TRAIN = """
import torch
net = torch.nn.Linear(2, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range({steps}):
    net(torch.ones(3, 2)).sum().backward(); opt.step(); opt.zero_grad()
"""
RANK = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "3"}


def test_the_environment_says_which_rank_it_is(probed):
    run = probed(TRAIN.format(steps=2), env={**RANK, "CHAOSKIT_LAUNCH": "2"})
    (incarnation,) = run.history.incarnations
    assert (incarnation.launch, incarnation.restart, incarnation.world_size) == (2, 3, 2)
    assert len(incarnation.ranks[1].steps) == 2


def test_children_of_a_rank_are_none(probed):
    run = probed(
        """
import multiprocessing, subprocess, sys, torch
def train():
    net = torch.nn.Linear(2, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(3, 2)).sum().backward(); opt.step()
if __name__ == "__main__":
    train()
    for method in ("fork", "spawn"):
        child = multiprocessing.get_context(method).Process(target=train); child.start(); child.join()
        assert child.exitcode == 0
""",
        env=RANK,
    )
    assert run.code == 0, run.output
    assert [e["role"] for e in run.events("process.start")] == ["rank"]
    assert len(run.history.incarnations[0].ranks[1].steps) == 1


def test_a_sitecustomize_that_was_there_before_runs_first_and_the_path_is_as_it_was(probed, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("import os\nos.environ['THEIRS'] = 'ran'\n")
    run = probed(
        TRAIN.format(steps=1)
        + "import os, sys; print(os.environ['THEIRS'], [p for p in sys.path if 'probe/site' in p])",
        env={"PYTHONPATH": os.pathsep.join([WITH_PROBE, str(theirs)])},
        cold=True,
    )
    assert "ran []" in run.output, run.output
    assert len(run.life.steps) == 1


def test_an_interpreter_without_chaoskit_or_xxhash_is_probed_all_the_same(probed, tmp_path):
    blocker = tmp_path / "blocker"
    blocker.mkdir()
    # Stands in for a virtual environment of the user's own, where neither is installed.
    (blocker / "sitecustomize.py").write_text(
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'xxhash': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "sys.path[:] = [p for p in sys.path if not p.rstrip('/').endswith('main')]\n"
    )
    path = os.pathsep.join([WITH_PROBE, str(blocker)])
    run = probed(TRAIN.format(steps=1), env={"PYTHONPATH": path}, cold=True)
    assert run.events("process.start")[0]["algorithm"] == "blake2b-128", run.output
    assert len(run.life.steps) == 1


def test_an_error_of_the_probe_is_an_event_and_never_the_jobs(probed):
    run = probed(
        """
import torch
class Odd(dict):
    def __iter__(self): raise RuntimeError("not for you")
class Net(torch.nn.Linear):
    def forward(self, batch): return super().forward(dict.__getitem__(batch, "x"))
net = Net(2, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
net(Odd(x=torch.ones(3, 2))).sum().backward(); opt.step(); print("GOES ON")
"""
    )
    assert run.code == 0 and "GOES ON" in run.output
    assert any("not for you" in error for error in run.life.errors), run.output


def test_a_rank_killed_at_any_instruction_leaves_a_readable_record(tmp_path):
    for name in ("events", "logs", "out"):
        (tmp_path / name).mkdir()
    program = tmp_path / "program.py"
    program.write_text(TRAIN.format(steps=10**9))
    env = {**os.environ, "PYTHONPATH": WITH_PROBE, "CHAOSKIT_RUN": str(tmp_path)}
    for delay in (0.0, 0.003, 0.011, 0.047):
        for old in (tmp_path / "events").glob("*"):
            old.unlink()
        process = Started([sys.executable, str(program)], env=env, cwd=tmp_path, log=tmp_path / "output.txt")
        while not any(path.stat().st_size > 4500 for path in (tmp_path / "events").glob("*")):
            time.sleep(0.001)  # until it trains
        time.sleep(delay)
        process.kill()
        assert process.wait(timeout=20) == -signal.SIGKILL
        process.close()
        history = History.read(tmp_path)
        steps = history.incarnations[0].ranks[0].steps
        assert [step.n for step in steps] == list(range(1, len(steps) + 1)) and len(steps) > 2
        assert not history.gaps and history.incarnations[0].ranks[0].end is None


def test_nothing_is_loaded_where_nobody_asked(probed):
    run = probed("import sys; print([m for m in sys.modules if m.startswith('chaoskit')])", probe=False)
    assert run.output.strip() == "[]"


def test_the_sources_are_listed(probed, cold):
    run = probed(TRAIN.format(steps=1) + "open('d.txt', 'w').write('x'); open('d.txt').read()", cold=cold)
    files = {Path(f["path"]).name for event in run.events("sources") for f in event["files"]}
    assert {"program.py", "d.txt"} <= files and "random.py" not in files
    # An upgrade of a library makes the reference another one; what it is made of in detail is not listed.
    paths = {f["path"] for event in run.events("sources") for f in event["files"]}
    assert any(path.endswith("/torch/__init__.py") for path in paths)
    assert not any(path.endswith("/torch/nn/modules/linear.py") for path in paths)


class Handles:
    """Handlers of signals, as jobs write them."""

    def told(self, number, frame):
        raise RuntimeError("a worker is gone")

    def __call__(self, number, frame):
        self.told(number, frame)


def function(number, frame):
    raise RuntimeError("a worker is gone")


def guarded(action):
    """What the guard of a session raises for the job, and what it records as errors of the probe."""
    session, own = ProbeSession.__new__(ProbeSession), []
    session.error = lambda where, error: own.append(str(error))
    try:
        session.guard("x", action)
    except RuntimeError as error:
        return str(error), own
    return "", own


@pytest.mark.parametrize(
    "handler",
    [function, Handles().told, Handles(), partial(function)],
    ids=["function", "method", "object", "partial"],
)
def test_what_a_signal_handler_raises_while_the_probe_runs_goes_to_the_job(handler):
    def interrupted():
        os.kill(os.getpid(), signal.SIGUSR2)
        time.sleep(1)

    def raises():
        raise RuntimeError("an error of the probe")

    before = signal.signal(signal.SIGUSR2, handler)
    try:
        assert guarded(interrupted) == ("a worker is gone", [])
        assert guarded(raises) == ("", ["an error of the probe"])
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_job_that_is_told_to_leave_while_the_probe_reads_it_leaves(probed):
    run = probed("""
import os, signal, torch
class Leaves(Exception): pass
def leave(number, frame): raise Leaves
signal.signal(signal.SIGUSR2, leave)
class Told(torch.optim.SGD):
    def __getattribute__(self, name):
        if name == "state" and armed:
            armed.clear(); os.kill(os.getpid(), signal.SIGUSR2)
        return super().__getattribute__(name)
armed = []
net = torch.nn.Linear(2, 1); opt = Told(net.parameters(), lr=0.1, momentum=0.9)
try:
    for step in range(5):
        net(torch.ones(3, 2)).sum().backward()
        if step == 2: armed.append(1)
        opt.step(); opt.zero_grad()
except Leaves:
    print("left in", step)
""")
    assert run.output.strip() == "left in 2" and not run.events("probe.error")
