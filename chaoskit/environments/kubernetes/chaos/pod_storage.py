"""`PodStorage`: requests to `{out}` that fail in the pods of nodes, made by Chaos Mesh and proved by the job."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.capabilities import InjectedIOError
from chaoskit.environments.kubernetes.chaos import io_specs
from chaoskit.environments.kubernetes.chaos.aim import Aim
from chaoskit.environments.kubernetes.chaos.chaos_pods import USUAL, ChaosFaults, ChaosLimits, ChaosPods
from chaoskit.environments.kubernetes.chaos.chaos_spec import ChaosSpec
from chaoskit.environments.kubernetes.chaos.felt_storage import FeltStorage
from chaoskit.errors import ChaoskitError

#: By kind of request, the calls of Chaos Mesh that are the same.
METHODS = {
    "create": ("create", "mknod"), "mkdir": ("mkdir",), "symlink": ("symlink",), "link": ("link",),
    "write": ("write",), "truncate": ("setattr",), "fsync": ("fsync",), "fsyncdir": ("fsyncdir",),
    "rename": ("rename",), "unlink": ("unlink",), "rmdir": ("rmdir",), "chmod": ("setattr",), "open": ("open",),
    "lookup": ("lookup", "getattr"), "read": ("read",), "list": ("opendir", "readdir"), "space": ("statfs",),
}  # fmt: skip


@dataclass
class _Trouble:
    asked: InjectedIOError
    felt: FeltStorage
    #: The nodes in whose pods a request has failed with the error.
    failing: set[str]


class PodStorage:
    """The errors of the storage of one run, numbered. `volume` is where pods have the volume with `{out}`."""

    def __init__(self, pods: ChaosPods, *, volume: Path, out: Path, limits: ChaosLimits = USUAL) -> None:
        self._pods, self._volume, self._out = pods, volume, out
        self._longest = limits.longest
        self.faults = ChaosFaults(pods, limits)
        self._troubles: dict[int, _Trouble] = {}

    def fail(self, trouble: InjectedIOError) -> int:
        """See `CanFailStorage`: an IOChaos in the pod of each node. Raises LookupError for an error that picks some
        requests of a kind, ClusterError."""
        if trouble.error is None or trouble.picks_requests:
            raise LookupError("Chaos Mesh lets all requests of some kinds fail: it cannot count or delay some of them")
        specs = {node: self._spec(node, trouble) for node in trouble.nodes or self._pods.nodes()}
        felt = FeltStorage(self._volume, trouble.error)
        number = self.faults.begin("io", specs)
        self._troubles[number] = _Trouble(trouble, felt, set())
        return number

    def came_up(self, node: str) -> None:
        """A fresh pod takes the place of a node: what fails there goes on to fail. Raises ChaoskitError."""
        for number, known in self._troubles.items():
            if self.faults.of(number) and (not known.asked.nodes or node in known.asked.nodes):
                self.faults.renew(number, "io", {node: self._spec(node, known.asked)})

    def mend(self, trouble: int) -> None:
        """See `CanFailStorage`. Raises ChaoskitError if Chaos Mesh does not take it back."""
        if trouble in self._troubles:
            self.met(trouble)
        self.faults.end(trouble)

    def met(self, trouble: int) -> Mapping[str, Any]:
        """See `CanFailStorage`: `count` is how often the job has told of the error, and 0 while no request of our own
        fails with it in a pod; `said` has its words, `failing` the nodes on which ours has failed."""
        known = self._troubles[trouble]
        count = known.felt.look()
        if count and not known.failing and self.faults.of(trouble):
            known.failing |= {node for node in self.faults.of(trouble) if self._error_on(node) == known.asked.error}
        told = {"operations": {}, "files": [], "said": known.felt.lines, "failing": sorted(known.failing)}
        return {"count": count if known.failing else 0, **told}

    def close(self) -> None:
        """Take everything back. Raises ChaoskitError if Chaos Mesh does not."""
        self.faults.close()

    def _spec(self, node: str, trouble: InjectedIOError) -> ChaosSpec:
        assert trouble.error is not None
        wanted = trouble.operations or tuple(METHODS)
        return io_specs.io_fault(
            aim=Aim(self._pods.selector(node)), volume=str(self._volume), error=trouble.error, seconds=self._longest,
            path=f"{self._out}/**/*", methods=tuple(dict.fromkeys(each for kind in wanted for each in METHODS[kind])),
            containers=[self._pods.container],
        )  # fmt: skip

    def _error_on(self, node: str) -> str:
        """The error of a request to `{out}` in the pod of a node; "" if it has none, or nobody can be asked."""
        try:
            number = self._pods.ask(node, "error_of_write", directory=str(self._out))
        except ChaoskitError:
            return ""
        return errno.errorcode.get(number, "")
