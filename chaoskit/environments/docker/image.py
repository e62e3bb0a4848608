"""`ImageFacts`: what an image is like inside: its Python, its torch, its user. Found by one short-lived container."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from chaoskit.environments.docker.daemon import Daemon, DaemonError, explained
from chaoskit.environments.docker.objects import Objects
from chaoskit.environments.machine import owner
from chaoskit.errors import UsageError

#: Where images have their Python, in the order in which they are tried.
PYTHONS = (
    "python3", "python", "/opt/conda/bin/python", "/opt/venv/bin/python", "/usr/local/bin/python3", "/usr/bin/python3",
    "/venv/bin/python", "/app/.venv/bin/python",
)  # fmt: skip
OLDEST = (3, 11)
#: Run by whatever Python is found, also by an old one. It looks for the interpreter of the job's command, which has
#: torch, and has that describe itself.
_ASK = r"""
import json, os, subprocess, sys
code = '''
import json, os, platform, sys
try:
    from importlib.util import find_spec
    torch = find_spec("torch") is not None
except Exception:
    torch = False
boot = open("/proc/sys/kernel/random/boot_id").read().strip()
print(json.dumps({"python": sys.executable, "version": list(sys.version_info[:3]), "torch": torch, "uid": os.getuid(),
                  "kind": platform.python_implementation().lower(), "machine": platform.machine(), "cwd": os.getcwd(),
                  "libc": " ".join(platform.libc_ver()), "boot": boot, "home": os.path.expanduser("~")}))
'''
def found(word):
    places = [""] if os.sep in word else os.environ.get("PATH", os.defpath).split(os.pathsep)
    for place in places:
        path = os.path.join(place, word)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
def interpreter(word):
    path = found(word)
    if path is None:
        return None
    if os.path.basename(path).startswith("python"):
        return path
    with open(path, "rb") as file:
        first = file.readline(256)
    words = first[2:].decode().split() if first.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [found(each) for each in words[1:] if not each.startswith("-")]
    return words[0] if words and words[0] and "python" in os.path.basename(words[0]) else None
for python in (interpreter(sys.argv[1]), sys.executable):
    if python:
        try:
            print(subprocess.check_output([python, "-c", code]).decode().strip().splitlines()[-1])
            break
        except Exception:
            pass
"""


@dataclass(frozen=True)
class ImageFacts:
    """`id` is the image's digest. `python` runs the job, as `version`; `uid` is the user of the image, `cwd` its
    working directory."""

    id: str
    name: str
    python: str
    version: tuple[int, ...]
    uid: int
    cwd: str


def image_id(daemon: Daemon, name: str, *, pull: bool) -> str:
    """The id of an image, fetched first if it is not there and `pull` says so. Raises UsageError if it is not there, or
    is made for another architecture."""
    if not name:
        raise UsageError("environment 'docker' needs the image of the job: add --image IMAGE")
    try:
        with daemon.doing(f"find the image {name!r}") as client:
            found: dict[str, Any] = client.inspect_image(name)
    except DaemonError as error:
        if error.status not in (400, 404):
            raise
        if not pull:
            raise UsageError(
                f"there is no image {name!r} on this machine: build it, check its name, or add --pull"
            ) from error
        _pull(daemon, name)
        return image_id(daemon, name, pull=False)
    with daemon.doing("ask what it runs on") as client:
        own = str(client.version()["Arch"])
    if found.get("Os", "linux") != "linux" or found.get("Architecture", own) != own:
        raise UsageError(
            f"the image {name!r} is made for {found.get('Os')}/{found['Architecture']}, and this machine is "
            f"linux/{own}: build it with --platform linux/{own}"
        )
    return str(found["Id"])


_known: dict[tuple[str, str], ImageFacts] = {}


def examine(daemon: Daemon, name: str, *, pull: bool, program: str, run_id: str) -> ImageFacts:
    """Look into an image, once in a process. Raises UsageError, with the remedy, for one in which no job of `program`
    can run under test."""
    image = image_id(daemon, name, pull=pull)
    if (image, program) not in _known:
        _known[image, program] = _facts(image, name, _ask(daemon, image, name, program, run_id))
    return _known[image, program]


def _facts(image: str, name: str, said: dict[str, Any]) -> ImageFacts:
    version, where = tuple(said["version"]), f"the image {name!r}"
    if said["kind"] != "cpython" or version < OLDEST:
        shown = ".".join(map(str, version))
        raise UsageError(
            f"{where} has {said['kind']} {shown}, and chaoskit's probe needs CPython {OLDEST[0]}.{OLDEST[1]} or newer: "
            "build the image with a newer Python"
        )
    if not said["torch"]:
        raise UsageError(
            f"{where} has no torch for {said['python']}: install torch there, or name the Python that has it in the "
            "command"
        )
    if said["boot"] != owner.boot_id():
        raise UsageError(
            "the Docker daemon runs on another machine, or in a virtual one, and its containers do not see the files "
            "of this machine: run chaoskit where the daemon runs"
        )
    return ImageFacts(image, name, said["python"], version, said["uid"], said["cwd"])


def _ask(daemon: Daemon, image: str, name: str, program: str, run_id: str) -> dict[str, Any]:
    """What the first Python that starts says."""
    objects = Objects(daemon, run_id)
    last = ""
    for python in PYTHONS:
        container = objects.container(
            "image",
            image=image,
            entrypoint=[python],
            command=["-c", _ASK, program or "torchrun"],
            network_disabled=True,
        )
        try:
            with daemon.doing(f"start the image {name!r}") as client:
                client.start(container)
                client.wait(container, timeout=120)
                output = client.logs(container, stdout=True, stderr=False).decode(errors="replace")
                last = client.logs(container, stdout=False, stderr=True).decode(errors="replace")
        except DaemonError as error:
            if (
                error.status not in (400, 404)
                and "executable" not in str(error)
                and "no such file" not in str(error)
            ):
                raise
            last = str(error)
            continue
        finally:
            objects.remove(container)
        for line in reversed(output.splitlines()):
            if line.startswith("{"):
                said: dict[str, Any] = json.loads(line)
                return said
    if "exec format error" in last:
        raise UsageError(
            f"the programs of the image {name!r} are made for another processor: build it for this machine"
        )
    raise UsageError(
        f"the image {name!r} has no Python that starts ({' '.join(last.split())[-160:] or 'no output'}): the ranks "
        f"need CPython {OLDEST[0]}.{OLDEST[1]} or newer, as python3 on its PATH"
    )


def _pull(daemon: Daemon, name: str) -> None:
    repository, _, tag = name.rpartition(":") if ":" in name.rpartition("/")[2] else (name, "", "latest")
    try:
        with daemon.doing(f"fetch the image {name!r}") as client:
            # Once the daemon has begun to answer, it reports errors as part of the answer.
            answer = client.pull(repository, tag=tag, stream=True, decode=True)
            said = [str(line["error"]) for line in answer if "error" in line]
    except DaemonError as error:
        raise UsageError(f"{error}; is its name right, and is this machine logged in to its registry?") from error
    if said:
        raise UsageError(f"cannot fetch the image {name!r}: {explained(said[-1])}")
