"""`RunMark`: what the comment of a Slurm job says of its run, and of the harness that submitted it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from chaoskit.environments.machine import owner

_FORM = re.compile(
    r"chaoskit run=(?P<run>[A-Za-z0-9][A-Za-z0-9._-]*) host=(?P<host>\S+) boot=(?P<boot>\S*) pid=(?P<pid>\d+) "
    r"start=(?P<start>\d+)"
)


@dataclass(frozen=True)
class RunMark:
    """The run, and its harness as an owner: see `machine.owner`."""

    run: str
    host: str
    boot: str
    pid: int
    start: int

    @classmethod
    def of_run(cls, run_id: str) -> RunMark:
        """That of a run of this process."""
        me = owner.current()
        return cls(run_id, str(me["host"]), str(me["boot"]), int(me["pid"]), int(me["start"]))

    @classmethod
    def read(cls, comment: str) -> RunMark | None:
        """What a comment says; None if it is not one of ours, as a whole."""
        found = _FORM.fullmatch(comment.strip())
        if found is None:
            return None
        return cls(found["run"], found["host"], found["boot"], int(found["pid"]), int(found["start"]))

    def __str__(self) -> str:
        return f"chaoskit run={self.run} host={self.host} boot={self.boot} pid={self.pid} start={self.start}"

    @property
    def is_abandoned(self) -> bool:
        """Whether the harness is known to have ended. Of a harness on another machine that is not known."""
        known: dict[str, Any] = {"host": self.host, "boot": self.boot, "pid": self.pid, "start": self.start}
        return owner.is_dead(known)
