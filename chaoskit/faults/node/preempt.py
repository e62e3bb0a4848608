"""`preempt`: a node is told that it will be taken away, and then it is."""

from __future__ import annotations

import math
import signal as signals
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from chaoskit.capabilities import (
    METADATA_CLOUDS,
    CanOwnAddress,
    CanPreempt,
    CanServeMetadata,
    CanTouchFiles,
    PreemptionNotice,
)
from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault, show_ranks
from chaoskit.faults.node.nodes import NodeSpec, as_json, numbers, resolve_nodes, show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_choice, check_flag, check_number, check_numbered, check_text, check_whole

#: Who gives the notice. The first three have a metadata service.
CLOUDS = (*METADATA_CLOUDS, "kubernetes", "slurm", "signal", "file")
OUT = "{out}"
#: Google shuts a VM down so many seconds before its end (https://cloud.google.com/compute/docs/instances/spot).
SHUTDOWN = 30.0


def check_clouds(text: str) -> tuple[str, ...]:
    """The names in a list that is separated by commas. Raises UsageError for one that gives no notice."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in CLOUDS:
            raise UsageError(f"{name!r} gives no notice of preemption: choose from {', '.join(CLOUDS)}")
    return names


@dataclass(frozen=True)
class Preempt:
    """See `preempt`."""

    node: NodeSpec | None
    rank: int | None
    cloud: str
    notice: float
    scale: float
    then: str
    signal: int | None
    file: str
    times: int
    withdrawn: float | None
    imdsv1: bool
    needs: tuple[type, ...] = (CanPreempt,)
    name = "preempt"
    heal_after = None
    heal_launches = None
    # The job goes on while it saves, and ends.
    holds = False
    tells_to_stop = True
    observe_within = math.inf

    @property
    def metadata(self) -> str:
        return self.cloud if self.cloud in METADATA_CLOUDS else ""

    @property
    def nodes_meant(self) -> tuple[int, ...]:
        return () if self.node is None else numbers(self.node)

    @property
    def grace(self) -> float:
        """Seconds of the clock from the notice to the end of the node."""
        return self.notice * self.scale

    def victims(self, world_size: int) -> Sequence[int]:
        return range(world_size) if self.rank is None else (self.rank % world_size,)

    def apply(self, env: CanPreempt, world_size: int) -> Mapping[str, Any]:
        if self.rank is not None:
            chosen: tuple[str, ...] = (env.node_of(self.rank % world_size),)
        else:
            assert self.node is not None
            chosen = resolve_nodes(self.name, self.node, env.preemptible())
        begun = time.monotonic()
        for node in chosen:
            env.preempt(node, self._notice(env, world_size))
        told = {"cloud": self.cloud, "then": self.then, "grace": self.grace, "scale": self.scale}
        return {**told, "nodes": list(chosen), "since": begun}

    def observed(self, env: CanPreempt, applied: Mapping[str, Any]) -> Mapping[str, Any] | None:
        found = {node: env.preempted(node) for node in applied["nodes"]}
        over = {node: told for node, told in found.items() if told is not None}
        if len(over) < len(found):
            return None
        if self.then == "nothing" and self.cloud != "file" and not any(told["received"] for told in over.values()):
            asked = sum(told["asked"] for told in over.values())
            refused = sum(told["refused"] for told in over.values())
            raise LookupError(f"nobody received the notice ({asked} requests, {refused} of them refused)")
        return {**applied, "nodes": over}

    def heal(self, env: CanPreempt, applied: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def to_json(self) -> dict[str, Any]:
        given = asdict(self)
        given["node"] = as_json(self.node) if self.node is not None else None
        # The needs, and the signal of the others, follow from the cloud.
        left_out = ("needs",) if self.cloud == "signal" else ("needs", "signal")
        plain = {name: value for name, value in given.items() if name not in left_out}
        return {"kind": self.name, **{name: value for name, value in plain.items() if value not in (None, "")}}

    def __str__(self) -> str:
        where = show_ranks(self.rank) if self.rank is not None else show_nodes(self.node or 0)
        after = "nothing follows" if self.then == "nothing" else f"{self.grace:g} s"
        return f"preempt {where} ({self.cloud}, {after})"

    def _notice(self, env: CanPreempt, world_size: int) -> PreemptionNotice:
        file = self.file
        if OUT in file:
            file = file.replace(OUT, str(cast(CanTouchFiles, env).out()))
        return PreemptionNotice(
            seconds=self.grace,
            cloud=self.metadata,
            signal=self.signal,
            to_agent=self.cloud == "kubernetes",
            to_children=self.cloud == "slurm",
            rank=None if self.rank is None else self.rank % world_size,
            file=file,
            times=self.times,
            kills=self.then == "kill",
            withdrawn=None if self.withdrawn is None else self.withdrawn * self.scale,
            shutdown=SHUTDOWN * self.scale if self.cloud == "gcp" and self.then == "kill" else None,
        )


@fault("preempt", Preempt)
def preempt(
    *,
    cloud: str,
    node: NodeSpec | None = None,
    rank: int | None = None,
    notice: float = 120,
    scale: float = 1.0,
    then: str = "kill",
    signal: int | None = None,
    file: str = "",
    times: int = 1,
    withdrawn: float | None = None,
    imdsv1: bool = False,
) -> Fault:
    """Tell `node` (a number, several, or "all"), or the node of `rank`, that it will be taken away, as `cloud` does.

    `aws`, `gcp` and `azure` tell it at their metadata service. Google also sends SIGTERM to the job's command, 30 s
    before the end. `kubernetes` sends SIGTERM to the job's command on the node, `slurm` USR1 to its ranks and all that
    they have started (`--signal=USR1`, `PreemptParameters=send_user_signal`; on a real cluster of Slurm, Slurm itself
    sends it to the whole job, as its `--signal` says), and `signal` any `signal` (default:
    SIGTERM) to its ranks, or with `rank` to that one alone; `file` makes a `file` (default:
    `{out}/emergency_checkpoint`).

    After `notice` seconds everything on the node is killed, and a fresh node takes its place; if the launch ends
    earlier, at that moment. With `then="nothing"`, nothing happens: the notice was false. It comes `times` times,
    evenly spread, and a false one may be `withdrawn` after so many seconds. All of these times are multiplied by
    `scale`. With `imdsv1`, AWS's service also answers requests without a token.

    Observed when the notice is over. The evidence says who received it and when, how often the job asked and was
    refused, and when the job there had ended by itself or was killed. A false notice that nobody received was missed.
    Raises UsageError for arguments that do not fit together.
    """
    check_choice("preempt", "cloud", cloud, CLOUDS)
    if (node is None) == (rank is None):
        raise UsageError("preempt: give node or rank (one of the two)")
    if rank is not None:
        check_whole("preempt", "rank", rank)
    else:
        check_numbered("preempt", "node", node)
    check_choice("preempt", "then", then, ("kill", "nothing"))
    check_number("preempt", "notice", notice, over=0)
    check_text("preempt", "file", file)
    check_flag("preempt", "imdsv1", imdsv1)
    if file and cloud != "file":
        raise UsageError("preempt: file is for cloud='file'")
    if signal is not None and cloud != "signal":
        raise UsageError("preempt: signal is for cloud='signal'")
    if imdsv1 and cloud != "aws":
        raise UsageError("preempt: imdsv1 is for cloud='aws'")
    if withdrawn is not None:
        if then != "nothing":
            raise UsageError("preempt: a notice that is withdrawn is a false one: add then='nothing'")
        if cloud not in (*METADATA_CLOUDS, "file"):
            raise UsageError(f"preempt: a signal cannot be withdrawn, and {cloud!r} sends one")
        if check_number("preempt", "withdrawn", withdrawn, over=0) >= notice:
            raise UsageError("preempt: withdrawn must be less than notice")
    if signal is not None:
        check_whole("preempt", "signal", signal, least=1)
    file = file or (f"{OUT}/emergency_checkpoint" if cloud == "file" else "")
    needs: tuple[type, ...] = (CanServeMetadata,) if cloud in METADATA_CLOUDS else ()
    needs += (CanOwnAddress,) if cloud == "azure" else (CanTouchFiles,) if OUT in file else ()
    sent = {"kubernetes": signals.SIGTERM, "slurm": signals.SIGUSR1, "signal": signal or signals.SIGTERM}.get(cloud)
    return Fault(
        Preempt(
            node,
            rank,
            cloud,
            check_number("preempt", "notice", notice, over=0),
            check_number("preempt", "scale", scale, over=0),
            then,
            None if sent is None else int(sent),
            file,
            check_whole("preempt", "times", times, least=1),
            withdrawn,
            imdsv1,
            (CanPreempt, *needs),
        )
    )
