"""`yaml_text`: writes objects as YAML that people read."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from chaoskit.errors import UsageError


def yaml_text(objects: Iterable[Mapping[str, Any]]) -> str:
    """One document for each object: texts of several lines as they are, and nothing refers to another place. Raises
    UsageError where PyYAML is missing."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise UsageError("PyYAML is not installed: pip install 'chaoskit[kubernetes]'") from error

    def text(dumper: Any, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    readable = type("ReadableDumper", (yaml.SafeDumper,), {"ignore_aliases": lambda dumper, data: True})
    yaml.add_representer(str, text, Dumper=readable)
    return str(yaml.dump_all(objects, Dumper=readable, sort_keys=False, width=10**6))
