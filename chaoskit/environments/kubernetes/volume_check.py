"""Whether the volume of the runs is one that two nodes can write to: what its claim says, and what two pods see."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from chaoskit.environments.kubernetes import pod_trouble
from chaoskit.environments.kubernetes.api_kinds import CLAIMS, PODS
from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.cluster_finding import ClusterFinding
from chaoskit.environments.kubernetes.connection import ApiTarget, ClusterConnection
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.pod_manifest import volume_pod
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.nodes import ClusterPlace

WHAT, ROLE = "volume on two nodes", "volume"
#: Seconds for both pods to be scheduled and to have done their work.
LIMIT = 180.0
#: Seconds that one pod waits for a second machine while the other has its own.
_LONELY = 30.0
#: Seconds that a pod waits for the file of the other: a file system of the network may show it late.
_OTHER = 90
_LOOK, _GRACE = 0.5, 10
#: Each of the two writes a file, reads that of the other, and says so; the second to have read removes the directory.
SCRIPT = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("ended"))
place, own, other, limit = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
def write(name, text):
    with open(os.path.join(place, name), "w") as file:
        file.write(text); file.flush(); os.fsync(file.fileno())
def read(name):
    end = time.time() + limit
    while time.time() < end:
        try:
            with open(os.path.join(place, name)) as file:
                text = file.read()
            if text:
                return text
        except OSError:
            pass
        time.sleep(0.2)
    return ""
def remove(name):
    try:
        os.unlink(os.path.join(place, name))
    except OSError:
        pass
try:
    try:
        os.mkdir(place)
    except FileExistsError:
        pass
    write(own, "from " + own)
    print("wrote", flush=True)
    if read(other) != "from " + other:
        sys.exit("the file of the other pod did not come within %g s" % limit)
    print("read", flush=True)
    write(own + "-has-read", "yes")
    read(other + "-has-read")
except OSError as error:
    sys.exit("cannot write to the volume: %s" % error)
finally:
    remove(own)
    remove(other + "-has-read")
    try:
        os.rmdir(place)
    except OSError:
        pass
"""


def of_claim(connection: ClusterConnection, namespace: str, claim: str) -> ClusterFinding:
    """What the claim says of itself. Raises ClusterError."""
    what = f"volume claim {claim}"
    try:
        found = connection.get(ApiTarget(CLAIMS, namespace, claim))
    except ClusterError as error:
        if error.status == 404:
            remedy = "make one whose accessModes are [ReadWriteMany], or name another one with --volume"
            return ClusterFinding(what, f"there is none in namespace {namespace}", False, remedy)
        if error.rule is None:
            raise
        remedy = f"to see it here, add to the Role: {error.rule}"
        return ClusterFinding(what, "this user may not read it; a run does not need to", False, remedy, needed=False)
    modes = (found.get("status") or {}).get("accessModes") or (found.get("spec") or {}).get("accessModes") or ()
    phase = str((found.get("status") or {}).get("phase") or "Pending")
    storage = (found.get("spec") or {}).get("storageClassName") or "the default"
    said = f"{phase}, {', '.join(modes) or 'no access mode'}, storage class {storage}"
    if "ReadWriteMany" not in modes:
        remedy = "only nodes on one machine can share it: make a claim whose accessModes are [ReadWriteMany]"
        return ClusterFinding(what, said, False, remedy)
    if phase == "Lost":
        return ClusterFinding(what, said, False, "its volume is gone: make another claim")
    if phase != "Bound":
        remedy = "it binds when the first pod uses it, or its storage class makes no volume: kubectl describe pvc"
        return ClusterFinding(what, said, False, remedy, needed=False)
    return ClusterFinding(what, said)


def by_two_pods(
    run: RunObjects, connection: ClusterConnection, place: ClusterPlace, *, image: str, python: str,
    limit: float = LIMIT,
) -> ClusterFinding:  # fmt: skip
    """Have two pods on two machines write to the volume, and read what the other has written. The pods are of `run`,
    whose end removes them. Raises ClusterError."""
    unique = uuid4().hex[:8]
    names = [f"chaoskit-{run.identity.run}-volume{number}" for number in range(2)]
    apart = RunSelector(run.identity, ROLE).for_affinity()
    for number, name in enumerate(names):
        words = [f".chaoskit-check-{unique}", *(str(one) for one in (number, 1 - number)), str(_OTHER)]
        manifest = volume_pod(name, place=place, image=image, python=python, script=SCRIPT, words=words, apart=apart)
        run.create(PODS, manifest, role=ROLE, node=number)
    pods = _ended(connection, place.namespace, names, limit)
    machines = [str((pod.get("spec") or {}).get("nodeName") or "") for pod in pods]
    why = list(_troubles(connection, place.namespace, names, pods))
    for pod in pods:
        if pod_trouble.ended(pod) is None:  # so that it removes its file
            run.remove(PODS, role=ROLE, uid=str(pod["metadata"]["uid"]), grace=_GRACE)
    _until_gone(run)
    if not why and len(set(machines)) == 2:
        found = f"pods on {machines[0]} and {machines[1]} each wrote a file and read that of the other"
        return ClusterFinding(WHAT, f"{found}; files and pods are removed")
    lonely = [pod_trouble.waits_for(pod) for pod, machine in zip(pods, machines, strict=True) if not machine]
    if len(lonely) == 1 and lonely[0]:
        remedy = "a job on several nodes needs a second machine that takes its pods"
        found = f"could not be shown: no second machine took a pod ({lonely[0]})"
        return ClusterFinding(WHAT, found, False, remedy, needed=False)
    said = "; ".join(why) or f"both pods ran on {machines[0]}"
    remedy = f"{place.claim!r} must be a ReadWriteMany volume that both machines mount, writable by the image's user"
    return ClusterFinding(WHAT, f"not shown: {said}", False, remedy)


def _ended(
    connection: ClusterConnection, namespace: str, names: Sequence[str], limit: float
) -> list[Mapping[str, Any]]:
    """The pods as they are once both have ended, or cannot run, or `limit` is over. One that no machine takes while the
    other has begun is waited for only as long as that one waits."""
    begun = time.monotonic()
    while True:
        pods: list[Mapping[str, Any]] = [connection.get(ApiTarget(PODS, namespace, name)) for name in names]
        over = [pod_trouble.ended(pod) or pod_trouble.hopeless(pod) for pod in pods]
        unplaced = [not (pod.get("spec") or {}).get("nodeName") for pod in pods]
        is_lonely = sum(unplaced) == 1 and (any(over) or time.monotonic() > begun + _LONELY)
        if all(over) or is_lonely or time.monotonic() > begun + limit:
            return pods
        time.sleep(_LOOK)


def _until_gone(run: RunObjects) -> None:
    """Wait for the pods that have been told to end."""
    deadline = time.monotonic() + 2 * _GRACE
    while time.monotonic() < deadline:
        pods = run.listed(PODS, role=ROLE).manifests
        if not any("deletionTimestamp" in pod["metadata"] for pod in pods):
            return
        time.sleep(_LOOK)


def _troubles(
    connection: ClusterConnection, namespace: str, names: Sequence[str], pods: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    for name, pod in zip(names, pods, strict=True):
        how = pod_trouble.ended(pod)
        if how is None:
            yield f"{name}: {pod_trouble.hopeless(pod) or pod_trouble.waits_for(pod) or 'it did not end in time'}"
        elif how != "exit code 0 (Completed)":
            said = " ".join(connection.log(ApiTarget(PODS, namespace, name), lines=5).split())
            yield f"{name}: {how}: {said}"
