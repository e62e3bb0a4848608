"""What an image of a Docker daemon is like inside. Found by one short-lived container."""

from __future__ import annotations

from typing import Any

from chaoskit.environments.agents.image_facts import ASK, PYTHONS, ImageFacts, answer_in, facts_of, no_python
from chaoskit.environments.docker.daemon import Daemon, DaemonError, explained
from chaoskit.environments.docker.objects import Objects
from chaoskit.environments.machine import owner
from chaoskit.errors import UsageError


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
    found = facts_of(image, name, said)
    if said["boot"] != owner.boot_id():
        raise UsageError(
            "the Docker daemon runs on another machine, or in a virtual one, and its containers do not see the files "
            "of this machine: run chaoskit where the daemon runs"
        )
    return found


def _ask(daemon: Daemon, image: str, name: str, program: str, run_id: str) -> dict[str, Any]:
    """What the first Python that starts says."""
    objects = Objects(daemon, run_id)
    last = ""
    for python in PYTHONS:
        container = objects.container(
            "image",
            image=image,
            entrypoint=[python],
            command=["-c", ASK, program or "torchrun"],
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
        if (said := answer_in(output)) is not None:
            return said
    if "exec format error" in last:
        raise UsageError(
            f"the programs of the image {name!r} are made for another processor: build it for this machine"
        )
    raise no_python(name, last)


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
