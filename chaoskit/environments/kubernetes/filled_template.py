"""What chaoskit adds to a job template for one run, and how that differs from the template. Pure functions."""

from __future__ import annotations

import copy
import difflib
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from chaoskit.environments.kubernetes.job_template import JobTemplate
from chaoskit.environments.kubernetes.pod_additions import PodAdditions
from chaoskit.environments.kubernetes.pod_manifest import mount
from chaoskit.environments.kubernetes.team_jobs.kinds import accepted_job
from chaoskit.environments.kubernetes.team_jobs.pod_shape import names_out
from chaoskit.environments.kubernetes.team_jobs.team_job import JOB, SERVICE
from chaoskit.job import OUT
from chaoskit.protocol.secret_words import Redaction

#: The variable with the name of a pod, which its agent says. It is of no interest to the job.
POD = "CHAOSKIT_POD"
VOLUME = "chaoskit-runs"
#: Divides the command of the agent from that of the template.
BEHIND = "--"


def filled(template: JobTemplate, added: PodAdditions, *, out: Path) -> dict[str, Any]:
    """The manifest of a run's job: that of the template with the name of the run, which is that of its service, too;
    with `{out}`, `{job}` and `{service}` filled in; with the agent in front of its command, and what that needs.
    `owned` adds the labels. Raises UsageError for a part that is not on the volume."""
    name = added.service
    job = accepted_job({**template.manifest, "metadata": {**template.manifest["metadata"], "name": name}})

    def fill(text: str) -> str:
        return text.replace(OUT, str(out)).replace(JOB, name).replace(SERVICE, added.service)

    return copy.deepcopy(job.with_pods(lambda pods: _filled_pods(pods, added, fill), service=added.service))


def _filled_pods(template: Mapping[str, Any], added: PodAdditions, fill: Callable[[str], str]) -> dict[str, Any]:
    """A template of pods with what chaoskit adds to them."""
    pod = template["spec"]
    volume = {"name": VOLUME, "persistentVolumeClaim": {"claimName": added.place.claim}}
    containers = [_with_agent(each, added, fill) if names_out(each) else each for each in pod["containers"]]
    return {**template, "spec": {**pod, "volumes": [*(pod.get("volumes") or ()), volume], "containers": containers}}


def _with_agent(container: Mapping[str, Any], added: PodAdditions, fill: Callable[[str], str]) -> dict[str, Any]:
    """The container that trains, with the agent in front of its command."""
    env = container.get("env") or ()
    given = [{**each, "value": fill(str(each["value"]))} if "value" in each else each for each in env]
    own = {"name": POD, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    return {
        **container,
        "command": [*added.command(f"$({POD})"), BEHIND, *map(fill, container["command"])],
        **({"args": list(map(fill, container["args"] or ()))} if "args" in container else {}),
        "env": [*given, own, *({"name": key, "value": value} for key, value in added.variables.items())],
        "volumeMounts": [
            *(container.get("volumeMounts") or ()),
            *(mount(added.place, part, volume=VOLUME) for part in added.parts),
        ],
    }


def difference(template: JobTemplate, made: Mapping[str, Any]) -> str:
    """The unified difference between the template and the job that a run makes of it, as YAML, without secrets."""
    yaml = importlib.import_module("yaml")  # it comes with the client
    redaction = Redaction()
    before, after = (
        str(yaml.safe_dump(redaction.tree(_plain(each)), sort_keys=True, width=10**6)).splitlines(keepends=True)
        for each in (template.manifest, made)
    )
    return "".join(difflib.unified_diff(before, after, "job template", "job of the run", n=2))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
