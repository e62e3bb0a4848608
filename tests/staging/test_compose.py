"""docker-compose.yml: of the form that Compose reads, nothing open to the network, the socket in one service alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yml"
SOCKET = "/var/run/docker.sock"


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load(FILE.read_text())["services"]


def conforms(file: Path) -> subprocess.CompletedProcess[str]:
    words = ("-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file))
    return subprocess.run([sys.executable, *words], capture_output=True, text=True)


def test_it_conforms_to_the_schema_of_compose(tmp_path):
    done = conforms(FILE)
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text(FILE.read_text().replace("cap_drop:", "cap_dorp:", 1))
    assert conforms(wrong).returncode == 1


def test_compose_itself_reads_it():
    """Of either version; neither starts anything here."""
    asked = (["docker", "compose"], ["docker-compose"])
    works = [words for words in asked if shutil.which(words[0]) and _run([*words, "version"]).returncode == 0]
    if not works:
        pytest.skip("needs Compose: apt-get install docker-compose, or the plugin of Docker")
    done = _run([*works[0], "--file", str(FILE), "--profile", "metrics", "config"])
    assert done.returncode == 0, done.stderr
    assert f"source: {ROOT}" in done.stdout or f"{ROOT}:{ROOT}" in done.stdout


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PWD": str(ROOT)}
    return subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)


def test_only_the_harness_has_the_socket_and_is_warned_of(services):
    mounts = {name: [str(one) for one in service.get("volumes", ())] for name, service in services.items()}
    assert [name for name, found in mounts.items() if any(SOCKET in one for one in found)] == ["chaoskit"]
    lines = FILE.read_text().splitlines()
    at = next(at for at, line in enumerate(lines) if line.strip().startswith(f"- {SOCKET}"))
    assert "WARNING" in "".join(lines[at - 3 : at]) and "root on this machine" in "".join(lines[at - 3 : at])


def test_the_directory_of_the_runs_has_the_same_path_as_on_the_host(services):
    assert "${PWD}:${PWD}" in services["chaoskit"]["volumes"]
    assert services["chaoskit"]["working_dir"] == "${PWD}"


def test_nothing_is_privileged_and_no_port_is_open_to_others(services):
    for name, service in services.items():
        assert not {"privileged", "cap_add", "network_mode", "pid", "ipc"} & set(service), name
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", ())), name
        if name != "trainer":  # it runs `true`
            assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"], name


def test_our_images_are_never_pulled_and_others_are_pinned(services):
    for name, service in services.items():
        if service["image"] in ("chaoskit", "tinymodels"):
            assert service["pull_policy"] == "never", name
        else:
            assert ":v" in service["image"], name


def test_both_dockerfiles_and_the_file_name_the_same_base(services):
    for name, place in (("chaoskit", ROOT), ("trainer", ROOT / "tinymodels")):
        base = next(x for x in (place / "Dockerfile").read_text().splitlines() if x.startswith("ARG BASE="))
        assert base.removeprefix("ARG BASE=") in services[name]["build"]["args"]["BASE"]
