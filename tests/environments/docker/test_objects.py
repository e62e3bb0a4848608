"""Whatever a harness leaves in the daemon is found by its labels; nothing of anybody else is touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.environments import sweep
from chaoskit.environments.docker import objects
from chaoskit.environments.docker.daemon import shared_daemon
from chaoskit.environments.docker.objects import Objects
from chaoskit.environments.machine import owner, scratch
from tests.environments.docker.conftest import docker, left

pytestmark = pytest.mark.launches

#: A harness with two containers and a storage, of which it says that they are up; then it waits to be killed.
HARNESS = """
import sys, time
from pathlib import Path
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.environment import RunSpec
from chaoskit.nodes import Nodes
run = Path(sys.argv[1])
run_id, image, storage = sys.argv[2:]
spec = RunSpec(
    run, run / "out", run, run_id, nodes=Nodes(2, 2), image=image, program="python3", storage=storage
)
with DockerEnvironment(spec) as env:
    env.launch(0, ["python3", "-c", "import time; time.sleep(1000)"])
    print("up", flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def foreign(image):
    """Containers that are not ours to remove: one with a name like ours, one with our labels and a living owner, one
    with a label of ours alone, and one whose owner is on another machine."""
    mine = json.dumps(owner.current())
    elsewhere = json.dumps({**owner.current(), "pid": 1, "start": 1, "host": "elsewhere"})
    labels = [
        [],
        [f"{objects.RUN}=other", f"{objects.OWNER}={mine}", f"{objects.USER}={os.getuid()}"],
        [f"{objects.RUN}=other"],
        [f"{objects.RUN}=other", f"{objects.OWNER}={elsewhere}", f"{objects.USER}={os.getuid()}"],
    ]
    made = []
    for number, each in enumerate(labels):
        flags = [word for label in each for word in ("--label", label)]
        name = f"chaoskit-test-foreign-{os.getpid()}-{number}"
        made.append(docker("create", "--name", name, *flags, image, "true"))
    yield made
    docker("rm", "--force", *made)


def there(containers):
    return set(containers) <= set(docker("ps", "--all", "--no-trunc", "--format", "{{.ID}}").split())


@pytest.mark.parametrize("storage", ["", "watched"])
def test_a_harness_that_is_killed_leaves_nothing_after_a_sweep(tmp_path, run_id, image, foreign, storage):
    if storage and os.geteuid() != 0:
        pytest.skip("only root can give containers a storage of ours")
    run = tmp_path / "run"
    for part in ("events", "logs", "out"):
        (run / part).mkdir(parents=True)
    (run / "out" / "kept").write_text("kept")
    words = [sys.executable, "-c", HARNESS, str(run), run_id, image, storage]
    harness = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert harness.stdout is not None and harness.stdout.readline() == "up\n"
    assert len(left(run_id)) == 3
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    assert left(run_id)  # the network, and the containers, which have ended
    removed = sweep(tmp_path)[0]
    assert len([thing for thing in removed if run_id in thing]) == 3
    assert left(run_id) == [] and there(foreign)
    scratch.remove(run_id)
    assert not scratch.path(run_id).exists() and (run / "out" / "kept").read_text() == "kept"
    assert run_id not in Path("/proc/self/mountinfo").read_text()
    assert not [thing for thing in sweep(tmp_path)[0] if run_id in thing]


def test_nothing_of_a_living_owner_is_swept(tmp_path, run_id, image, foreign):
    own = Objects(shared_daemon(), run_id)
    try:
        own.network()
        own.container("node0", image=image)
        sweep(tmp_path)
        assert len(left(run_id)) == 2 and there(foreign)
        own.remove(foreign[1])
        assert there(foreign)
    finally:
        own.close()
    assert left(run_id) == [] and there(foreign)
