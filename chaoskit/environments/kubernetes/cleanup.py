"""`clean_up`: removes the objects of one run in an order in which nothing is made again and no fault outlives its pod.

Faults go first, and nothing else before each of them has been taken back; then jobs, because they would replace their
pods, and pods; then volume claims, which nothing uses any more; the ConfigMap that owns all of it goes last, and only
if nothing else is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from chaoskit.environments.kubernetes.api_kinds import (
    CHAOS_FAULTS,
    CHAOS_MESH,
    CLAIMS,
    CONFIG_MAPS,
    FURTHER_JOBS,
    JOBS,
    PODS,
    SERVICES,
    ApiKind,
)
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.intents import Intent
from chaoskit.environments.kubernetes.listing import listed
from chaoskit.environments.kubernetes.removal import force, remove
from chaoskit.environments.kubernetes.run_owner import name_of
from chaoskit.environments.kubernetes.selectors import RunIdentity, RunSelector

STAGES = (CHAOS_FAULTS, (*FURTHER_JOBS, JOBS, PODS), (SERVICES, CONFIG_MAPS))
_PAUSE = 0.2


@dataclass(frozen=True)
class CleanupReport:
    """`removed` are the objects that were there and have gone, such as `Job trainer`. A `forced` one is a fault that
    Chaos Mesh did not take back: the pods that it hit are removed, and the run proves nothing. `left` may still be
    there."""

    removed: tuple[str, ...] = ()
    forced: tuple[str, ...] = ()
    left: tuple[Intent, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """What somebody must know or do, in words."""
        forced = (
            f"{name} was removed by force, because Chaos Mesh did not take it back: its pods were removed too"
            for name in self.forced
        )
        left = (
            f"{one.resource} {one.name} is left"
            + (", and its fault may last" if one.resource.endswith(CHAOS_MESH) else "")
            + f": {one.removal}"
            for one in self.left
        )
        return (*forced, *left)


def clean_up(
    connection: ClusterConnection,
    identity: RunIdentity,
    *,
    claims: bool = False,
    limit: float = 60.0,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> CleanupReport:
    """Remove everything of a run, and its volume claims if it has `claims`. Each stage may take `limit` seconds; after
    it a fault is removed by force. Raises ClusterError if the API server fails."""
    removed: list[str] = []
    forced: list[str] = []
    left: list[Intent] = []

    def wait(kinds: Sequence[ApiKind]) -> list[tuple[ApiKind, str]]:
        """The objects that are there in the end."""
        deadline = clock() + limit
        while there := [(kind, name) for kind, name, _ in _objects(connection, kinds, identity)]:
            if clock() > deadline:
                break
            pause(_PAUSE)
        return there

    for kinds in (*STAGES, (CLAIMS,)) if claims else STAGES:
        found = list(_objects(connection, kinds, identity))
        for kind, name, uid in found:
            remove(connection, kind, identity.namespace, name, uid=uid)
        there = wait(kinds) if found else []
        if there and kinds[0].group == CHAOS_MESH:
            told = [one for one in there if force(connection, one[0], identity.namespace, one[1])]
            there = wait(kinds)
            forced += [f"{kind.kind} {name}" for kind, name in told if (kind, name) not in there]
        removed += [f"{kind.kind} {name}" for kind, name, _ in found if (kind, name) not in there]
        left += [Intent(kind.in_commands, identity.namespace, name) for kind, name in there]
    owner = ApiTarget(CONFIG_MAPS, identity.namespace, name_of(identity.run))
    if left:
        left.append(Intent(CONFIG_MAPS.in_commands, owner.namespace, owner.name, uid=identity.uid))
    else:
        remove(connection, owner.kind, owner.namespace, owner.name, uid=identity.uid)
        removed.append(str(owner))
    return CleanupReport(tuple(removed), tuple(forced), tuple(left))


def _objects(
    connection: ClusterConnection, kinds: Sequence[ApiKind], identity: RunIdentity
) -> Iterator[tuple[ApiKind, str, str]]:
    """Kind, name and uid of the objects of these kinds. A kind that the cluster lacks, or that this user may not see
    and so cannot have made, has none."""
    for kind in kinds:
        try:
            manifests = listed(connection, kind, RunSelector(identity)).manifests
        except ClusterError as error:
            if error.status == 404 or (error.status == 403 and kind.group not in ("", JOBS.group)):
                continue
            raise
        for manifest in manifests:
            yield kind, str(manifest["metadata"]["name"]), str(manifest["metadata"]["uid"])
