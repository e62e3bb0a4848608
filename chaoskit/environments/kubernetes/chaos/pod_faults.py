"""`PodMesh` and `PodMeshFaults`: what an environment whose nodes are pods can do to them with Chaos Mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.capabilities import InjectedIOError, Way
from chaoskit.environments.kubernetes.chaos.chaos_pods import USUAL, ChaosLimits, ChaosPods
from chaoskit.environments.kubernetes.chaos.hidden_names import HiddenNames
from chaoskit.environments.kubernetes.chaos.pod_clocks import PodClocks
from chaoskit.environments.kubernetes.chaos.pod_links import PodLinks
from chaoskit.environments.kubernetes.chaos.pod_storage import PodStorage
from chaoskit.environments.kubernetes.chaos.pod_stress import PodStress
from chaoskit.environments.kubernetes.chaos.refusals import without_target


@dataclass(frozen=True)
class PodMesh:
    """All that Chaos Mesh does to the pods of one run: cuts and slow `links`, `hidden` names, errors of the `storage`,
    `stress`, which uses up their memory and processors, and wrong `clocks`."""

    links: PodLinks
    hidden: HiddenNames
    storage: PodStorage
    stress: PodStress
    clocks: PodClocks

    @classmethod
    def of(cls, pods: ChaosPods, *, volume: Path, out: Path, limits: ChaosLimits = USUAL) -> PodMesh:
        """Nothing yet; see `PodStorage` for `volume` and `out`."""
        return cls(
            PodLinks(pods, limits=limits),
            HiddenNames(pods, limits=limits),
            PodStorage(pods, volume=volume, out=out, limits=limits),
            PodStress(pods, limits=limits),
            PodClocks(pods, limits=limits),
        )

    @property
    def parts(self) -> tuple[PodLinks, HiddenNames, PodStorage, PodStress, PodClocks]:
        """Each is told when a fresh pod has come up, and is closed in the end."""
        return self.links, self.hidden, self.storage, self.stress, self.clocks

    def came_up(self, node: str) -> None:
        """A fresh pod takes the place of a node. Raises ChaoskitError."""
        for part in self.parts:
            part.came_up(node)

    def claims(self) -> list[dict[str, Any]]:
        """What Chaos Mesh says now of each fault that is there. Raises ClusterError."""
        return [claim for part in self.parts for claim in part.faults.claims()]


class PodMeshFaults:
    """Fulfils `CanPartition`, `CanDegrade`, `CanHideNames`, `CanFailStorage` and `CanShowClaims` for an environment
    with this `mesh`. If Chaos Mesh does not inject a fault, and nothing of it is left, there was no target:
    LookupError."""

    @property
    def mesh(self) -> PodMesh:
        """What Chaos Mesh does to the pods of the run."""
        raise NotImplementedError

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        raise NotImplementedError

    def cut(self, ways: Sequence[Way], *, percent: float = 100.0) -> int:
        """See `CanPartition`."""
        with without_target():
            return self.mesh.links.cut(ways, percent=percent)

    def mend(self, cut: int) -> None:
        """See `CanPartition`."""
        self.mesh.links.mend(cut)

    def lost(self, cut: int) -> Mapping[str, int]:
        """See `CanPartition`."""
        return self.mesh.links.lost(cut)

    def reaches(self, source: str, target: str) -> bool:
        """See `CanPartition`."""
        return self.mesh.links.reaches(source, target)

    def degrade(
        self,
        nodes: Sequence[str],
        *,
        delay: float = 0.0,
        jitter: float = 0.0,
        rate: float | None = None,
        corrupt: float = 0.0,
    ) -> int:
        """See `CanDegrade`."""
        with without_target():
            return self.mesh.links.degrade(nodes, delay=delay, jitter=jitter, rate=rate, corrupt=corrupt)

    def restore(self, degraded: int) -> None:
        """See `CanDegrade`."""
        self.mesh.links.restore(degraded)

    def degraded(self, degraded: int) -> Mapping[str, float]:
        """See `CanDegrade`."""
        return self.mesh.links.degraded(degraded)

    def hide_names(self, nodes: Sequence[str]) -> None:
        """See `CanHideNames`."""
        with without_target():
            self.mesh.hidden.hide(nodes)

    def show_names(self, nodes: Sequence[str]) -> None:
        """See `CanHideNames`."""
        self.mesh.hidden.show(nodes)

    def resolves(self, node: str, name: str) -> bool:
        """See `CanHideNames`."""
        return self.mesh.hidden.resolves(node, name)

    def fail_storage(self, trouble: InjectedIOError) -> int:
        """See `CanFailStorage`."""
        with without_target():
            return self.mesh.storage.fail(trouble)

    def mend_storage(self, trouble: int) -> None:
        """See `CanFailStorage`."""
        self.mesh.storage.mend(trouble)

    def storage_met(self, trouble: int) -> Mapping[str, Any]:
        """See `CanFailStorage`."""
        return self.mesh.storage.met(trouble)

    def claims(self) -> Sequence[Mapping[str, Any]]:
        """See `CanShowClaims`."""
        return self.mesh.claims()
