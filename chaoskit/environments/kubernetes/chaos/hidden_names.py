"""`HiddenNames`: names of nodes that are unknown on some of them, by the name server of Chaos Mesh."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.environments.kubernetes.chaos import pod_specs
from chaoskit.environments.kubernetes.chaos.aim import Aim
from chaoskit.environments.kubernetes.chaos.chaos_pods import USUAL, ChaosFaults, ChaosLimits, ChaosPods


class HiddenNames:
    """Which nodes of one run know no other."""

    def __init__(self, pods: ChaosPods, *, limits: ChaosLimits = USUAL) -> None:
        self._pods = pods
        self._longest = limits.longest
        self.faults = ChaosFaults(pods, limits)
        self._hidden: dict[str, int] = {}

    def hide(self, nodes: Sequence[str]) -> None:
        """See `CanHideNames`. Raises ClusterError."""
        for node in nodes:
            if node in self._hidden:
                continue
            others = [name for other in self._pods.nodes() if other != node for name in self._pods.names(other)]
            # With and without the domain that the resolver of the pod adds.
            patterns = [pattern for name in dict.fromkeys(others) for pattern in (name, f"{name.rstrip('.')}.*")]
            aim = Aim(self._pods.selector(node))
            spec = pod_specs.wrong_names(
                aim=aim, patterns=patterns, containers=[self._pods.container], seconds=self._longest
            )
            self._hidden[node] = self.faults.begin("names", {node: spec})

    def show(self, nodes: Sequence[str]) -> None:
        """See `CanHideNames`. Raises ChaoskitError if Chaos Mesh does not take it back."""
        for node in nodes:
            if node in self._hidden:
                self.faults.end(self._hidden.pop(node))

    def resolves(self, node: str, name: str) -> bool:
        """See `CanHideNames`: asked in the pod, by each of the names that the node has."""
        known = self._pods.names(name) if name in self._pods.nodes() else (name,)
        return node in self._pods.nodes() and any(self._pods.ask(node, "resolves", name=one) for one in known)

    def came_up(self, node: str) -> None:
        """A fresh pod takes the place of a node: it knows the names of the others."""
        if node in self._hidden:
            self.faults.end(self._hidden.pop(node))

    def close(self) -> None:
        """Take everything back. Raises ChaoskitError if Chaos Mesh does not."""
        self._hidden.clear()
        self.faults.close()
