"""`DryRun`: what a run would make in a cluster. The API server checks each object, and makes none."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.environments.agents.package_copy import path_of_copy
from chaoskit.environments.kubernetes import run_owner
from chaoskit.environments.kubernetes.api_kinds import CONFIG_MAPS, PODS, SERVICES, ApiKind
from chaoskit.environments.kubernetes.cluster import connection_to
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.filled_template import difference, filled
from chaoskit.environments.kubernetes.guards import PreviewedPod, preview
from chaoskit.environments.kubernetes.job_template import must_suit, of_place
from chaoskit.environments.kubernetes.objects import owned
from chaoskit.environments.kubernetes.pod_additions import PodAdditions
from chaoskit.environments.kubernetes.pod_channel import address_of, host_of_doors
from chaoskit.environments.kubernetes.pod_manifest import NAMES_ROLE, NODE_ROLE, names_service
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.environments.launch.rank_modules import PACKAGE
from chaoskit.errors import UsageError
from chaoskit.job import Job

#: What an experiment would name.
_RUN = "dry-run"
#: What the server adds, and what says nothing to people.
_OF_THE_SERVER = ("managedFields", "resourceVersion", "creationTimestamp", "generation")


@dataclass(frozen=True)
class DryRun:
    """`objects` are the manifests of one run, in the order in which they would be made, as the server would store them.
    `selected` are the pods that a fault of that run would match now. `difference` is what chaoskit changes in the job
    template of the team, "" without one."""

    objects: tuple[Mapping[str, Any], ...]
    labels: Mapping[str, str]
    selected: tuple[PreviewedPod, ...]
    difference: str = ""

    def as_yaml(self) -> str:
        """The manifests."""
        yaml = importlib.import_module("yaml")  # it comes with the client
        return str(yaml.safe_dump_all(self.objects, sort_keys=False, width=120))


def dry_run(job: Job, *, store: Path) -> DryRun:
    """Have the server check every object of a run of this job, whose files would be in `store`. Raises UsageError, and
    ClusterError for the first object that it refuses."""
    place = job.cluster
    if place is None or not job.image:
        raise UsageError("--dry-run needs --image, --namespace and --volume, as a run does")
    connection = connection_to(place)
    host, name = host_of_doors(place, connection)
    run_dir = store / "runs" / _RUN
    address = address_of(place, run_dir, tcp=f"tcp://{name or host}:PORT")

    def checked(kind: ApiKind, manifest: Mapping[str, Any]) -> dict[str, Any]:
        return as_stored(connection, place.namespace, kind, manifest)

    owner = checked(CONFIG_MAPS, run_owner.manifest(_RUN, connection))
    identity = run_owner.identity_of(owner)
    nodes = RunSelector(identity, NODE_ROLE)
    service = f"chaoskit-{identity.run}"
    found = [owner, checked(SERVICES, owned(names_service(service, nodes.labels), identity, role=NAMES_ROLE))]
    added = PodAdditions(
        place=place,
        service=service,
        python="python3",
        package=path_of_copy(PACKAGE.resolve(), store),
        address=address,
        run_dir=run_dir,
        store=store,
    )
    changed = ""
    if (template := of_place(place)) is not None:
        must_suit(job, template)
        manifest = owned(filled(template, added, out=run_dir / "out"), identity, role=NODE_ROLE)
        changed = difference(template, manifest)
        found.append(checked(template.job.api, manifest))
    for number in range(job.nodes.most if template is None else 0):
        made = added.node_pod(f"{service}-node{number}-1", node=f"node{number}", image=job.image)
        found.append(checked(PODS, owned(made, identity, role=NODE_ROLE, node=number)))
    return DryRun(tuple(found), nodes.labels, preview(connection, nodes), changed)


def as_stored(
    connection: ClusterConnection, namespace: str, kind: ApiKind, manifest: Mapping[str, Any]
) -> dict[str, Any]:
    """An object as the server would store it; none is made. Raises ClusterError if the server refuses it."""
    made: dict[str, Any] = connection.create(namespace, kind, manifest, dry_run=True)
    for name in _OF_THE_SERVER:
        made["metadata"].pop(name, None)
    return made
