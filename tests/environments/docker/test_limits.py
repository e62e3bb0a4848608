"""Containers run short of memory and of processors, by the daemon's limits."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from chaoskit.capabilities import CanLimitDisk, CanLimitMemory, CanLimitProcessor, LimitTarget
from chaoskit.environments import offers
from chaoskit.environments.docker.container_disks import io_group, why_no_disk_limits
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.environment import Arrived, Ended
from tests.environments.docker.conftest import docker
from tests.environments.docker.test_environment import python
from tests.environments.events import news

pytestmark = pytest.mark.launches

GROWS = "import time\nx = []\nwhile True: x.append(bytearray(b'1' * (1 << 20))); time.sleep(0.02)"


def test_what_it_offers():
    assert all(offers("docker", each) for each in (CanLimitMemory, CanLimitProcessor, CanLimitDisk))


def test_the_kernel_kills_in_a_container_without_memory(place, until):
    with DockerEnvironment(place) as env:
        env.launch(0, python(GROWS))
        limit = env.limit_memory(LimitTarget(node=0), leave=8 << 20)
        assert news(env, Ended) == Ended(0, -9)
        found = env.memory_limited(limit)
        assert found["kills"] == 1 and found["gone"], found
        env.lift_memory(limit)
        # The container has its memory back.
        env.launch(1, python("x = bytearray(b'1' * (256 << 20)); print('enough')"))
        assert news(env, Ended) == Ended(1, 0)
        assert env.memory_limited(limit)["kills"] == 1


def test_a_busy_container_is_throttled_and_one_that_sleeps_is_not(place, until):
    with DockerEnvironment(place) as env:
        env.launch(0, python("while True: pass"))
        limit = env.limit_processor(LimitTarget(node=-1), cpu=0.05)
        until(lambda: env.processor_limited(limit)["throttled"] > 0, timeout=60)
        env.lift_processor(limit)
        env.lift_processor(99)
        env.launch(1, python("import time; time.sleep(1000)"))
        limit = env.limit_processor(LimitTarget(node=0), cpu=1.5)
        env.wait(1)
        assert env.processor_limited(limit)["throttled"] == 0
        with pytest.raises(LookupError, match="node 1 is not up"):
            env.limit_processor(LimitTarget(node=1), cpu=1)


def test_a_rank_is_limited_where_it_has_a_container_to_itself(place, rank, until):
    with DockerEnvironment(place) as env:
        env.launch(0, rank(0, 3))
        news(env, Arrived)
        limit = env.limit_processor(LimitTarget(rank=0), cpu=0.5)
        env.lift_processor(limit)
        with pytest.raises(LookupError, match="rank 5"):
            env.limit_processor(LimitTarget(rank=5), cpu=0.5)
        env.ranks_of = lambda node: (0, 1)
        with pytest.raises(LookupError, match="the daemon limits whole containers, and node0 runs ranks 0, 1"):
            env.limit_memory(LimitTarget(rank=0), leave=0)


WRITES = """
import os
while True:
    with open({path!r}, "wb") as file:
        file.write(bytes(1 << 20))
        os.fsync(file.fileno())
"""


def test_a_container_that_writes_waits_for_its_disk_and_others_do_not(place, until):
    if reason := why_no_disk_limits():
        pytest.skip(reason)
    with DockerEnvironment(place) as env:
        env.launch(0, python(WRITES.format(path=str(place.out / "file"))))
        limit = env.limit_disk(LimitTarget(node=0), rate=1 << 18)
        group = io_group(env.containers.now["node0"])
        until(lambda: env.disk_limited(limit)["seconds"] > 0, timeout=60)
        assert env.disk_limited(limit)["written"] > 0
        # No other process of this machine is in the group.
        listed = docker("top", env.containers.now["node0"].container, "-o", "pid").split()
        assert group.processes() == {int(pid) for pid in listed if pid.isdigit()}
        env.lift_disk(limit)
        env.lift_disk(99)


def test_the_control_group_of_another_process_is_never_taken(place, until):
    if reason := why_no_disk_limits():
        pytest.skip(reason)
    with DockerEnvironment(place) as env:
        env.launch(0, python("import time; time.sleep(1000)"))
        node = env.containers.now["node0"]
        with pytest.raises(LookupError, match="is not the control group of node0 alone"):
            io_group(replace(node, pid=os.getpid()))


def test_only_root_of_the_machine_limits_a_disk(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_no_disk_limits() == (
        "only root of the machine may limit the disk of a container: run chaoskit there as root"
    )
