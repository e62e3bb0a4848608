"""`JobFaults`: what can be done to a job whose pods a controller makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaoskit.environments.kubernetes.controlled_pods import ControlledPods
from chaoskit.environments.kubernetes.pod_faults import PodFaults

#: Why a job cannot be suspended.
NO_CONTROLLER = "only the pods of a controller can be suspended: run a job with --job-template"


class JobFaults(PodFaults):
    """Fulfils `CanSuspend` where a controller makes the pods, as Kueue does it: `suspend` has the controller
    delete all pods, with their grace, and make others later."""

    @property
    def _controlled(self) -> ControlledPods:
        if not isinstance(self.pods, ControlledPods):
            raise LookupError(NO_CONTROLLER)
        return self.pods

    def suspend(self, partition: str = "", qos: str = "") -> Mapping[str, Any]:
        """See `CanSuspend`."""
        if partition or qos:
            what = f"partition {partition!r}" if partition else f"QOS {qos!r}"
            raise LookupError(f"a cluster of Kubernetes has no {what}: suspend the job without one")
        if self.job.running is None:
            raise LookupError("nothing of the job runs")
        return self._controlled.suspend()

    def is_suspended(self) -> bool:
        """See `CanSuspend`."""
        return self._controlled.is_suspended()

    def resume(self) -> None:
        """See `CanSuspend`."""
        self._controlled.resume()
