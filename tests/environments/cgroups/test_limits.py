"""Limits on real processes, by the groups of this machine; and that no group is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.capabilities import CanLimitDisk, CanLimitMemory, CanLimitProcessor, CanSignal, LimitTarget
from chaoskit.environments import must_offer, offers
from chaoskit.environments.cgroups import run_groups
from chaoskit.environments.cgroups.available import why_no_limits
from chaoskit.environments.cgroups.run_groups import RunGroups
from chaoskit.environments.environment import Ended
from chaoskit.environments.local.environment import LocalEnvironment
from chaoskit.environments.machine import on_machine
from chaoskit.environments.machine.sweep import sweep
from chaoskit.environments.netns.environment import NetnsEnvironment
from chaoskit.errors import MissingCapability
from tests.users import as_root_only, home, must_have, run_as_ordinary

ALL = ("memory", "cpu", "io")
RANK = [sys.executable, "-I", "-S", str(Path(__file__).parents[1] / "stub_rank.py")]
DEAD = {"pid": os.getpid(), "start": 1}


@pytest.fixture
def limited(place, request):
    """Where a run with groups may happen."""
    must_have(request, why_no_limits(ALL))
    yield replace(place, limits=ALL)
    assert left(place.run_id) == []


def left(run_id):
    """The groups that carry the id of a run."""
    return [str(path) for path in Path("/sys/fs/cgroup").rglob(f"chaoskit-{run_id}")]


def code(text):
    return [sys.executable, "-I", "-S", "-c", text]


@pytest.mark.parametrize("kind", [LocalEnvironment, NetnsEnvironment])
def test_what_an_environment_offers(kind):
    assert all(offers(kind.traits.name, each) for each in (CanLimitMemory, CanLimitProcessor, CanLimitDisk))


def test_without_groups_nothing_can_be_limited(place):
    with LocalEnvironment(place) as env:
        env.launch(0, [*RANK, "0", "1"])
        env.wait(10)
        with pytest.raises(LookupError, match="not started in control groups"):
            env.limit_processor(LimitTarget(rank=0), cpu=0.5)
    assert not (place.run_dir / run_groups.NAME).exists()


def test_the_kernel_kills_a_rank_that_wants_more(limited, until):
    with LocalEnvironment(limited) as env:
        env.launch(0, [*RANK, "0", "3"])
        env.wait(10)
        rank = env.rank_process(0)
        limit = env.limit_memory(LimitTarget(rank=0), leave=0)
        assert env.memory_limited(limit)["gone"] == []
        env.order(0, {"do": "raise", "type": "RuntimeError", "message": "x" * (1 << 16)})
        env.release(0, keep_gating=True)
        until(lambda: env.memory_limited(limit)["gone"] == [rank.pid])
        assert env.memory_limited(limit)["kills"] == 1
        assert env.wait(10) == [Ended(0, -9)]


def test_a_node_that_has_enough_is_left_alone(limited, until):
    with LocalEnvironment(limited) as env:
        env.launch(0, [*RANK, "0", "1"])
        env.wait(10)
        limit = env.limit_memory(LimitTarget(node=0), leave=1 << 30)
        env.release(0, keep_gating=True)
        assert env.wait(10) == [Ended(0, 0)]
        found = env.memory_limited(limit)
        assert found["kills"] == 0 and found["gone"], "it has ended, and the kernel has killed nobody"
        with pytest.raises(LookupError, match="nothing of the job runs on node0"):
            env.limit_memory(LimitTarget(node=0), leave=0)
        with pytest.raises(LookupError, match="there is no node 3"):
            env.limit_memory(LimitTarget(node=3), leave=0)


def test_a_busy_process_is_throttled_and_one_that_sleeps_is_not(limited, until):
    with LocalEnvironment(limited) as env:
        env.launch(0, code("while True: pass"))
        limit = env.limit_processor(LimitTarget(node=-1), cpu=0.05)
        until(lambda: env.processor_limited(limit)["throttled"] > 0)
        env.lift_processor(limit)
        env.launch(1, code("import time; time.sleep(1000)"))
        until(lambda: "S" in Path(f"/proc/{env.launcher_processes()[0].pid}/stat").read_text().split()[2])
        limit = env.limit_processor(LimitTarget(node=0), cpu=0.5)
        assert env.wait(0.5) == [] and env.processor_limited(limit)["throttled"] == 0
        env.lift_processor(limit)
        env.lift_processor(99)


def test_a_process_waits_for_its_disk(limited, until, request):
    writes = f"""
