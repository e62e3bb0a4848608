"""`ChaosSpec`: what Chaos Mesh is asked to do. The builders beside this module make it, and check what only the webhook
of Chaos Mesh would check, or nobody."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.environments.kubernetes.api_kinds import ApiKind
from chaoskit.environments.kubernetes.chaos.aim import Aim, check_aim
from chaoskit.environments.kubernetes.guards import LONGEST_FAULT, check_duration
from chaoskit.errors import UsageError
from chaoskit.validation import check_number, check_strings

#: Seconds. The duration counts from the second in which the object was made, whatever the injection takes.
_SHORTEST = 2.0
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class ChaosSpec:
    """A fault of one `kind`; `action` names it in messages. It lasts `seconds`."""

    kind: ApiKind
    action: str
    spec: Mapping[str, Any]
    seconds: float

    def __post_init__(self) -> None:
        if "duration" not in self.spec:
            raise UsageError(f"{self.action}: a duration is missing: without one the fault would outlive chaoskit")
        if self.spec.get("action") == "partition" and not self.spec.get("target"):
            raise UsageError("partition: target is missing: without one all packets of the pods would be dropped")

    def manifest(self, name: str) -> dict[str, Any]:
        """The object of this name. Raises UsageError for a name that cannot be one."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(
                f"{self.action}: name must be 1 to 63 lower-case letters, digits or '-', the first and the last no "
                f"'-', not {name!r}"
            )
        kind = self.kind
        spec = copy.deepcopy(dict(self.spec))
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}


def made(
    kind: ApiKind,
    action: str,
    aim: Aim,
    fields: Mapping[str, Any],
    *,
    seconds: float,
    longest: float = LONGEST_FAULT,
) -> ChaosSpec:
    """The spec of a fault at these pods. Raises UsageError for a duration that is missing, too short or too long."""
    check_aim(action, "aim", aim)
    check_number(action, "duration", seconds, least=_SHORTEST, most=longest)
    duration = check_duration(action, seconds, longest=longest)
    return ChaosSpec(kind, action, {**aim.as_fields(), **fields, "duration": duration}, seconds)


def go_duration(seconds: float) -> str:
    """Seconds as Go reads a duration, to the microsecond."""
    return f"{round(seconds * 1e6)}us"


def container_names(where: str, containers: Sequence[str]) -> dict[str, list[str]]:
    """The containers that are hit; without names, the first of each pod. Raises UsageError for what is no name."""
    names = check_strings(where, "containers", containers)
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{where}: containers must be names of containers, not {name!r}")
    return {"containerNames": list(names)} if names else {}
