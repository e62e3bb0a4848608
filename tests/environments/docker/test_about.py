"""`about` describes a daemon: from recorded answers of several kinds of daemon, and from a real one."""

from __future__ import annotations

import os
import socket

import pytest

from chaoskit.cli import doctor
from chaoskit.environments.docker import about
from chaoskit.environments.docker.about import About, maps_users
from chaoskit.errors import UsageError
from tests.docker_images.images import docker

ORDINARY = {
    "CgroupVersion": "2", "SecurityOptions": ["name=seccomp,profile=default"], "Driver": "overlay2",
    "MemoryLimit": True, "CpuCfsQuota": True,
}  # fmt: skip


def test_a_daemon_of_root():
    assert str(About.of("28.2.2", ORDINARY)) == "28.2.2, as root, cgroup v2, storage overlay2"
    assert About.of("28.2.2", ORDINARY).remedy == ""


@pytest.mark.parametrize(
    ("option", "expected"), [("name=rootless", True), ("name=userns", True), ("name=seccomp,profile=default", False)]
)
def test_who_has_another_uid_here(option, expected):
    assert maps_users({"SecurityOptions": [option]}) is expected and not maps_users({})


def test_a_rootless_daemon_without_controllers_names_the_delegation():
    told = About.of("28.2.2", ORDINARY | {"SecurityOptions": ["name=rootless"], "CpuCfsQuota": False})
    assert told.rootless and told.lacks == ("limits of the CPU",)
    assert "cannot set limits of the CPU" in told.remedy and "Delegate=yes" in told.remedy


def test_an_old_daemon_has_cgroup_v1_and_says_nothing_of_its_limits():
    told = About.of("19.03", {})
    assert (told.cgroups, told.rootless, told.storage, told.lacks) == ("1", False, "unknown", ())


def test_a_real_daemon_says_the_same_as_its_client(docker_image):
    told = about.ask()
    assert told.version == docker("version", "--format", "{{.Server.Version}}")
    assert told.cgroups == docker("info", "--format", "{{.CgroupVersion}}")
    assert told.storage == docker("info", "--format", "{{.Driver}}")


@pytest.fixture
def docker_finding():
    return lambda: next(iter(doctor._docker()))


def test_the_doctor_says_what_it_is(docker_image, docker_finding):
    finding = docker_finding()
    assert finding.good == (not about.ask().lacks) and finding.found == str(about.ask())


def test_the_doctor_says_that_none_answers_and_how_to_get_one(docker_image, docker_finding, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    finding = docker_finding()
    assert not finding.good and finding.found.startswith("no Docker daemon answers at unix://")
    assert "start it" in finding.remedy and finding.remedy.endswith("; only --env docker needs it")


def test_the_doctor_names_the_extra_where_the_sdk_is_missing(docker_finding, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "docker", None)
    finding = docker_finding()
    assert not finding.good and "pip install 'chaoskit[docker]'" in finding.remedy


def test_the_group_of_a_socket_is_named(tmp_path, monkeypatch):
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
        assert about.socket_group(f"unix://{path}").endswith(f"gid {os.stat(path).st_gid})")
    monkeypatch.setattr(about.grp, "getgrgid", lambda gid: {}[gid])
    assert about.socket_group(f"unix://{path}") == f"gid {os.stat(path).st_gid}"
    assert about.socket_group(f"unix://{tmp_path}/missing") == ""


def test_asking_without_a_daemon_is_a_usage_error(docker_image, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(UsageError, match="no Docker daemon answers"):
        about.ask()
