"""`RunGroups`: the control groups of one run: one for each node, and in it one for all processes and one for each rank
that has a limit of its own.

They lie at `chaoskit-<run id>/<node>/{job,rank<n>-<pid>}`, below the group that `Hierarchy.parent` names. The run's
directory notes where they are before they are made, so that a sweep finds them after the harness was killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from chaoskit.environments.cgroups.group import ControlGroup, remove
from chaoskit.environments.cgroups.hierarchy import CONTROLLERS, hierarchies
from chaoskit.environments.machine import processes
from chaoskit.errors import UsageError
from chaoskit.protocol.stored_files import read_value
from chaoskit.schema import conform

#: In the directory of a run: the paths of its groups.
NAME = "cgroups.json"
#: How the names of all our groups begin.
PREFIX = "chaoskit-"
_JOB = "job"


class RunGroups:
    """The groups of the run `run_id`. Raises UsageError if they cannot be made, with the remedy."""

    def __init__(self, run_id: str, run_dir: Path, *, controllers: Sequence[str] = CONTROLLERS) -> None:
        self._nodes: dict[str, ControlGroup] = {}
        found = {each: parent for each in hierarchies(controllers) if (parent := each.parent()) is not None}
        self._top = ControlGroup({each: parent / f"{PREFIX}{run_id}" for each, parent in found.items()})
        (run_dir / NAME).write_text(json.dumps(self._top.directories()))
        try:
            for each, parent in found.items():
                each.prepare(parent)
            self._top.make()
        except OSError as error:
            self.remove()
            raise UsageError(f"cannot make a control group for the run: {error}") from error

    def node(self, name: str) -> ControlGroup:
        """The group of all that runs on a node; made if it is not there."""
        if name not in self._nodes:
            self._nodes[name] = self._top.child(name)
            self._nodes[name].child(_JOB)
        return self._nodes[name]

    def job(self, name: str) -> tuple[str, ...]:
        """The directories that a command joins when it starts on that node."""
        return self.node(name).child(_JOB).directories()

    def rank(self, node: str, rank: int, pid: int) -> ControlGroup:
        """A group for the process `pid` and its descendants alone, into which they are moved. Raises LookupError if
        the process has ended."""
        group = self.node(node).child(f"rank{rank}-{pid}")
        while new := [each for each in _family(pid, self.node(node).processes()) if each not in group.processes()]:
            group.add(new)
        if pid not in group.processes():
            raise LookupError(f"rank {rank} has ended")
        return group

    def remove(self) -> None:
        """Remove all groups of the run, once their processes have ended."""
        for place in self._top.places.values():
            remove(place)


def remove_left(run_dir: Path, run_id: str) -> list[str]:
    """Remove the groups that a dead harness has left; returns their paths. Only groups with the name of that run."""
    try:
        noted = conform(list[str], read_value(run_dir / NAME))
    except (OSError, ValueError):
        return []
    mounts = [each.mount for each in hierarchies()]
    removed = []
    for place in map(Path, noted):
        ours = place.name == f"{PREFIX}{run_id}" and any(mount in place.parents for mount in mounts)
        if ours and ".." not in place.parts and place.is_dir():
            with suppress(OSError):
                if remove(place):
                    removed.append(str(place))
    return removed


def _family(pid: int, among: Iterable[int]) -> list[int]:
    """A process and its descendants, of those `among` others."""
    parents = {each: parent for each in among if (parent := processes.parent(each)) is not None}
    found = [pid] if pid in parents else []
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found
