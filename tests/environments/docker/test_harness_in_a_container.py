"""A harness that runs in a container itself, with the socket of the daemon, as a staging cluster has it."""

from __future__ import annotations

import io
import os
import subprocess
import sysconfig
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaoskit.environments import sweep
from chaoskit.environments.agents.package_copy import COPIES
from chaoskit.environments.docker.host_paths import HostPaths
from chaoskit.environments.launch.rank_modules import PACKAGE
from chaoskit.errors import UsageError
from tests.environments.docker.conftest import docker, left

#: What a harness does in a container: it runs a command on two nodes, or waits there to be killed.
HARNESS = """
import sys, time
from pathlib import Path
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.docker.network_helpers import why_not_here
from chaoskit.environments.environment import Ended, RunSpec
from chaoskit.nodes import Nodes
top, run_id, image, what = Path(sys.argv[1]), *sys.argv[2:]
run = top / "runs" / "1"
for part in ("events", "logs", "out"):
    (run / part).mkdir(parents=True)
spec = RunSpec(run, run / "out", run, run_id, nodes=Nodes(2, 2), image=image, program="python3", store=top)
assert all("--helper-image" in why_not_here(tool) for tool in ("nft", "ip"))
assert "run chaoskit as root" in DockerEnvironment.storage_available()
with DockerEnvironment(spec) as env:
    code = "import os, sys; n = os.environ['CHAOSKIT_NODE']; print(n, flush=True); open(sys.argv[1] + n, 'w').close()"
    env.launch(0, ["python3", "-c", code, str(run / "out") + "/"])
    while not any(isinstance(event, Ended) for event in env.wait(10)):
        pass
    # Whoever runs the harness, and whoever the job: a fault can change what the job has written.
    (env.out() / "node0").write_text("damaged")
    print("up", flush=True)
    if what == "wait":
        time.sleep(1000)
"""


@dataclass(frozen=True)
class Harness:
    """A container with a harness; `top` is its store, at the same path inside."""

    container: str
    top: Path


@pytest.fixture
def start(tmp_path: Path, image: str, run_id: str) -> Iterator[object]:
    """Start a harness in a container into which chaoskit was copied, and not mounted."""
    made: list[str] = []

    def begin(what: str, *flags: str) -> Harness:
        (tmp_path / "harness.py").write_text(HARNESS)
        packages = sysconfig.get_paths()["purelib"]
        mounts = [
            "/var/run/docker.sock:/var/run/docker.sock",
            f"{tmp_path}:{tmp_path}",
            f"{packages}:/packages:ro",
        ]
        words = ["python3", f"{tmp_path}/harness.py", str(tmp_path), run_id, image, what]
        volumes = [word for mount in mounts for word in ("--volume", mount)]
        tmp_path.chmod(0o777)
        made.append(docker("create", *volumes, *flags, "--env", "PYTHONPATH=/opt/copied:/packages", image, *words))
        subprocess.run(["docker", "cp", "-", f"{made[-1]}:/"], input=_empty_tar("opt/copied"), check=True)
        docker("cp", str(PACKAGE), f"{made[-1]}:/opt/copied/chaoskit")
        docker("start", made[-1])
        return Harness(made[-1], tmp_path)

    yield begin
    docker("rm", "--force", *made)


def printed(harness: Harness) -> str:
    """What the harness has printed, errors included."""
    words = ["docker", "logs", harness.container]
    return subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    ).stdout.strip()


def _empty_tar(name: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(entry)
    return made.getvalue()


@pytest.mark.launches
@pytest.mark.parametrize("user", ["root", "ordinary"])
def test_it_runs_a_job_on_containers_beside_it(start, run_id, user):
    group = str(os.stat("/var/run/docker.sock").st_gid)
    flags = ["--user", "1234:1234", "--group-add", group, "--env", "HOME=/tmp"] if user == "ordinary" else []
    harness = start("once", *flags)
    assert docker("wait", harness.container) == "0", printed(harness)
    assert printed(harness) == "up"
    log = harness.top / "runs" / "1" / "logs" / "launch-0.log"
    assert sorted(log.read_text().split()) == ["node0", "node1"]
    assert (harness.top / "runs" / "1" / "out" / "node0").read_text() == "damaged"
    # The daemon cannot see what was copied into a container: the nodes have a copy from the store.
    assert list((harness.top / COPIES).glob("*/chaoskit/environments/agents/agent.py"))
    assert left(run_id) == []


@pytest.mark.launches
def test_what_it_leaves_when_its_container_is_killed_is_swept(start, run_id, until):
    harness = start("wait")
    deadline = time.monotonic() + 120
    while printed(harness) != "up" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert len(left(run_id)) == 3
    sweep(harness.top)
    assert len(left(run_id)) == 3, "its container runs"
    docker("kill", harness.container)
    assert len([thing for thing in sweep(harness.top)[0] if run_id in thing]) == 3
    assert left(run_id) == []


def test_paths_as_the_daemon_knows_them():
    assert HostPaths().source("/a/b") == "/a/b"
    mounts = [{"Destination": "/work", "Source": "/home/me"}, {"Destination": "/work/runs", "Source": "/disk"}]
    host = HostPaths("c", mounts)
    assert (host.source("/work/x/y"), host.source("/work/runs/1"), host.source("/work")) == (
        "/home/me/x/y", "/disk/1", "/home/me",
    )  # fmt: skip
    assert host.find("/opt/x") is None
    with pytest.raises(UsageError, match="/opt/x is not mounted from the machine of the Docker daemon: mount it"):
        host.source("/opt/x")
