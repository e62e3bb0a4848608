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

TRAINER = Path(__file__).parents[1] / "trainers" / "simple.py"


class Harness:
    """`chaoskit run` on a two-rank job, in a process of its own."""

    def __init__(self, root):
        self.root = root
        words = [
            sys.executable, "-m", "chaoskit", "run", "--dir", str(root), "-k", "one_rank", "--",
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(TRAINER), "--out", "{out}",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            # A shell that runs the tests in the background has them ignore Ctrl-C, and that is inherited.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip

    def until(self, there):
        """Wait for a file that matches the pattern, under the root."""
        deadline = time.monotonic() + 60
        while not any(self.root.glob(there)):
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < deadline, f"no {there} came"
            time.sleep(0.01)

    def ended(self):
        """Its exit code and output."""
        output, _ = self.process.communicate(timeout=60)
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
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


MOMENTS = {
    "as it begins": "references",
    "in the middle of the reference": "references/*/control-0/events/rank-*",
    "in the middle of the run": "runs/*/events/rank-0-0-1-*",
}


@pytest.mark.launches
@pytest.mark.parametrize(
    ("signum", "moment"),
    [
        (signal.SIGKILL, "in the middle of the reference"),
        *(
            pytest.param(signum, moment, marks=pytest.mark.slow)
            for signum in (signal.SIGINT, signal.SIGKILL)
            for moment in MOMENTS
            if (signum, moment) != (signal.SIGKILL, "in the middle of the reference")
        ),
    ],
)
def test_nothing_is_left(tmp_path, signum, moment):
    root = tmp_path / "store"
    harness = Harness(root)
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
