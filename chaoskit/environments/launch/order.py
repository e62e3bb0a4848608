"""`Order`: everything about a launch: the command, its environment, and the host to start it on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Order:
    """Start `command` in `cwd` with exactly `env`, its output appended to `log`.

    `tmp` is a directory that is removed if the harness dies before the launch is closed. `run_id` is for people who
    list processes. `host` are the namespaces of a virtual host (see `chaoskit.environments.launch.host`); None
    starts the command here. `groups` are the directories of the control groups that it is started in.
    """

    command: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log: Path
    run_id: str
    tmp: Path | None = None
    host: Mapping[str, str] | None = None
    groups: tuple[str, ...] = ()

    def to_json(self, *, grace: float) -> dict[str, Any]:
        """The keeper's first message; see there."""
        return {
            "command": list(self.command),
            "env": dict(self.env),
            "cwd": str(self.cwd.absolute()),
            "log": str(self.log.absolute()),
            "tmp": str(self.tmp.absolute()) if self.tmp is not None else None,
            "host": dict(self.host) if self.host is not None else None,
            "groups": list(self.groups),
            "grace": grace,
        }
