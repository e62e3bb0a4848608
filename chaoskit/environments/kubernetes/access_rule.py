"""`AccessRule`: what a Role allows, as one line of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AccessRule:
    """These `verbs` on these `resources` of one API group; a subresource is written `pods/log`."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]

    def __str__(self) -> str:
        group = self.group or '""'
        resources, verbs = ", ".join(self.resources), ", ".join(self.verbs)
        return f"{{apiGroups: [{group}], resources: [{resources}], verbs: [{verbs}]}}"

    def as_manifest(self) -> dict[str, Any]:
        """As an entry of `rules` in a Role."""
        return {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
