"""Each test image has torch or lacks it as its name says, and each bad image is bad in one way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docker_images.images import LABEL, DockerFailed, docker

ALL_REDUCE = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
number = torch.ones(1)
dist.all_reduce(number)
print(f"sum {number.item()}\\n", end="")
dist.destroy_process_group()
"""


def test_a_job_of_two_ranks_runs_in_the_image_with_torch(docker_image, tmp_path):
    (tmp_path / "job.py").write_text(ALL_REDUCE)
    command = ("torchrun", "--nproc-per-node", "2", "/job/job.py")
    said = docker("run", "--rm", "--volume", f"{tmp_path}:/job:ro", docker_image(), *command)
    assert said.count("sum 2.0") == 2


def test_chaoskit_is_not_in_it(docker_image):
    with pytest.raises(DockerFailed, match="No module named 'chaoskit'"):
        docker("run", "--rm", docker_image(), "python", "-c", "import chaoskit")


def test_an_image_is_made_once_and_can_be_found(docker_image):
    name = docker_image("python")
    made = docker("images", "--quiet", "--no-trunc", name)
    assert docker_image("python") == name
    assert docker("images", "--quiet", "--no-trunc", "--filter", f"label={LABEL}=python", name) == made


@pytest.mark.parametrize(
    ("kind", "words", "said"),
    [
        ("no-python", ["python"], "executable file not found"),
        ("no-torch", ["python", "-c", "import torch"], "No module named 'torch'"),
        ("old-python", ["python", "-c", "print(1)"], "Python 3.6.9"),
    ],
)
def test_bad_images_lack_one_thing(docker_image, kind, words, said):
    with pytest.raises(DockerFailed, match=said):
        docker("run", "--rm", docker_image(kind), *words)


def test_the_other_architecture_is_only_named(docker_image):
    (image,) = json.loads(docker("image", "inspect", docker_image("other-architecture")))
    assert image["Architecture"] == "arm64"


def test_wheels_find_the_libraries_of_every_debian(docker_image):
    """xxhash is the one that chaoskit brings along."""
    import xxhash

    place = Path(xxhash.__file__).parent
    words = ("--volume", f"{place}:/add/xxhash:ro", "--env", "PYTHONPATH=/add", docker_image("python"))
    assert docker("run", "--rm", *words, "python", "-c", "import xxhash; print(xxhash.xxh64_hexdigest(b''))")


def test_users_and_entry_points(docker_image):
    assert docker("run", "--rm", docker_image("ordinary-user"), "id", "-u") == "1234"
    assert docker("run", "--rm", docker_image("ends-at-once"), "echo", "hello") == ""
    assert docker("run", "--rm", docker_image("passes-command-on"), "echo", "hello") == "hello"
    assert docker("run", "--rm", docker_image("network"), "ip", "link").count("LOOPBACK") == 1
