"""What chaoskit adds to a job template for one run, and how that differs from the template. Pure functions."""

from __future__ import annotations

import copy
import difflib
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaoskit.environments.kubernetes.job_template import JobTemplate
from chaoskit.environments.kubernetes.pod_additions import PodAdditions
from chaoskit.environments.kubernetes.pod_manifest import mount
from chaoskit.environments.kubernetes.template_refusals import JOB, SERVICE
from chaoskit.job import OUT

#: The variable with the name of a pod, which its agent says. It is of no interest to the job.
POD = "CHAOSKIT_POD"
VOLUME = "chaoskit-runs"
#: Divides the command of the agent from that of the template.
BEHIND = "--"


def filled(template: JobTemplate, added: PodAdditions, *, out: Path) -> dict[str, Any]:
    """The manifest of a run's Job: that of the template with the name of the run, which is that of its service, too;
    with `{out}`, `{job}` and `{service}` filled in; with the agent in front of its command, and what that needs.
    `owned` adds the labels. Raises UsageError for a part that is not on the volume."""
    name = service = added.service
    found: dict[str, Any] = copy.deepcopy(dict(template.manifest))
    found["metadata"] = {**found["metadata"], "name": name}
    pod = found["spec"]["template"]["spec"]
    pod["subdomain"] = service
    pod["volumes"] = [
        *(pod.get("volumes") or ()),
        {"name": VOLUME, "persistentVolumeClaim": {"claimName": added.place.claim}},
    ]
    container = next(each for each in pod["containers"] if each["name"] == template.container["name"])

    def fill(text: str) -> str:
        return text.replace(OUT, str(out)).replace(JOB, name).replace(SERVICE, service)

    container["command"] = [*added.command(f"$({POD})"), BEHIND, *map(fill, container["command"])]
    if "args" in container:
        container["args"] = list(map(fill, container["args"] or ()))
    given = [{**each, "value": fill(str(each["value"]))} if "value" in each else each for each in _env(container)]
    own = {"name": POD, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    container["env"] = [*given, own, *({"name": key, "value": value} for key, value in added.variables.items())]
    container["volumeMounts"] = [
        *(container.get("volumeMounts") or ()),
        *(mount(added.place, part, volume=VOLUME) for part in added.parts),
    ]
    return found


def difference(template: JobTemplate, made: Mapping[str, Any]) -> str:
    """The unified difference between the template and the Job that a run makes of it, as YAML."""
    yaml = importlib.import_module("yaml")  # it comes with the client
    before, after = (
        str(yaml.safe_dump(_plain(each), sort_keys=True, width=10**6)).splitlines(keepends=True)
        for each in (template.manifest, made)
    )
    return "".join(difflib.unified_diff(before, after, "job template", "job of the run", n=2))


def _env(container: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(container.get("env") or ())


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
