"""An image that is fetched from a registry, which runs on this machine for the test."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import uuid

import pytest

from chaoskit import Job
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.errors import UsageError
from tests.docker_images import images
from tests.docker_images.images import LABEL, docker
from tests.users import must_have

CONFIGURATION = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {place}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@pytest.fixture
def registry(request, tmp_path):
    """Its address, and where it stores."""
    lacks = None if shutil.which("docker-registry") else "needs a registry: apt-get install docker-registry"
    must_have(request, images.no_daemon() or lacks)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings, place = tmp_path / "registry.yml", tmp_path / "registry"
    settings.write_text(CONFIGURATION.format(place=place, port=port))
    with subprocess.Popen(["docker-registry", "serve", str(settings)]) as serving:
        try:
            deadline = time.monotonic() + 30
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    assert time.monotonic() < deadline and serving.poll() is None
                    time.sleep(0.1)
            yield f"127.0.0.1:{port}", place
        finally:
            serving.terminate()


@pytest.fixture
def pushed(registry):
    """The name of an image that the registry has, and the daemon has no more."""
    address, _ = registry
    name = f"{address}/team/trainer:{uuid.uuid4().hex[:8]}"
    lines = f"FROM {images.image('light')}\nLABEL {LABEL}=pulled\nRUN echo {name} > /pulled\n"
    docker("build", "--quiet", "--tag", name, "-", given=lines)
    docker("push", "--quiet", name)
    docker("rmi", name)
    yield name
    if docker("images", "--quiet", name):
        docker("rmi", name)


def job(name, *, pull):
    return Job.from_command(["python3", "train.py", "{out}"], image=name, pull=pull)


def test_an_image_is_fetched_only_with_pull(pushed):
    with pytest.raises(UsageError, match=r"there is no image .*or add --pull"):
        DockerEnvironment.rests_on(job(pushed, pull=False))
    found = DockerEnvironment.rests_on(job(pushed, pull=True))["image"]
    assert docker("run", "--rm", found, "cat", "/pulled") == pushed
    # What is there already is not fetched again.
    assert DockerEnvironment.rests_on(job(pushed, pull=False))["image"] == found


def test_a_registry_that_lacks_a_part_of_the_image(pushed, registry):
    for part in registry[1].glob("docker/registry/v2/blobs/sha256/*/*/data"):
        if b"/pulled" in part.read_bytes():  # the description of the image, which names the command that made it
            part.unlink()
    with pytest.raises(UsageError, match=r"cannot fetch the image '127.0.0.1:\d+/team/trainer:\w+': .*unknown"):
        DockerEnvironment.rests_on(job(pushed, pull=True))
