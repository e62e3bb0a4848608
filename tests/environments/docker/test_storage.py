"""The storage of a job in containers: mounted on this machine, shown to each container, and made to fail for some."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaoskit.capabilities import InjectedIOError
from chaoskit.environments.docker import daemon, storage_mount
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.environment import Ended
from chaoskit.nodes import Nodes
from chaoskit.protocol.io_journal import Journal
from tests.environments.netns.test_storage_on_hosts import WRITES
from tests.users import must_have

pytestmark = pytest.mark.launches


@pytest.fixture
def env(place, request):
    must_have(request, storage_mount.why_not())
    with DockerEnvironment(replace(place, gated=False, nodes=Nodes(2, 2), storage="recorded")) as env:
        yield env


def write(env, index):
    """Have both nodes write a file; what each said."""
    run = env.run
    env.launch(index, ["python3", "-I", "-S", "-c", WRITES, str(run.spec.out), str(run.run_dir / "logs")])
    while not any(isinstance(each, Ended) for each in env.wait(10)):
        pass
    return [(run.run_dir / "logs" / f"node{number}-{index}").read_text().split("\n")[0] for number in range(2)]


def test_both_containers_have_one_storage_that_fails_for_some(env):
    assert write(env, 0) == ["written", "written"]
    assert sorted(path.name for path in env.out().iterdir()) == ["node0-0", "node1-0"]
    written = [each for each in Journal.read(env.run.run_dir).operations if each.kind == "write"]
    assert {each.path for each in written} == {"node0-0", "node1-0"}

    number = env.fail_storage(InjectedIOError(operations=("create", "write"), error="ENOSPC", nodes=("node1",)))
    assert write(env, 1) == ["written", "No space left on device"]
    assert env.storage_met(number)["files"] == ["node1-1"]
    env.mend_storage(number)
    assert write(env, 2) == ["written", "written"]

    # A container that takes the place of another one has the same storage, and is known to it.
    number = env.fail_storage(InjectedIOError(operations=("create",), error="EIO", nodes=("node1",)))
    env.job.roster.up.remove("node1")
    env.bring_up("node1")
    assert write(env, 3) == ["written", "Input/output error"]


def test_only_root_can_show_containers_a_storage(monkeypatch):
    storage_mount.why_not.cache_clear()
    monkeypatch.setattr(daemon, "why_not", lambda: None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    try:
        assert "run chaoskit as root" in (DockerEnvironment.storage_available() or "")
    finally:
        storage_mount.why_not.cache_clear()
