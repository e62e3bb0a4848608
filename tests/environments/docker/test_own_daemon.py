"""A daemon that really dies in the middle of a run, or starts again, or whose disk is really full."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from chaoskit.errors import ExitCode
from tests.docker_images import images
from tests.environments.docker.own_daemon import OwnDaemon
from tests.users import must_have

REPOSITORY = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.slow, pytest.mark.launches]

#: A harness with one container, which says that its job runs and waits for its end.
HARNESS = """
import sys
from pathlib import Path
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.environment import Ended, RunSpec
from chaoskit.errors import ChaoskitError
run, run_id, image, job = Path(sys.argv[1]), *sys.argv[2:]
spec = RunSpec(run, run / "out", run, run_id, image=image, program="python3")
try:
    with DockerEnvironment(spec) as env:
        env.launch(0, ["python3", "-c", job])
        print("up", flush=True)
        while not (ended := [event for event in env.wait(60) if isinstance(event, Ended)]):
            pass
        print(f"ended with {ended[0].code}", flush=True)
        sys.stdin.readline()
        env.launch(1, ["python3", "-c", job])
except ChaoskitError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""
#: Until a file is there.
JOB = "import os, time\nwhile not os.path.exists({go!r}): time.sleep(0.05)"


def why_not() -> str | None:
    """None if a second daemon can be started here."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        return "only root can start a second Docker daemon: apt-get install docker.io"
    return None


@contextmanager
def started(data_size: str = "") -> Iterator[OwnDaemon]:
    """A daemon that has an image; nothing of it may be left. `data_size`: all that it may store."""
    image = images.image("light")
    with tempfile.TemporaryDirectory(prefix="dockerd-") as directory, ExitStack() as undo:
        place = Path(directory)
        data = place / "data"
        data.mkdir()
        if data_size:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={data_size}", "none", str(data)], check=True)
        undo.callback(unmount_below, place)
        daemon = OwnDaemon(place, data=data)
        undo.callback(daemon.stop)
        daemon.start()
        daemon.copy(image)
        try:
            yield daemon
        except BaseException:
            print(daemon.log()[-4000:])
            raise
        daemon.stop()
        until_gone(daemon)


def unmount_below(place: Path) -> None:
    """A daemon that was killed leaves its mounts."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    for point in sorted((line.split()[4] for line in lines), reverse=True):
        if point.startswith(f"{place}/"):
            subprocess.run(["umount", "--lazy", point], check=True)


def until_gone(daemon: OwnDaemon) -> None:
    deadline = time.monotonic() + 20
    while daemon.alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert daemon.alive() == []


@pytest.fixture
def harness(tmp_path, run_id, request):
    """Starts a harness on a daemon."""
    must_have(request, images.no_daemon() or why_not())
    run, go = tmp_path / "run", tmp_path / "run" / "out" / "go"
    for part in ("events", "logs", "out"):
        (run / part).mkdir(parents=True)

    def start(daemon: OwnDaemon) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", HARNESS, str(run), run_id, images.image("light"), JOB.format(go=str(go))]
        env = {**os.environ, "DOCKER_HOST": daemon.address}
        pipe = subprocess.PIPE
        return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env)

    start.go = go
    return start


def clean(daemon: OwnDaemon, store: Path) -> str:
    """`chaoskit clean`, on that daemon: what it said."""
    done = cleaning(daemon, store)
    assert done.returncode == 0, done
    return done.stdout


def cleaning(daemon: OwnDaemon, store: Path) -> subprocess.CompletedProcess[str]:
    """`chaoskit clean`, and how it ended."""
    words = [sys.executable, "-m", "chaoskit", "clean", "--dir", str(store)]
    env = {**os.environ, "DOCKER_HOST": daemon.address}
    return subprocess.run(words, capture_output=True, text=True, env=env)


def test_a_daemon_that_dies_in_the_middle_of_a_run(harness, tmp_path):
    with started() as daemon:
        running = harness(daemon)
        assert running.stdout.readline() == "up\n"
        daemon.kill()
        harness.go.touch()
        said = running.communicate("\n", timeout=60)[1]
        assert (running.returncode, len(said.splitlines())) == (ExitCode.INTERNAL, 1), said
        assert "the Docker daemon has gone" in said and "chaoskit clean removes what is left" in said
        daemon.start()
        assert len(daemon.objects()) == 2  # a container, which has ended, and its network
        assert "removed network" in clean(daemon, tmp_path / "store")
        assert daemon.objects() == []


def test_a_daemon_that_starts_again_in_the_middle_of_a_run(harness, tmp_path):
    with started() as daemon:
        running = harness(daemon)
        assert running.stdout.readline() == "up\n"
        daemon.kill()
        daemon.start()  # which ends what its predecessor has left running: SIGTERM, and later SIGKILL
        assert running.stdout.readline() == "ended with -15\n"
        harness.go.touch()
        said = running.communicate("\n", timeout=60)[1]
        assert (running.returncode, said) == (0, "")  # the second launch has got a fresh container
        assert daemon.objects() == []


def test_a_daemon_whose_disk_is_full(harness, tmp_path):
    with started(data_size="400m") as daemon:
        running = harness(daemon)
        assert running.stdout.readline() == "up\n"
        (container,) = daemon.docker("ps", "--quiet").split()
        with daemon.full():
            daemon.docker("kill", container)
            assert running.stdout.readline() == "ended with -9\n"
            said = running.communicate("\n", timeout=60)[1]  # the second launch needs a fresh container
            assert (running.returncode, len(said.splitlines())) == (ExitCode.INTERNAL, 1), said
            assert "the disk of the Docker daemon is full: docker system prune" in said
        clean(daemon, tmp_path / "store")
        assert daemon.objects() == []


#: Of the trainer that this repository comes with, in an image with torch.
COMMAND = ["torchrun", "--nproc-per-node", "1", "-m", "tinymodels.train", "--model", "mlp", "--out", "{out}"]


def test_chaoskit_run_on_a_daemon_that_dies(request, tmp_path):
    must_have(request, images.no_daemon() or why_not())
    image, root = images.image("torch"), tmp_path / "runs"
    with started() as daemon:
        daemon.copy(image)
        options = ["--env", "docker", "--image", image, "--mount", f"{REPOSITORY}:/repository:ro", "--nodes", "2"]
        selected = ["--dir", str(root), "-k", "test_one_rank_mid_epoch"]
        words = [sys.executable, "-m", "chaoskit", "run", *options, *selected, "--", *COMMAND]
        env, pipe = {**os.environ, "DOCKER_HOST": daemon.address}, subprocess.PIPE
        running = subprocess.Popen(words, cwd=REPOSITORY, env=env, stdout=pipe, stderr=pipe, text=True)
        while not list(root.glob("runs/*/events")):  # the run after the references
            assert running.poll() is None, running.communicate()
            time.sleep(0.1)
        daemon.kill()
        out, err = running.communicate(timeout=120)
        assert running.returncode == ExitCode.INTERNAL, out + err
        said = err.splitlines()[-1]
        assert said.startswith("chaoskit: ") and "the Docker daemon has gone" in said, err
        assert "internal error" not in err and "Traceback" not in out + err
        assert "test_one_rank_mid_epoch: error in" in err
        unseen = cleaning(daemon, root)
        assert unseen.returncode == ExitCode.INTERNAL and "no Docker daemon answers" in unseen.stderr
        daemon.start()
        clean(daemon, root)
        assert daemon.objects() == []
