"""`pod_files`: the settings of a chaoskit that runs in a pod, as files beside each other."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from chaoskit.cli import configuration, options
from chaoskit.cli.toml_text import toml_value
from chaoskit.cli.yaml_text import yaml_text
from chaoskit.errors import UsageError

if TYPE_CHECKING:
    from chaoskit.nodes import ClusterPlace

FILE, TEMPLATE = "chaoskit.toml", "job-template.yaml"


def pod_files(
    told: Mapping[str, Any], found: configuration.Configuration | None, place: ClusterPlace
) -> dict[str, str]:
    """The content of each file, by name: `chaoskit.toml` with the keys that are `told` and with what no argument can
    say, which is what the project's own file `found` has; and the job template of `place`, if there is one. Raises
    UsageError where PyYAML is missing."""
    content, files = dict(told), {}
    if found is not None:
        keys = {field: key for key, (field, _) in configuration.POD_KEYS.items()}
        content["variables"] = dict(found.variables)
        content["kubernetes"] = {keys[field]: value for field, value in found.pods.items()}
        content["accept"] = [_acceptance(asdict(each)) for each in found.acceptances]
    if place.job_template:
        content["kubernetes"] = {**content.get("kubernetes", {}), "job-template": TEMPLATE}
        files[TEMPLATE] = yaml_text([place.job_template])
    lines = [f"{key} = {toml_value(value)}\n" for key, value in content.items() if value not in ({}, [], ())]
    return {FILE: "".join(lines), **files}


def job_words(
    args: argparse.Namespace, found: configuration.Configuration | None, place: ClusterPlace
) -> list[str]:
    """The command of the job that goes along; none where the job template of `place` has it. Raises UsageError if it or
    the image is missing."""
    if options.job_of_template(place, args.command):
        return []
    command = args.command or (list(found.command) if found is not None else [])
    if not command:
        raise UsageError("the command of the job is missing: put it after '--', or into [tool.chaoskit]")
    if not args.image:
        raise UsageError("--image is missing: the job runs in it")
    return command


def _acceptance(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: fields[key] for key in configuration.ACCEPT_KEYS if fields[key]}
