"""Checks the parts of a manifest: whether each has the type that the API wants, and whether chaoskit can run the pods.
Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from chaoskit.environments.kubernetes.team_jobs.team_job import PodTemplate, TeamJob
from chaoskit.job import OUT

#: Why a pod must not be restarted in place where its controller can replace it.
NEVER = "must have restartPolicy: Never: chaoskit follows the pods by which the controller replaces a failed one"


def missing_mapping(manifest: Mapping[str, Any], path: str) -> Iterator[str]:
    """The first part on a path such as `spec.template` that is no mapping."""
    part: Any = manifest
    names = path.split(".")
    for count, name in enumerate(names, start=1):
        part = part.get(name)
        if not isinstance(part, Mapping):
            yield f"has no mapping {'.'.join(names[:count])}"
            return


def refused_pods(job: TeamJob) -> Iterator[str]:
    """Why the pods of a job cannot be run."""
    for template in job.pods:
        yield from _misshapen(template)
    for template in job.pods:
        yield from _refused(template.manifest["spec"], job)
    images = sorted({training(template)["image"] for template in job.pods})
    if len(images) > 1:
        yield f"has the images {' and '.join(images)} in the containers that train: all of them need the same"


def training(template: PodTemplate) -> Mapping[str, Any]:
    """The container in which the job trains: the one that names `{out}`."""
    return next(each for each in template.manifest["spec"]["containers"] if names_out(each))


def _refused(pod: Mapping[str, Any], job: TeamJob) -> Iterator[str]:
    found = [each for each in pod["containers"] if names_out(each)]
    if not found:
        yield (
            f"names no {OUT}: write {OUT} where a container takes its checkpoint directory, in its command, its args "
            "or the value of a variable, so that each run gets a fresh directory"
        )
    elif len(found) > 1:
        names = " and ".join(str(each["name"]) for each in found)
        yield f"names {OUT} in the containers {names}: write it in the one alone that trains"
    elif not found[0].get("command"):
        yield (
            f"has no command for the container {found[0]['name']!r}: write it, since chaoskit starts it and "
            "does not know the entrypoint of the image"
        )
    else:
        host = job.address(0, job=job.manifest["metadata"]["name"]).partition(".")[0]
        first = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])")
        for word in words_of(found[0]):
            if first.search(word):
                yield (
                    f"names its first pod, {host}, in {word!r}: the job of a run has another name, so write "
                    f"{job.address(0)}, which chaoskit fills in"
                )


def _misshapen(template: PodTemplate) -> Iterator[str]:
    """Which part of a template is missing, or is something else than the API has there."""
    path, manifest = template.path, template.manifest
    if not isinstance(manifest.get("spec"), Mapping):
        yield f"has no mapping {path}.spec"
    if not isinstance(manifest.get("metadata") or {}, Mapping):
        yield f"has no mapping {path}.metadata"
    containers = manifest["spec"].get("containers")
    if not isinstance(containers, list) or not containers:
        yield f"has no list {path}.spec.containers"
        return  # for mypy: the first reason is raised
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
