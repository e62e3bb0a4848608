"""The images by what they are for. Each is made once and kept under a name that is the digest of its content.

They carry the label `chaoskit.tests.image` and none of chaoskit's own: no sweep of chaoskit finds them.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from filelock import FileLock

from tests.docker_images import contents
from tests.docker_images.tree import Tree, digest

LABEL = "chaoskit.tests.image"
REPOSITORY = "chaoskit-tests"


class DockerFailed(Exception):
    """A call of the docker client that ended with another status than 0."""

    def __init__(self, words: tuple[str, ...], said: str) -> None:
        super().__init__(f"docker {' '.join(words)}: {said}")


@dataclass(frozen=True)
class Imported:
    """An image made of a tree of files."""

    tree: Callable[[], Tree]


@dataclass(frozen=True)
class Derived:
    """An image made of another one by the lines of a Dockerfile."""

    base: str
    lines: str


@dataclass(frozen=True)
class ForAnotherMachine:
    """Another image, which says that it is for this architecture."""

    base: str
    architecture: str


IMAGES: dict[str, Imported | Derived | ForAnotherMachine] = {
    # What a team's image has: Python, torch, numpy, safetensors, torchrun, a shell. chaoskit is not in it.
    "torch": Imported(lambda: contents.python(contents.FOR_TRAINERS)),
    # What stands in for python:3.11-slim in tests of our Dockerfiles.
    "python": Imported(lambda: contents.python(contents.FOR_PYTHON)),
    # The tools of the network, for a container that joins a network namespace: ip, tc, nft.
    "network": Imported(lambda: contents.python(contents.FOR_PYTHON, contents.NETWORK_PROGRAMS)),
    # chaoskit itself, with the client of Kubernetes.
    "chaoskit": Imported(contents.chaoskit),
    # Small enough to be copied into another daemon. Its torch is a name alone, for tests that start no rank.
    "light": Derived("python", "RUN mkdir -p /opt/names/torch\nENV PYTHONPATH=/opt/names\n"),
    # Bad input from here on.
    "no-python": Imported(contents.system),
    "no-torch": Imported(lambda: contents.python(contents.FOR_PYTHON)),
    "other-architecture": ForAnotherMachine("no-python", "arm64"),
    "old-python": Derived("no-python", (
        r"""RUN printf '#!/bin/sh\necho "Python 3.6.9"\ncase "$*" in *-V*|*--version*) exit 0;; esac\nexit 1\n'"""
        " > /usr/local/bin/python3 && chmod 755 /usr/local/bin/python3 && ln -s python3 /usr/local/bin/python\n")),
    "ordinary-user": Derived("torch", "RUN useradd --create-home --uid 1234 trainer\nUSER trainer\n"),
    "swallows-command": Derived("torch", 'ENTRYPOINT ["/bin/sh", "-c", "echo ready; exec sleep 3600"]\n'),
    "ends-at-once": Derived("torch", 'ENTRYPOINT ["/bin/true"]\n'),
    "passes-command-on": Derived("torch", 'ENTRYPOINT ["/bin/sh", "-c", "exec \\"$0\\" \\"$@\\""]\n'),
}  # fmt: skip


def no_daemon() -> str | None:
    """Why no image can be made here, None where one can."""
    try:
        docker("version", "--format", "{{.Server.Version}}")
    except FileNotFoundError:
        return "needs docker: apt-get install docker.io"
    except DockerFailed as error:
        return f"needs a Docker daemon that answers: {error}"
    return None


def image(kind: str = "torch") -> str:
    """Name the image of a kind (a key of `IMAGES`); make it where it is missing.

    Raises KeyError for a kind that there is not, and DockerFailed.
    """
    match IMAGES[kind]:
        case Imported(tree=collect):
            tree = collect()
            name = f"{REPOSITORY}:{kind}-{digest(tree.digest(), _settings())}"
            return _made(name, lambda: _import(name, kind, tree))
        case Derived(base=base, lines=lines):
            below = image(base)
            name = f"{REPOSITORY}:{kind}-{digest(below, lines)}"
            return _made(name, lambda: _build(name, kind, f"FROM {below}\n{lines}"))
        case ForAnotherMachine(base=base, architecture=architecture):
            below = image(base)
            name = f"{REPOSITORY}:{kind}-{digest(below, architecture)}"
            return _made(name, lambda: _declare(name, below, architecture))


def docker(*words: str, given: str | None = None) -> str:
    """Call the docker client; return what it printed. Raises DockerFailed."""
    done = subprocess.run(["docker", *words], input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DockerFailed(words, (done.stderr or done.stdout).strip())
    return done.stdout.strip()


def _made(name: str, make: Callable[[], None]) -> str:
    with FileLock(f"/tmp/{name.replace(':', '-')}.lock"):
        if not docker("images", "--quiet", name):
            make()
    return name


def _settings() -> list[str]:
    """What an imported image says of itself, as lines of a Dockerfile."""
    trusted = [f"ENV PIP_CERT={contents.AUTHORITIES}"] if os.path.exists(contents.AUTHORITIES) else []
    return [f"ENV PATH={contents.SEARCH_PATH}", "ENV LANG=C.UTF-8", *trusted, 'CMD ["bash"]']


def _import(name: str, kind: str, tree: Tree) -> None:
    changes = (f"LABEL {LABEL}={kind}", *_settings())
    words = ["import", *(word for change in changes for word in ("--change", change))]
    importing = subprocess.Popen(
        ["docker", *words, "-", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert importing.stdin is not None and importing.stdout is not None
    try:
        tree.write(importing.stdin)
    except BrokenPipeError:
        pass  # the client says why
    finally:
        importing.stdin.close()
    said = importing.stdout.read().decode()
    if importing.wait() != 0:
        raise DockerFailed(tuple(words), said.strip())


def _build(name: str, kind: str, dockerfile: str) -> None:
    docker("build", "--quiet", "--label", f"{LABEL}={kind}", "--tag", name, "-", given=dockerfile)


def _declare(name: str, base: str, architecture: str) -> None:
    """Load a copy of an image whose configuration names another architecture: `docker import` cannot say so."""
    with tempfile.TemporaryDirectory() as place:
        packed, changed = Path(place, "base.tar"), Path(place, "changed.tar")
        docker("save", "--output", str(packed), base)
        with tarfile.open(packed) as old, tarfile.open(changed, "w") as new:
            (manifest,) = json.load(_member(old, "manifest.json"))
            config = json.load(_member(old, manifest["Config"])) | {"architecture": architecture}
            texts = {"manifest.json": [manifest | {"RepoTags": [name]}], manifest["Config"]: config}
            for path, content in texts.items():
                words = json.dumps(content).encode()
                entry = tarfile.TarInfo(path)
                entry.size = len(words)
                new.addfile(entry, io.BytesIO(words))
            for layer in manifest["Layers"]:
                new.addfile(old.getmember(layer), _member(old, layer))
        docker("load", "--input", str(changed))


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    assert found is not None
    return found
