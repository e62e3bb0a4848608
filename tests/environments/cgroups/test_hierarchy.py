"""Which hierarchy has a controller, and below which group a run may have groups of its own."""

from __future__ import annotations

import os

import pytest

from chaoskit.environments.cgroups import available
from chaoskit.environments.cgroups.hierarchy import LEAF, Hierarchy, hierarchies
from tests.environments.cgroups.groups_here import fake


def machine(tmp_path, mounts, own):
    """The two files in which the kernel says what is mounted and where a process is."""
    (tmp_path / "mountinfo").write_text("".join(f"36 25 0:31 {line}\n" for line in mounts))
    (tmp_path / "cgroup").write_text("".join(f"{line}\n" for line in own))
    return {"mounts": tmp_path / "mountinfo", "own": tmp_path / "cgroup"}


def test_v1_has_one_hierarchy_for_each_controller(tmp_path):
    for name in ("memory/a/b", "cpu,cpuacct", "blkio"):
        (tmp_path / name).mkdir(parents=True)
    mounts = [f"/ {tmp_path}/{name} rw - cgroup cgroup rw,{name}" for name in ("memory", "cpu,cpuacct", "blkio")]
    told = machine(tmp_path, mounts, ["4:memory:/a/b", "1:cpu,cpuacct:/", "7:blkio:/", "0::/"])
    found = {each.controllers: each for each in hierarchies(**told)}
    assert set(found) == {("memory",), ("cpu",), ("io",)}
    assert all(each.version == 1 for each in found.values())
    assert found["memory",].own == found["memory",].parent() == tmp_path / "memory/a/b"


def test_v2_has_one_for_all_and_v1_what_v2_lacks(tmp_path):
    unified = fake(tmp_path / "unified", 2)
    (unified / "cgroup.controllers").write_text("cpu memory")
    (unified / "me").mkdir()
    (tmp_path / "blkio").mkdir()
    mounts = [f"/ {unified} rw - cgroup2 cgroup2 rw", f"/ {tmp_path}/blkio rw - cgroup cgroup rw,blkio"]
    two, one = hierarchies(**machine(tmp_path, mounts, ["7:blkio:/", "0::/me"]))
    assert (two.version, two.controllers, two.own) == (2, ("memory", "cpu"), unified / "me")
    assert (one.version, one.controllers) == (1, ("io",))


def test_a_container_sees_a_part_of_the_hierarchy(tmp_path):
    (tmp_path / "memory").mkdir()
    told = machine(tmp_path, [f"/docker/x {tmp_path}/memory rw - cgroup cgroup rw,memory"], ["4:memory:/docker/x"])
    (found,) = hierarchies(("memory",), **told)
    assert found.own == tmp_path / "memory"


def test_nothing_is_mounted(tmp_path):
    assert hierarchies(**machine(tmp_path, [], ["0::/"])) == ()


def v2(tmp_path, own):
    return Hierarchy(2, ("memory", "cpu", "io"), tmp_path / "top", own)


def test_the_nearest_group_without_processes(tmp_path):
    top = fake(tmp_path / "top", 2)
    slice_ = fake(top / "user.slice", 2)
    own = fake(slice_ / "session.scope", 2)
    (own / "cgroup.procs").write_text("12\n")
    found = v2(tmp_path, own)
    assert found.parent() == slice_
    found.prepare(slice_)
    assert (slice_ / "cgroup.subtree_control").read_text() == "+memory +cpu +io"


def test_a_group_that_lacks_a_controller_is_passed_over(tmp_path):
    top = fake(tmp_path / "top", 2)
    slice_ = fake(top / "user.slice", 2)
    (slice_ / "cgroup.controllers").write_text("memory")
    own = fake(slice_ / "session.scope", 2)
    (own / "cgroup.controllers").write_text("")
    assert v2(tmp_path, own).parent() == top


def test_where_children_have_the_controllers_processes_do_not_matter(tmp_path):
    own = fake(tmp_path / "top", 2)
    (own / "cgroup.procs").write_text("1\n")
    (own / "cgroup.subtree_control").write_text("cpu io memory pids")
    found = v2(tmp_path, own)
    assert found.parent() == own
    found.prepare(own)
    assert (own / "cgroup.subtree_control").read_text() == "cpu io memory pids"


def test_a_delegated_group_is_emptied_and_no_other(tmp_path):
    top = fake(tmp_path / "top", 2)
    (top / "cgroup.procs").write_text("1\n")
    own = fake(top / "run.scope", 2)
    (own / "cgroup.procs").write_text("12\n")
    found = v2(tmp_path, own)
    assert found.parent() is None
    try:
        os.setxattr(own, "user.delegate", b"1")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    assert found.parent() == own


def test_the_top_of_a_container_is_emptied(tmp_path, monkeypatch):
    own = fake(tmp_path / "top", 2)
    (own / "cgroup.procs").write_text("1\n12\n")
    (own / "cgroup.events").write_text("populated 1\n")
    moved = []

    class Moved(type(own)):
        def write_text(self, text):
            moved.append((self.parent.name, text))
            (own / "cgroup.procs").touch()
            if len(moved) == 2:  # the kernel moves them; here nobody does
                open(own / "cgroup.procs", "w").close()
            return len(text)

    found = Hierarchy(2, ("memory",), tmp_path / "top", Moved(own))
    assert found.parent() == own
    found.prepare(found.own)
    assert moved == [(LEAF, "1"), (LEAF, "12"), ("top", "+memory")]


def test_a_group_of_somebody_else(tmp_path, monkeypatch):
    own = fake(tmp_path / "top", 2)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert v2(tmp_path, own).parent() is None
    assert Hierarchy(1, ("memory",), own, own).parent() is None


def test_the_remedy_is_named(tmp_path, monkeypatch):
    own = fake(tmp_path / "top", 2)
    two, one = (Hierarchy(version, ("memory", "cpu", "io"), own, own) for version in (2, 1))
    monkeypatch.setattr(available, "hierarchies", lambda wanted: (two,))
    monkeypatch.setattr(Hierarchy, "parent", lambda self: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "run as root, or, where systemd delegates" in available.why_no_limits()
    assert "systemd-run --user --scope -p Delegate=yes" in available.why_no_limits()
    monkeypatch.setattr(available, "hierarchies", lambda wanted: (one,))
    assert "run as root, or boot with control groups v2" in available.why_no_limits()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "mount /sys/fs/cgroup writable" in available.why_no_limits()
    monkeypatch.setattr(available, "hierarchies", lambda wanted: ())
    assert "no control group here has the controller memory, cpu, io" in available.why_no_limits()
