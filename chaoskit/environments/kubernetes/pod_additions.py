"""`PodAdditions`: what chaoskit gives to each pod of a run: its agent, the volume of the runs, and variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaoskit.environments.kubernetes.pod_manifest import VolumePart, agent_command, node_pod
from chaoskit.nodes import ClusterPlace


@dataclass(frozen=True, kw_only=True)
class PodAdditions:
    """`service` is what the pods have their names of. The agent is that of `package`, which `python` starts and which
    connects to chaoskit at `address`. The files of the run are in `run_dir`, those of all runs in `store`."""

    place: ClusterPlace
    service: str
    python: str
    package: Path
    address: str
    run_dir: Path
    store: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[VolumePart, ...]:
        """What a pod has of the volume."""
        shared = (VolumePart(self.store, read_only=True),) if self.store != self.run_dir else ()
        return (*shared, VolumePart(self.run_dir))

    def command(self, pod: str) -> Sequence[str]:
        """The command of the agent in a pod of this name."""
        return agent_command(self.python, self.package, address=self.address, pod=pod, run_dir=self.run_dir)

    def node_pod(self, pod: str, *, node: str, image: str) -> dict[str, Any]:
        """The manifest of a pod that chaoskit makes itself for a node. Raises UsageError."""
        return node_pod(
            pod,
            node=node,
            service=self.service,
            place=self.place,
            image=image,
            command=self.command(pod),
            variables=self.variables,
            parts=self.parts,
        )
