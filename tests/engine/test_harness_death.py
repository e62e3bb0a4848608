"""Nothing is left behind, however the harness ends: Ctrl-C and SIGKILL, at several moments of a real run."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from chaoskit.engine.run_store import Store
from chaoskit.environments.cgroups.available import why_no_limits
from tests.users import must_have
from tests.warm_modes import teach

TRAINER = Path(__file__).parents[1] / "trainers" / "simple.py"


class Harness:
    """`chaoskit run` on a two-rank job, in a process of its own."""

    def __init__(self, root, *chosen):
        self.root = root
        words = [
            sys.executable, "-m", "chaoskit", "run", "--dir", str(root), *(chosen or ("-k", "one_rank")), "--",
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(TRAINER), "--out", "{out}",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            # A shell that runs the tests in the background has them ignore Ctrl-C, and that is inherited.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip

    def until(self, there, *, limit=300):
        """Wait for a file that matches the pattern, under the root."""
        deadline = time.monotonic() + limit
        while not any(self.root.glob(there)):
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < deadline, f"no {there} came"
            time.sleep(0.01)

    def ended(self):
        """Its exit code and output."""
        output, _ = self.process.communicate(timeout=300)
        return self.process.returncode, output


def left_processes(root):
    """Processes of a run under that root."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            environ = path.read_bytes()
        except OSError:
            continue
        if f"CHAOSKIT_RUN={root}".encode() in environ:
            found.append((path.parent.name, (path.parent / "cmdline").read_bytes()))
    return found


def left_directories(root):
    """Private temporary directories of runs under that root."""
    ids = {json.loads(path.read_text())["id"] for path in root.glob("*/**/run.json")}
    found = Path(tempfile.gettempdir()).glob(f"chaoskit-{os.getuid()}-*")
    return [path for path in found if any(path.name.endswith(one) for one in ids)]


def soon(condition):
    """Whether the condition comes true within some seconds."""
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


MOMENTS = {
    "as it begins": "references",
    "in the middle of the reference": "references/*/control-0/events/rank-*",
    "in the middle of the run": "runs/*/events/rank-0-0-1-*",
}


#: The signal and the moment of each death; CI does every moment and both signals, the night all of them.
DEATHS = {
    (signal.SIGKILL, "in the middle of the reference"): (),
    (signal.SIGKILL, "as it begins"): pytest.mark.slow,
    (signal.SIGINT, "in the middle of the run"): pytest.mark.slow,
    (signal.SIGKILL, "in the middle of the run"): pytest.mark.slow,
    (signal.SIGINT, "as it begins"): pytest.mark.exhaustive,
    (signal.SIGINT, "in the middle of the reference"): pytest.mark.exhaustive,
}


@pytest.mark.launches
@pytest.mark.parametrize(
    ("signum", "moment"), [pytest.param(*death, marks=marks) for death, marks in DEATHS.items()]
)
def test_nothing_is_left(tmp_path, signum, moment):
    root = tmp_path / "store"
    warm = ()
    if moment == "in the middle of the run":  # which is soon there without a cold control
        teach(Store(root))
        warm = ("--launch", "warm", "-k", "one_rank")
    harness = Harness(root, *warm)
    try:
        harness.until(MOMENTS[moment])
        harness.process.send_signal(signum)
        code, output = harness.ended()
    finally:
        harness.process.kill()
    assert code == (130 if signum == signal.SIGINT else -signal.SIGKILL), output
    assert "Traceback" not in output
    assert soon(lambda: not left_processes(root)), left_processes(root)
    assert soon(lambda: not left_directories(root)), left_directories(root)
    cleaned = subprocess.run(
        [sys.executable, "-m", "chaoskit", "clean", "--dir", str(root)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert cleaned.returncode == 0, cleaned.stderr
    statuses = {json.loads(path.read_text())["status"] for path in root.glob("*/**/run.json")}
    assert "running" not in statuses


@pytest.mark.slow
@pytest.mark.parametrize("name", ["control-1", "late"])
def test_a_run_that_keeps_states_is_made_again(tmp_path, name):
    """Killed in the middle of the run whose states are kept, or of the one that begins late."""
    root = tmp_path / "store"
    teach(Store(root))
    chosen = ("--windows", "always", "--launch", "warm", "-k", "one_rank_mid_epoch")
    harness = Harness(root, *chosen)
    try:
        harness.until(f"references/*/{name}/events/rank-*")
        harness.process.kill()
        harness.ended()
        assert soon(lambda: not left_processes(root)), left_processes(root)
        assert soon(lambda: not left_directories(root)), left_directories(root)
        assert not list(root.glob("references/*/windows.json"))
        harness = Harness(root, *chosen)
        code, output = harness.ended()
    finally:
        harness.process.kill()
    assert code == 0, output
    assert ("reference 1 of 2" in output) == (name == "control-1")
    (earned,) = root.glob("references/*/windows.json")
    assert json.loads(earned.read_text())["why"] == "" and "1 experiment in windows of up to" in output
    assert not left_processes(root)


@pytest.mark.slow
def test_no_control_group_is_left(tmp_path, request):
    """A run whose job is in control groups of its own, when the harness is killed; the next start removes them."""
    must_have(request, why_no_limits())
    root = tmp_path / "store"
    teach(Store(root))
    harness = Harness(root, "--launch", "warm", "-k", "test_straggler")
    try:
        harness.until("runs/*/events/rank-0-0-1-*")  # after the reference
        (noted,) = root.glob("runs/*/cgroups.json")
        groups = [Path(path) for path in json.loads(noted.read_text())]
        assert groups and all(group.is_dir() for group in groups)
        harness.process.kill()
        harness.ended()
    finally:
        harness.process.kill()
    assert soon(lambda: not left_processes(root)), left_processes(root)
    words = [sys.executable, "-m", "chaoskit", "clean", "--dir", str(root)]
    cleaned = subprocess.run(words, capture_output=True, text=True, check=False)
    assert cleaned.returncode == 0, cleaned.stderr
    assert not [group for group in groups if group.exists()]
