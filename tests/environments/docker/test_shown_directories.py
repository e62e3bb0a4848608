"""Containers that run are shown one directory after the other in place of `{out}`, as a resume trial needs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.capabilities import CanShowDirectory
from chaoskit.environments import registry
from chaoskit.environments.docker import storage_mount
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.docker.host_paths import HostPaths
from chaoskit.environments.docker.places import Place
from chaoskit.environments.environment import Ended
from chaoskit.environments.machine.sweep import sweep
from chaoskit.errors import MissingCapability, UsageError
from chaoskit.nodes import Nodes
from tests.docker_images import images
from tests.environments.docker.conftest import docker, left
from tests.environments.netns.test_storage_on_hosts import WRITES
from tests.users import must_have


def write(env, index):
    """Have both nodes write a file; what each said, and which files it then found in `{out}`."""
    run = env.run
    env.launch(index, ["python3", "-I", "-S", "-c", WRITES, str(run.spec.out), str(run.run_dir / "logs")])
    while not any(isinstance(each, Ended) for each in env.wait(10)):
        pass
    told = [(run.run_dir / "logs" / f"node{number}-{index}").read_text().split("\n") for number in range(2)]
    return [said for said, _ in told], [set(found.split()) for _, found in told]


@pytest.mark.launches
@pytest.mark.parametrize("kind", ["torch", "ordinary-user"])
def test_another_directory_is_shown_to_containers_that_run(place, request, tmp_path, kind):
    must_have(request, storage_mount.why_not())
    spec = replace(place, gated=False, nodes=Nodes(2, 2), shows=True, image=images.image(kind))
    with DockerEnvironment(spec) as env:
        assert write(env, 0)[0] == ["written"] * 2
        began = {node.container for node in env.containers.now.values()}
        shown = tmp_path / "shown"
        for index, name in enumerate(("first", "second"), start=1):
            shown.mkdir()
            (shown / name).touch()
            env.show(shown)
            said, found = write(env, index)
            assert said == ["written"] * 2 and all(name in each for each in found)
            assert ("content", f"node0-{index}") in env.looked_at()
            assert ("names", "") in env.looked_at() or ("names", ".") in env.looked_at()
            env.hide()
            assert {path.name for path in shown.iterdir()} == {name, f"node0-{index}", f"node1-{index}"}
            shown.rename(tmp_path / f"was-{name}")
        # The run's own {out} was not touched, and is there again.
        assert {path.name for path in spec.out.iterdir()} == {"node0-0", "node1-0"}
        said, found = write(env, 3)
        assert said == ["written"] * 2 and found[0] >= {"node0-0", "node0-3"}
        assert began == {node.container for node in env.containers.now.values()}, "no container was replaced"
        host = env.containers.now["node0"].container
        assert (
            docker("inspect", "--format", "{{.HostConfig.Privileged}} {{.HostConfig.CapAdd}}", host) == "false []"
        )


@pytest.mark.launches
def test_a_container_that_begins_meanwhile_sees_it_and_not_longer(place, image, request, tmp_path):
    must_have(request, storage_mount.why_not())
    spec = replace(place, gated=False, nodes=Nodes(2, 2), shows=True, image=image)
    with DockerEnvironment(spec) as env:
        (tmp_path / "shown").mkdir()
        (tmp_path / "shown" / "state").touch()
        env.show(tmp_path / "shown")
        docker("kill", env.containers.now["node1"].container)
        _, found = write(env, 0)
        assert all("state" in each for each in found)
        env.hide()
        _, found = write(env, 1)
        assert all("state" not in each for each in found)


#: A harness that shows its container another directory, says so, and waits to be killed.
HARNESS = """
import sys, time
from pathlib import Path
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.environment import RunSpec
run, run_id, image = Path(sys.argv[1]), *sys.argv[2:]
spec = RunSpec(run, run / "out", run, run_id, image=image, program="python3", shows=True)
with DockerEnvironment(spec) as env:
    env.show(run / "state")
    print(env.run.tmp, flush=True)
    time.sleep(1000)
"""


@pytest.mark.launches
def test_of_a_killed_harness_the_sweep_leaves_no_mount(request, image, tmp_path):
    must_have(request, storage_mount.why_not())
    for part in ("events", "logs", "out", "state"):
        (tmp_path / part).mkdir()
    words = [sys.executable, "-c", HARNESS, str(tmp_path), "test-killed-while-it-shows", image]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as harness:
        shown = Path(harness.stdout.readline().strip())
        harness.kill()
    assert str(shown / "out") in Path("/proc/self/mountinfo").read_text()
    DockerEnvironment.sweep(tmp_path)
    sweep(tmp_path)
    assert not shown.exists() and str(shown) not in Path("/proc/self/mountinfo").read_text()
    assert left("test-killed-while-it-shows") == []


@pytest.mark.launches
def test_a_mount_that_does_not_reach_the_containers_is_an_error(place, request, tmp_path, monkeypatch):
    """Or else the job would resume from something else, and nobody would notice."""
    must_have(request, storage_mount.why_not())
    monkeypatch.setattr(storage_mount, "_MS_SHARED", storage_mount._MS_PRIVATE)
    monkeypatch.setattr(Place, "follows", property(lambda place: False, lambda place, value: None))
    with DockerEnvironment(replace(place, shows=True)) as env:
        with pytest.raises(UsageError, match="node0 does not see the file system that chaoskit has mounted for it"):
            env.show(tmp_path)
        env.hide()


@pytest.mark.launches
def test_who_did_not_ask_for_it_is_told_so(place, image, tmp_path):
    with DockerEnvironment(place) as env:
        with pytest.raises(UsageError, match="not started to be shown another directory"):
            env.show(tmp_path)
        env.hide()  # nothing is shown: no error


def test_only_root_outside_of_a_container_can_show_anything(monkeypatch, request):
    assert registry.offers("docker", CanShowDirectory)
    storage_mount.why_not.cache_clear()
    request.addfinalizer(storage_mount.why_not.cache_clear)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MissingCapability, match=r"a resume trial cannot be used here: .* run chaoskit as root$"):
        registry.must_offer("docker", [CanShowDirectory], to="a resume trial")
    storage_mount.why_not.cache_clear()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(storage_mount, "host_paths", lambda: HostPaths("0123456789ab"))
    with pytest.raises(MissingCapability, match="run chaoskit as root outside of one"):
        registry.must_offer("docker", [CanShowDirectory], to="a resume trial")
