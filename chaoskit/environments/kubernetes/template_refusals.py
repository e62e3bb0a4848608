"""Why a manifest cannot be run as the job template of a team. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from chaoskit.environments.kubernetes.api_kinds import JOBS
from chaoskit.job import OUT

#: What is filled in beside `{out}`: the name of the run's Job, and that of the service in which its pods have names.
JOB, SERVICE = "{job}", "{service}"
#: The beginning of the labels of chaoskit.
RESERVED = "chaoskit.dev/"
SUPPORTED = "chaoskit runs an Indexed Job of batch/v1"


def refusals(manifest: Any) -> Iterator[str]:
    """Why a manifest cannot be run, the first reason first."""
    if not isinstance(manifest, Mapping) or "kind" not in manifest:
        yield "is no manifest of an object: it needs apiVersion and kind"
        return  # for mypy: the first reason is raised
    kind = f"{manifest.get('apiVersion')} {manifest['kind']}"
    if (manifest.get("apiVersion"), manifest["kind"]) != (JOBS.api_version, JOBS.kind):
        yield f"has the kind {kind}, which is not supported: {SUPPORTED}"
    yield from _misshapen(manifest)
    metadata, spec = manifest["metadata"], manifest["spec"]
    if "generateName" in metadata:
        yield "has generateName: write metadata.name; each run gives its Job a name of its own"
    if not isinstance(metadata.get("name"), str):
        yield "has no metadata.name"
    for of, found in (("", metadata), ("template.", spec["template"].get("metadata") or {})):
        for part in ("labels", "annotations"):
            for name in found.get(part) or {}:
                if str(name).startswith(RESERVED):
                    yield f"has {of}metadata.{part} {name!r}: names that begin with {RESERVED} are those of chaoskit"
    if spec.get("completionMode") != "Indexed":
        yield f"has no completionMode: Indexed: {SUPPORTED}, whose pods have stable names"
    count = spec.get("completions")
    if not isinstance(count, int) or count < 1 or spec.get("parallelism") != count:
        yield "must have the same number of completions and parallelism, since all nodes of the job run at a time"
    if spec.get("suspend"):
        yield "is suspended: leave suspend out, or nothing would run"
    yield from _refused_pods(spec["template"]["spec"], metadata["name"])


def _refused_pods(pod: Mapping[str, Any], name: str) -> Iterator[str]:
    if pod.get("restartPolicy") != "Never":
        yield "must have restartPolicy: Never: chaoskit follows the pods by which the controller replaces a failed one"
    training = [each for each in pod["containers"] if names_out(each)]
    if not training:
        yield (
            f"names no {OUT}: write {OUT} where a container takes its checkpoint directory, in its command, its args "
            "or the value of a variable, so that each run gets a fresh directory"
        )
    elif len(training) > 1:
        names = " and ".join(str(each["name"]) for each in training)
        yield f"names {OUT} in the containers {names}: write it in the one alone that trains"
    elif not training[0].get("command"):
        yield (
            f"has no command for the container {training[0]['name']!r}: write it, since chaoskit starts it and "
            "does not know the entrypoint of the image"
        )
    else:
        first = re.compile(rf"(?<![\w.-]){re.escape(name)}-0(?![\w-])")
        for word in words_of(training[0]):
            if first.search(word):
                yield (
                    f"names its first pod, {name}-0, in {word!r}: the Job of a run has another name, so write "
                    f"{JOB}-0.{SERVICE}, which chaoskit fills in"
                )


def _misshapen(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Which part of a manifest is missing, or is something else than the API has there."""
    part: Any = manifest
    for path in (("metadata",), ("spec",), ("spec", "template"), ("spec", "template", "spec")):
        part = (manifest if len(path) == 1 else part).get(path[-1])
        if not isinstance(part, Mapping):
            yield f"has no mapping {'.'.join(path)}"
    if not isinstance(manifest["spec"]["template"].get("metadata") or {}, Mapping):
        yield "has no mapping spec.template.metadata"
    containers = part.get("containers")
    if not isinstance(containers, list) or not containers:
        yield "has no list spec.template.spec.containers"
    for container in containers:
        if not isinstance(container, Mapping) or not all(isinstance(container.get(n), str) for n in ("name", "image")):
            yield "has a container without name and image, each a text"
        for name, kind in (("command", str), ("args", str), ("env", Mapping)):
            found = container.get(name) or []
            if not isinstance(found, list) or not all(isinstance(each, kind) for each in found):
                what = "texts: put each in quotes" if kind is str else "names and values"
                yield f"has a container {container['name']!r} whose {name} is no list of {what}"


def words_of(container: Mapping[str, Any]) -> list[str]:
    """Where a container may name what chaoskit fills in."""
    values = [str(each.get("value", "")) for each in container.get("env") or ()]
    return [*(container.get("command") or ()), *(container.get("args") or ()), *values]


def names_out(container: Mapping[str, Any]) -> bool:
    """Whether it is the container in which the job trains."""
    return any(OUT in word for word in words_of(container))
