"""`NetworkFaults`: what can be done to the network between virtual hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from chaoskit.capabilities import Way
from chaoskit.environments.netns.virtual_nodes import VirtualNodes


class NetworkFaults:
    """Fulfils `CanPartition`, `CanDegrade` and `CanHideNames` for an environment with these `hosts`."""

    @property
    def hosts(self) -> VirtualNodes:
        """The virtual hosts of the run."""
        raise NotImplementedError

    def nodes(self) -> tuple[str, ...]:
        """See `CanPartition`."""
        raise NotImplementedError

    def cut(self, ways: Sequence[Way], *, how: Literal["drop", "reset"] = "drop", percent: float = 100.0) -> int:
        """See `CanPartition`."""
        made: int = self.hosts.client.ask("cut", ways=list(ways), how=how, percent=percent)
        return made

    def reset(self, ways: Sequence[Way]) -> int:
        """See `CanReset`."""
        return self.cut(ways, how="reset")

    def mend(self, cut: int) -> None:
        """See `CanPartition`."""
        self.hosts.client.ask("mend", cut=cut)

    def lost(self, cut: int) -> Mapping[str, int]:
        """See `CanPartition`."""
        counted: Mapping[str, int] = self.hosts.client.ask("lost", cut=cut)
        return counted

    def reaches(self, source: str, target: str) -> bool:
        """See `CanPartition`."""
        return bool(self.hosts.client.ask("reaches", source=source, target=target))

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
        quality = {"delay": delay, "jitter": jitter, "rate": rate, "corrupt": corrupt}
        made: int = self.hosts.client.ask("degrade", nodes=list(nodes), **quality)
        return made

    def restore(self, degraded: int) -> None:
        """See `CanDegrade`."""
        self.hosts.client.ask("restore", degraded=degraded)

    def degraded(self, degraded: int) -> Mapping[str, float]:
        """See `CanDegrade`."""
        counts: Mapping[str, float] = self.hosts.client.ask("degraded", degraded=degraded)
        return counts

    def hide_names(self, nodes: Sequence[str]) -> None:
        """See `CanHideNames`."""
        self.hosts.hide(nodes, hidden=True)

    def show_names(self, nodes: Sequence[str]) -> None:
        """See `CanHideNames`."""
        self.hosts.hide(nodes, hidden=False)

    def resolves(self, node: str, name: str) -> bool:
        """See `CanHideNames`."""
        return bool(self.hosts.client.ask("resolves", node=node, name=name))
