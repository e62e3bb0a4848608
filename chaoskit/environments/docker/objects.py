"""`Objects`: the containers and networks of one run; the only module that lists or removes any.

Each object has labels that name its run and its owner. Whatever is removed was listed by these labels before: no
function takes the name of an object from outside.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from chaoskit.environments.docker.daemon import Daemon, DaemonError
from chaoskit.environments.docker.host_paths import look
from chaoskit.environments.machine import owner

RUN, OWNER, USER, CONTAINER = "chaoskit.run", "chaoskit.owner", "chaoskit.user", "chaoskit.container"
_GONE = (404, 409)  # it is not there, or is being removed


def labels(run_id: str, *, container: str = "") -> dict[str, str]:
    """The labels of an object that is made now, by a harness that runs in that `container` itself, if in one."""
    return {RUN: run_id, OWNER: json.dumps(owner.current()), USER: str(os.getuid()), CONTAINER: container}


class Objects:
    """The containers and networks of one run."""

    def __init__(self, daemon: Daemon, run_id: str) -> None:
        self._daemon = daemon
        self._run_id = run_id
        self._labels = labels(run_id, container=look(daemon).container)
        self._made = 0

    def network(self) -> tuple[str, str]:
        """Make a bridge network of the run's own; returns its id and the name by which containers join it."""
        name = self._name("network")
        with self._daemon.doing("make a network") as client:
            made = client.create_network(
                name, driver="bridge", labels=self._labels, check_duplicate=True, attachable=False
            )
        return str(made["Id"]), name

    def container(self, role: str, **options: Any) -> str:
        """Make a container, which is not started yet; `options` are those of the SDK's `create_container`. Returns its
        id."""
        with self._daemon.doing(f"make a container for {role}") as client:
            made = client.create_container(name=self._name(role), labels=self._labels, **options)
        return str(made["Id"])

    def remove(self, container: str) -> None:
        """End and remove a container of this run; another one's is left alone."""
        if container in {found["Id"] for found in _containers(self._daemon, {RUN: self._run_id})}:
            _remove_container(self._daemon, container)

    def close(self) -> None:
        """Remove everything of this run."""
        _remove(self._daemon, {RUN: self._run_id}, lambda found: True)

    def _name(self, role: str) -> str:
        # The pid tells apart two harnesses that run the same experiment.
        self._made += 1
        return f"chaoskit-{self._run_id}-{role}-{self._made}"


def sweep(daemon: Daemon) -> tuple[str, ...]:
    """Remove what dead owners of our own user have left; returns what was removed, for people."""
    running = _running(daemon)
    return _remove(daemon, {USER: str(os.getuid())}, lambda found: _is_abandoned(found, running))


def _running(daemon: Daemon) -> frozenset[str]:
    with daemon.doing("list the containers") as client:
        return frozenset(str(found["Id"]) for found in client.containers())


def _is_abandoned(found: Mapping[str, str], running: frozenset[str]) -> bool:
    """Whether the owner is dead: its process, or the container of ours that it ran in."""
    if (container := found.get(CONTAINER, "")) and container not in running:
        return True
    try:
        return owner.is_dead(json.loads(found[OWNER]))
    except (KeyError, ValueError):
        return False  # whoever has put a label of ours on it


def _remove(daemon: Daemon, having: Mapping[str, str], chosen: Any) -> tuple[str, ...]:
    """Remove the objects with these labels that are chosen by all their labels, containers first."""
    removed = []
    for found in _containers(daemon, having):
        if chosen(found.get("Labels") or {}) and _remove_container(daemon, found["Id"]):
            removed.append(f"container {(found.get('Names') or [found['Id']])[0].lstrip('/')}")
    with daemon.doing("list the networks") as client:
        networks: Sequence[Mapping[str, Any]] = client.networks(filters={"label": _filter(having)})
    for found in networks:
        if chosen(found.get("Labels") or {}) and _remove_network(daemon, found["Id"]):
            removed.append(f"network {found['Name']}")
    return tuple(removed)


def _containers(daemon: Daemon, having: Mapping[str, str]) -> list[Mapping[str, Any]]:
    with daemon.doing("list the containers") as client:
        found: list[Mapping[str, Any]] = client.containers(all=True, filters={"label": _filter(having)})
    return found


def _filter(having: Mapping[str, str]) -> list[str]:
    return [RUN, OWNER, *(f"{name}={value}" for name, value in having.items())]


def _remove_container(daemon: Daemon, container: str) -> bool:
    try:
        with daemon.doing("remove a container") as client:
            client.remove_container(container, force=True, v=True)
    except DaemonError as error:
        if error.status not in _GONE:
            raise
        return False
    return True


def _remove_network(daemon: Daemon, network: str) -> bool:
    with suppress(DaemonError), daemon.doing("look at a network") as client:
        # A container that is just going away still counts as its user.
        for container in client.inspect_network(network).get("Containers") or {}:
            client.disconnect_container_from_network(container, network, force=True)
    try:
        with daemon.doing("remove a network") as client:
            client.remove_network(network)
    except DaemonError as error:
        if error.status not in (*_GONE, 403):
            raise
        return False
    return True
