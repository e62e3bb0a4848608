"""What is written to the files of a group, and what is read from them, in v1 and v2."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from chaoskit.environments.cgroups import disk
from chaoskit.environments.cgroups.disk import DiskLimit, device_of
from chaoskit.environments.cgroups.group import ControlGroup
from chaoskit.environments.cgroups.memory import MemoryLimit
from chaoskit.environments.cgroups.processor import ProcessorLimit
from tests.environments.cgroups.groups_here import fake, hierarchy

MEMORY = {1: "memory.limit_in_bytes", 2: "memory.max"}


@pytest.fixture(params=[1, 2])
def version(request):
    return request.param


@pytest.fixture
def group(tmp_path, version):
    place = fake(tmp_path / "group", version)
    return ControlGroup({hierarchy(place, version): place})


def change(group, name, old, new):
    path = group.place("memory") / name
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new))


def test_memory_falls_and_never_rises(group, version):
    limit = MemoryLimit(group, leave=1000)
    path = group.place("memory") / MEMORY[version]
    limit.lower()
    # Cached files, 300000 bytes of the million, are no memory that a process would miss.
    assert path.read_text() == "701000" and limit.limit == 701000
    used = {1: "memory.usage_in_bytes", 2: "memory.current"}[version]
    change(group, used, "1000000", "2000000")
    limit.lower()
    assert path.read_text() == "701000"
    change(group, used, "2000000", "900000")
    limit.lower()
    assert path.read_text() == "601000"
    limit.lift()
    assert path.read_text() == {1: "-1", 2: "max"}[version]
    change(group, used, "900000", "800000")
    limit.lower()
    assert path.read_text() == {1: "-1", 2: "max"}[version], "a limit that was lifted came back"


def test_only_kills_since_the_limit_count(group, version):
    name = {1: "memory.oom_control", 2: "memory.events"}[version]
    change(group, name, "oom_kill 0", "oom_kill 3")
    limit = MemoryLimit(group, leave=0)
    assert limit.kills == 0
    change(group, name, "oom_kill 3", "oom_kill 4")
    assert limit.kills == 1


def test_a_limit_that_the_kernel_refuses_is_raised_a_little(group, version, monkeypatch):
    """v1 refuses a limit below what is in use by the time that it is set."""
    asked, path, write = [], group.place("memory") / MEMORY[version], Path.write_text

    def refuse(self, text):
        if self != path:
            return write(self, text)
        asked.append(int(text))
        if len(asked) < 3:
            raise OSError(errno.EBUSY, "busy")
        return write(self, text)

    monkeypatch.setattr(Path, "write_text", refuse)
    limit = MemoryLimit(group, leave=0)
    limit.lower()
    assert asked == [700000, 700000 + (1 << 18), 700000 + (1 << 20)] and limit.limit == asked[-1]


def test_a_share_of_a_processor(group, version):
    limit = ProcessorLimit(group, cpu=0.25)
    place = group.place("cpu")
    files = {1: ("cpu.cfs_quota_us", "25000"), 2: ("cpu.max", "25000 100000")}
    name, content = files[version]
    assert (place / name).read_text() == content
    assert limit.caused() == (0, 0, 0.0)
    change(group, "cpu.stat", "nr_periods 10\nnr_throttled 2", "nr_periods 15\nnr_throttled 5")
    change(group, "cpu.stat", "1000000", "1500000")
    assert limit.caused() == (5, 3, 0.5)
    limit.lift()
    assert (place / name).read_text() == {1: "-1", 2: "max"}[version]


def test_a_disk_counts_its_own_bytes(group, version, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(disk.time, "monotonic", lambda: clock[0])
    limit = DiskLimit(group, device="8:0", rate=1000)
    place = group.place("io")
    if version == 2:
        assert (place / "io.max").read_text() == "8:0 rbps=1000 wbps=1000"
    else:
        assert (place / "blkio.throttle.read_bps_device").read_text() == "8:0 1000"
        assert (place / "blkio.throttle.write_bps_device").read_text() == "8:0 1000"
    assert limit.caused() == (0, 0, 0.0)
    name = {1: "blkio.throttle.io_service_bytes", 2: "io.stat"}[version]
    more = {
        1: "8:0 Read 5100\n8:0 Write 200\n9:0 Read 77777\n",
        2: "8:0 rbytes=5100 wbytes=200\n9:0 rbytes=77777\n",
    }
    (place / name).write_text(more[version])
    clock[0] += 1.0
    if version == 2:
        assert limit.caused() == (5000, 0, 0.0), "v2 says itself how long somebody waited"
        change(group, "io.pressure", "total=500000", "total=4500000")
        assert limit.caused() == (5000, 0, 4.0)
    else:
        # Of 5000 bytes that were asked for, 1000 could pass in that second; the last of the others waits 4 s.
        assert limit.caused() == (5000, 0, pytest.approx(3.9))
    limit.lift()
    value = {1: "8:0 0", 2: "8:0 rbps=max wbps=max"}[version]
    assert (place / {1: "blkio.throttle.read_bps_device", 2: "io.max"}[version]).read_text() == value


def test_a_disk_that_is_fast_enough_makes_nobody_wait(tmp_path, monkeypatch):
    place = fake(tmp_path / "group", 1)
    clock = [100.0]
    monkeypatch.setattr(disk.time, "monotonic", lambda: clock[0])
    limit = DiskLimit(ControlGroup({hierarchy(place, 1): place}), device="8:0", rate=1000)
    for second in range(1, 50):
        (place / "blkio.throttle.io_service_bytes").write_text(f"8:0 Read {100 + second * 900}\n8:0 Write 200\n")
        clock[0] += 1.0
        assert limit.caused()[2] == 0.0


def test_the_disk_of_a_path(tmp_path):
    number = os.stat(tmp_path).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    sys = tmp_path / "sys"
    if os.major(number) == 0:
        pytest.skip("the temporary directory is on no disk")
    with pytest.raises(LookupError, match="on no disk"):
        device_of(tmp_path, sys=sys)
    (sys / device).mkdir(parents=True)
    assert device_of(tmp_path, sys=sys) == device
    # A partition has no limits of its own; its disk has.
    whole = tmp_path / "vda"
    (whole / "vda1").mkdir(parents=True)
    (whole / "dev").write_text("254:16\n")
    (whole / "vda1" / "partition").write_text("1\n")
    (sys / device).rmdir()
    (sys / device).symlink_to(whole / "vda1")
    assert device_of(tmp_path, sys=sys) == "254:16"
