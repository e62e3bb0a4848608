"""`PodClocks`: wall clocks of pods that are wrong, by Chaos Mesh.

Chaos Mesh sets the clocks of the first process of a container and of all that descend from it, once. A program that is
started later has the right time.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.environments.kubernetes.chaos import pod_specs
from chaoskit.environments.kubernetes.chaos.aim import Aim
from chaoskit.environments.kubernetes.chaos.chaos_pods import USUAL, ChaosFaults, ChaosLimits, ChaosPods


class PodClocks:
    """Which nodes of one run have a wrong clock, numbered."""

    def __init__(self, pods: ChaosPods, *, limits: ChaosLimits = USUAL) -> None:
        self._pods, self._longest = pods, limits.longest
        self.faults = ChaosFaults(pods, limits)
        self._skewed: dict[int, tuple[str, ...]] = {}

    def skew(self, nodes: Sequence[str], *, by: float) -> int:
        """Let the clocks of these nodes be off by so many seconds; returns a number. Raises LookupError for one that is
        off already, which Chaos Mesh would set anew; ClusterError."""
        for node in nodes:
            if any(node in others for others in self._skewed.values()):
                raise LookupError(f"the clock of {node} is off already: set that right first")
        specs = {
            node: pod_specs.clock_offset(
                aim=Aim(self._pods.selector(node)), offset=by, containers=[self._pods.container], seconds=self._longest
            )
            for node in nodes
        }
        number = self.faults.begin("clock", specs)
        self._skewed[number] = tuple(nodes)
        return number

    def set_right(self, number: int) -> None:
        """End it. An unknown number is no error. Raises ChaoskitError if Chaos Mesh does not take it back."""
        self._skewed.pop(number, None)
        self.faults.end(number)

    def came_up(self, node: str) -> None:
        """A fresh pod takes the place of a node: its clock is right, and the fault of the pod that is gone stays until
        it is ended."""

    def close(self) -> None:
        """Take everything back. Raises ChaoskitError if Chaos Mesh does not."""
        self._skewed.clear()
        self.faults.close()
