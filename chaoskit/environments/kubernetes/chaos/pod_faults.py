"""`PodMeshFaults`: what an environment whose nodes are pods can do to them with Chaos Mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaoskit.capabilities import InjectedIOError, Way
from chaoskit.environments.kubernetes.chaos.hidden_names import HiddenNames
from chaoskit.environments.kubernetes.chaos.pod_links import PodLinks
from chaoskit.environments.kubernetes.chaos.pod_storage import PodStorage
from chaoskit.environments.kubernetes.chaos.pod_stress import PodStress
from chaoskit.environments.kubernetes.chaos.refusals import without_target


class PodMeshFaults:
    """Fulfils `CanPartition`, `CanDegrade`, `CanHideNames`, `CanFailStorage` and `CanShowClaims` for an environment
    with these `links`, `hidden` and `pod_storage`. If Chaos Mesh does not inject a fault, and nothing of it is left,
    there was no target: LookupError."""

    @property
    def links(self) -> PodLinks:
        """The cuts and the slow links of the run."""
        raise NotImplementedError

    @property
    def hidden(self) -> HiddenNames:
        """The names that are unknown."""
        raise NotImplementedError

    @property
    def pod_storage(self) -> PodStorage:
        """The errors of the storage."""
        raise NotImplementedError

    @property
    def stress(self) -> PodStress:
        """What uses up the memory and the processors of pods."""
        raise NotImplementedError

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        raise NotImplementedError

    def cut(self, ways: Sequence[Way], *, percent: float = 100.0) -> int:
        """See `CanPartition`."""
        with without_target():
            return self.links.cut(ways, percent=percent)

    def mend(self, cut: int) -> None:
        """See `CanPartition`."""
        self.links.mend(cut)

    def lost(self, cut: int) -> Mapping[str, int]:
        """See `CanPartition`."""
        return self.links.lost(cut)

    def reaches(self, source: str, target: str) -> bool:
        """See `CanPartition`."""
        return self.links.reaches(source, target)

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
            return self.links.degrade(nodes, delay=delay, jitter=jitter, rate=rate, corrupt=corrupt)

    def restore(self, degraded: int) -> None:
        """See `CanDegrade`."""
        self.links.restore(degraded)

    def degraded(self, degraded: int) -> Mapping[str, float]:
        """See `CanDegrade`."""
        return self.links.degraded(degraded)

    def hide_names(self, nodes: Sequence[str]) -> None:
        """See `CanHideNames`."""
        with without_target():
            self.hidden.hide(nodes)

    def show_names(self, nodes: Sequence[str]) -> None:
        """See `CanHideNames`."""
        self.hidden.show(nodes)

    def resolves(self, node: str, name: str) -> bool:
        """See `CanHideNames`."""
        return self.hidden.resolves(node, name)

    def fail_storage(self, trouble: InjectedIOError) -> int:
        """See `CanFailStorage`."""
        with without_target():
            return self.pod_storage.fail(trouble)

    def mend_storage(self, trouble: int) -> None:
        """See `CanFailStorage`."""
        self.pod_storage.mend(trouble)

    def storage_met(self, trouble: int) -> Mapping[str, Any]:
        """See `CanFailStorage`."""
        return self.pod_storage.met(trouble)

    def claims(self) -> Sequence[Mapping[str, Any]]:
        """See `CanShowClaims`."""
        every = (self.links, self.hidden, self.pod_storage, self.stress)
        return [claim for one in every for claim in one.faults.claims()]
