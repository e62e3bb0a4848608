"""`PodClockFaults`: the wall clocks of pods jump, by Chaos Mesh; the ranks record that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaoskit.environments.kubernetes.chaos.pod_faults import PodMeshFaults
from chaoskit.environments.kubernetes.chaos.refusals import without_target
from chaoskit.environments.kubernetes.pod_faults import PodFaults
from chaoskit.environments.records.wall_clocks import WallClocks


class PodClockFaults(PodFaults, PodMeshFaults):
    """Fulfils `CanSkewClock` for an environment whose nodes are pods."""

    def __init__(self) -> None:
        self._wall_clocks = WallClocks(self.job.run.run_dir)
        #: By the number of a skew, that of its faults.
        self._skews: dict[int, int] = {}

    def skew_clock(self, node: int | None, *, by: float) -> int:
        """See `CanSkewClock`."""
        roster = self.job.roster
        meant = tuple(roster.up) if node is None and roster.up else (roster.at(node or 0),)
        number = self._wall_clocks.begin(meant)
        with without_target():
            self._skews[number] = self.mesh.clocks.skew(meant, by=by)
        return number

    def keep_clock(self, skew: int) -> None:
        """See `CanSkewClock`: Chaos Mesh chooses processes once."""

    def clock_skewed(self, skew: int) -> Mapping[str, Any]:
        """See `CanSkewClock`."""
        return self._wall_clocks.moved(skew)

    def set_clock_right(self, skew: int) -> None:
        """See `CanSkewClock`."""
        if skew in self._skews:
            self.mesh.clocks.set_right(self._skews.pop(skew))