import os
fd = os.open({str(limited.out / "big")!r}, os.O_CREAT | os.O_WRONLY)
while True:
    os.pwrite(fd, bytes(1 << 16), 0)
    os.fsync(fd)
"""
    with LocalEnvironment(limited) as env:
        env.launch(0, code(writes))
        try:
            limit = env.limit_disk(LimitTarget(node=0), rate=1 << 16)
        except LookupError as error:
            must_have(request, str(error))
        until(lambda: env.disk_limited(limit)["seconds"] > 0)
        assert env.disk_limited(limit)["written"] > 0
        env.lift_disk(limit)


def test_children_of_a_rank_come_along(limited, until):
    child = "import subprocess, sys; subprocess.Popen(['sleep', '1000']); "
    stub = f"sys.argv = {[*RANK[3:], '0', '3']!r}; import runpy; runpy.run_path({RANK[3]!r}, run_name='__main__')"
    with LocalEnvironment(limited) as env:
        env.launch(0, code(child + stub))
        env.wait(10)
        env.limit_processor(LimitTarget(rank=0), cpu=0.5)
        groups = env.run.groups
        assert groups is not None
        both = groups.rank("node0", 0, env.rank_process(0).pid).processes()
        assert len(both) == 2 and env.rank_process(0).pid in both


def dead_run(root, run_id, **more):
    """A run whose harness has died, with groups."""
    run_dir = root / "runs" / "one"
    run_dir.mkdir(parents=True)
    record = {"id": run_id, "status": "running", "owner": DEAD, **more}
    (run_dir / "run.json").write_text(json.dumps(record))
    return run_dir


def test_a_sweep_removes_the_groups_of_a_dead_harness(limited, tmp_path, run_id):
    run_dir = dead_run(tmp_path / "store", run_id)
    groups = RunGroups(run_id, run_dir)
    env = {**os.environ, "CHAOSKIT_ID": run_id, "CHAOSKIT_RUN": str(run_dir)}
    sleeper = subprocess.Popen(["sleep", "1000"], env=env)
    try:
        groups.node("node0").child("job").add([sleeper.pid])
        there = left(run_id)
        assert there
        swept = sweep(tmp_path / "store")
        assert swept.processes == (sleeper.pid,)
        assert set(there) <= set(swept.paths) and left(run_id) == []
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_sweep_touches_no_group_of_another_name(limited, tmp_path, run_id):
    run_dir = dead_run(tmp_path / "store", run_id)
    groups = RunGroups(f"{run_id}-other", run_dir)
    try:
        noted = json.loads((run_dir / run_groups.NAME).read_text())
        more = [f"{Path(noted[0]).parent}/x/../chaoskit-{run_id}-other", "/tmp", 3]
        (run_dir / run_groups.NAME).write_text(json.dumps([*noted, *more]))
        sweep(tmp_path / "store")
        assert all(Path(path).is_dir() for path in noted)
    finally:
        groups.remove()
    assert left(f"{run_id}-other") == []


@as_root_only
def test_an_ordinary_user_is_told_the_remedy():
    words = (
        "from chaoskit.capabilities import CanLimitProcessor as What; "
        "from chaoskit.environments.local.environment import LocalEnvironment as It; print(It.lacks(What, None))"
    )
    with home() as place:
        done = run_as_ordinary([sys.executable, "-c", words], place, timeout=60)
    said = done.stdout.strip()
    assert said == "None" or "systemd-run --user --scope -p Delegate=yes" in said, said


def test_a_fault_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(on_machine, "why_no_limits", lambda controllers: f"{controllers} is missing: run as root")
    with pytest.raises(
        MissingCapability, match=r"the fault cannot be used here: \['io'\] is missing: run as root"
    ):
        must_offer("local", (CanLimitDisk,), to="the fault")
    must_offer("local", (CanSignal,), to="another fault")
