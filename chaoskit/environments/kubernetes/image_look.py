"""`examine`: what an image is like inside, as one short pod of it says."""

from __future__ import annotations

import os
import time
from pathlib import Path
from uuid import uuid4

from chaoskit.environments.agents.image_facts import ASK, PYTHONS, ImageFacts, answer_in, facts_of, no_python
from chaoskit.environments.kubernetes import permissions, pod_trouble
from chaoskit.environments.kubernetes.api_kinds import PODS
from chaoskit.environments.kubernetes.cluster import connection_to
from chaoskit.environments.kubernetes.connection import ApiTarget
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.pod_manifest import look_pod
from chaoskit.environments.kubernetes.pods import UP_LIMIT
from chaoskit.environments.machine import scratch
from chaoskit.errors import UsageError
from chaoskit.nodes import ClusterPlace

_LOOK = 0.3
_LINES = 20
_known: dict[tuple[str, str, str, str], ImageFacts] = {}


def examine(
    place: ClusterPlace, image: str, *, program: str, run_dir: Path | None = None, has_claim: bool = True
) -> ImageFacts:
    """Look into an image, once in a process, in a pod that has the claim, too, if it `has_claim`. The directory of a
    run gets the journal of what is made for that, if there is a run yet. Raises UsageError, with the remedy, for an
    image in which no job of `program` can run under test, ClusterError if the cluster fails."""
    if not image:
        raise UsageError("environment 'kubernetes' needs the image of the job: add --image IMAGE")
    key = (place.context, place.namespace, image, program)
    if key not in _known:
        permissions.must_have(connection_to(place), place.namespace)
        run_id = f"look-{os.getpid()}-{uuid4().hex[:8]}"
        try:
            directory = run_dir if run_dir is not None else scratch.make(run_id)
            _known[key] = _look(place, image, program, run_id, directory, has_claim=has_claim)
        finally:
            if run_dir is None:
                scratch.remove(run_id)
    return _known[key]


def _look(
    place: ClusterPlace, image: str, program: str, run_id: str, directory: Path, *, has_claim: bool
) -> ImageFacts:
    connection = connection_to(place)
    objects = RunObjects(connection, namespace=place.namespace, run_id=run_id, run_dir=directory)
    last = ""
    try:
        for number, python in enumerate(PYTHONS):
            name = f"chaoskit-{run_id}-{number}"
            words = [python, "-c", ASK, program or "torchrun"]
            manifest = look_pod(name, place=place, image=image, command=words, has_claim=has_claim)
            objects.create(PODS, manifest, role="look")
            target = ApiTarget(PODS, place.namespace, name)
            deadline, pod = time.monotonic() + UP_LIMIT, connection.get(target)
            while (how := pod_trouble.ended(pod)) is None:
                if (no_start := pod_trouble.without_start(pod)) is not None:
                    last = no_start  # the image may have its Python elsewhere
                    break
                why = pod_trouble.without_image(pod) or pod_trouble.without_volume(pod)
                if why or time.monotonic() > deadline:
                    why = why or pod_trouble.waits_for(pod) or f"its pod does not run within {UP_LIMIT:g} s"
                    raise UsageError(f"the image {image!r} cannot run in namespace {place.namespace}: {why}")
                time.sleep(_LOOK)
                pod = connection.get(target)
            else:
                said = connection.log(target, lines=_LINES)
                if (answer := answer_in(said)) is not None:
                    return facts_of(_id_of(pod, image), image, answer)
                last = f"{how}: {said}"
    finally:
        objects.close()
    raise no_python(image, last)


def _id_of(pod: dict[str, object], image: str) -> str:
    """The digest of the image that the pod has run."""
    status = pod.get("status")
    containers = status.get("containerStatuses") if isinstance(status, dict) else None
    return str(containers[0].get("imageID") or image) if containers else image
