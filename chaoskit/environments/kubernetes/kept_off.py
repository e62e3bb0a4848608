"""`kept_off`: a pod that must not run on one machine, because that was drained. chaoskit changes the pod alone: the
machine and the pods of others stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
#: A machine has the name of its Node object, as in `spec.nodeName` of a pod. Its label kubernetes.io/hostname may be
#: another word, and chaoskit may not look at Node objects.
_NAME = "metadata.name"


def kept_off(pod: Mapping[str, Any], machine: str) -> dict[str, Any]:
    """A copy of a pod that must not run on a machine, besides all that its affinity asks for already."""
    never = {"key": _NAME, "operator": "NotIn", "values": [machine]}
    terms = _terms(pod) or ({},)  # a node has to fulfil one of the terms
    held = [{**term, "matchFields": [*(term.get("matchFields") or ()), never]} for term in terms]
    affinity = pod["spec"].get("affinity") or {}
    nodes = affinity.get("nodeAffinity") or {}
    required = {**(nodes.get(_REQUIRED) or {}), "nodeSelectorTerms": held}
    affinity = {**affinity, "nodeAffinity": {**nodes, _REQUIRED: required}}
    return {**pod, "spec": {**pod["spec"], "affinity": affinity}}


def machines_kept_off(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """The machines on which a pod must not run."""
    return tuple(dict.fromkeys(_names(pod)))


def _names(pod: Mapping[str, Any]) -> Iterator[str]:
    for term in _terms(pod):
        for one in term.get("matchFields") or ():
            if (one["key"], one["operator"]) == (_NAME, "NotIn"):
                yield from one["values"]


def _terms(pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    nodes = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    terms: Sequence[Mapping[str, Any]] = (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    return terms
