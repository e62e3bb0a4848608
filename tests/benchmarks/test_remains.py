"""What the benchmarks of killed harnesses count: each kind of thing that is left on purpose is seen."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.environments.docker import objects
from chaoskit.environments.machine import owner, processes
from tests.docker_images import images
from tests.users import must_have

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import daemon_remains  # noqa: E402
import killed_in_containers  # noqa: E402
import remains  # noqa: E402
from daemon_remains import Daemon, Nameless, docker  # noqa: E402

killed_in_containers.test_image.__test__ = False


@pytest.fixture
def harness():
    """A process that stands in for a harness which was killed."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield processes.identify(process.pid)
        process.kill()


@pytest.fixture
def root(tmp_path):
    (tmp_path / "runs" / "20260101-some-run").mkdir(parents=True)
    return tmp_path


def owned_by(harness):
    return json.dumps({**owner.current(), "pid": harness.pid, "start": harness.started})


def test_nothing_is_seen_where_nothing_is(root, harness):
    assert remains.left(root, harness) == {kind: [] for kind in remains.KINDS}


def test_what_is_left_on_the_machine(root, harness):
    run = root / "runs" / "20260101-some-run"
    scratch = Path(f"/tmp/chaoskit-{os.getuid()}-{run.name}-{os.getpid()}")
    scratch.mkdir()
    (scratch / "owner.json").write_text(owned_by(harness))
    (run / "slots" / "0").mkdir(parents=True)
    here = os.getcwd()
    os.chdir(run)  # the address of a socket holds 107 bytes
    try:
        with (
            socket.socket(socket.AF_UNIX) as door,
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", run.name]) as helper,
        ):
            door.bind("agents.sock")
            found = remains.left(root, harness)
            helper.kill()
    finally:
        os.chdir(here)
        (scratch / "owner.json").unlink()
        scratch.rmdir()
    assert found["directories"] == [str(scratch), str(run / "slots" / "0")]
    assert found["sockets"] == [str(run / "agents.sock")]
    (seen,) = found["processes"]
    assert seen.startswith(f"{helper.pid} ")


def test_a_mount_that_is_left(root, harness):
    place = root / "runs" / "20260101-some-run" / "out"
    place.mkdir()
    script = f"mount -t tmpfs none {place} && echo mounted && exec sleep 1000"
    with subprocess.Popen(["unshare", "--mount", "sh", "-c", script], stdout=subprocess.PIPE, text=True) as process:
        said = process.stdout.readline()
        mounts = remains.left(root, harness)["mounts"]
        process.kill()
    if not said:
        pytest.skip("only root can mount")
    assert len(mounts) == 1 and str(place) in mounts[0]


@pytest.mark.slow
def test_what_is_left_in_the_daemon(request, root, harness):
    must_have(request, images.no_daemon())
    image = images.image("light")
    name = f"test-remains-{os.getpid()}"
    labels = ["--label", f"{objects.OWNER}={owned_by(harness)}"]
    sleep = ["--entrypoint", "sleep", image, "1000"]
    with killed_in_containers.foreigners(image) as foreign:
        daemon = Daemon.of(foreign[0])
        before = Nameless.now(daemon)

        def left():
            return daemon_remains.left(root, harness, before=before, daemon=daemon)

        found = left()
        assert not any(found[kind] for kind in ("containers", "networks", "volumes", "images"))
        assert killed_in_containers.alive(foreign)
        try:
            # By its labels; by its name; by what it mounts.
            docker("run", "--detach", "--name", f"{name}-1", *labels, *sleep)
            docker("create", "--name", f"{name}-20260101-some-run", image)
            docker("create", "--name", f"{name}-3", "--volume", f"{root}:/place", image)
            docker("network", "create", *labels, name)
            docker("volume", "create", name)
            docker("import", "-", f"{name}:empty", given="\0" * 10240)
            found = left()
            assert len(found["containers"]) == 3 and found["networks"] == [name]
            assert name in found["volumes"] and len(found["images"]) == 1
            # A container that the daemon does not know any more has left these.
            (one,) = daemon_remains.described("container", [f"{name}-1"])
            shims, spaces = _unclaimed(daemon, one["Id"])
            assert one["Id"] in shims and one["NetworkSettings"]["SandboxKey"] in spaces
            assert {one["Id"]}.isdisjoint(Nameless.now(daemon).shims)
        finally:
            docker("rm", "--force", f"{name}-1", f"{name}-20260101-some-run", f"{name}-3")
            docker("network", "rm", name)
            docker("volume", "rm", name)
            docker("rmi", f"{name}:empty")
        docker("stop", "--time", "0", foreign[0])
        assert not killed_in_containers.alive(foreign)


def _unclaimed(daemon, container):
    """What counts if the daemon does not list that container: its shim and its network namespace."""
    listed = daemon_remains.described
    try:
        daemon_remains.described = lambda kind, ids: [
            one for one in listed(kind, ids) if one["Id"] != container
        ]
        now = Nameless.now(daemon)
    finally:
        daemon_remains.described = listed
    return now.shims, now.namespaces
