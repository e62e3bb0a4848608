"""`Nodes`: the nodes of a job and how they meet; `NodeLossPolicy`: what its scheduler does when one is lost;
`ClusterPlace`: where in a Kubernetes cluster they are made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from chaoskit.errors import UsageError
from chaoskit.validation import check_choice, check_number, check_text, check_whole, shown

POLICIES = ("returns", "spare", "gone")
RESTARTS = ("auto", "job", "node")
CHANNELS = ("tcp", "volume")
#: Seconds that a pod has to end by itself where nobody says otherwise, as in Kubernetes.
GRACE = 30
#: The fields of a `ClusterPlace` that are texts.
_TEXTS = (
    "namespace", "claim", "path", "context", "kubeconfig", "i_mean", "address", "pull_secret", "service_account",
)  # fmt: skip
_NODES = re.compile(r"\s*([0-9]{1,6})\s*(?::\s*([0-9]{1,6})\s*)?")


@dataclass(frozen=True, kw_only=True)
class NodeLossPolicy:
    """What the scheduler does when a node is lost.

    `lost` is `returns` (after `after` seconds the node is back, rebooted and with an empty scratch directory), `spare`
    (after `after` seconds a spare host with another name takes its place) or `gone` (the node never comes back, and the
    job continues with the others, if its range of nodes allows that).

    `restarts` is `job` (the agents of the other nodes are told to end, and the whole job is started again), `node`
    (only the lost node is started again, and its agent joins the others) or `auto` (`job` for a fixed number of nodes,
    `node` for a range).

    A node whose agent fails by itself is not lost. Then the others are told to end at once, and all are launched again,
    as by a scheduler that starts a job as a whole or not at all.
    """

    lost: Literal["returns", "spare", "gone"] = "returns"
    after: float = 0.0
    restarts: Literal["auto", "job", "node"] = "auto"

    def __post_init__(self) -> None:
        check_choice("NodeLossPolicy", "lost", self.lost, POLICIES)
        check_choice("NodeLossPolicy", "restarts", self.restarts, RESTARTS)
        check_number("NodeLossPolicy", "after", self.after, least=0)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NodeLossPolicy:
        """The inverse of `to_json`."""
        return cls(**data)


@dataclass(frozen=True, kw_only=True)
class ClusterPlace:
    """Where in a Kubernetes cluster the nodes of a job are made, as pods.

    `context` is that of the kubeconfig; "" is the cluster in whose pod chaoskit runs. `namespace` is the only one that
    chaoskit touches. `claim` is a PersistentVolumeClaim there that several nodes can write to, and `path` is where
    chaoskit itself has that volume: the pods have the runs at the same path. `channel` is how the pods reach chaoskit:
    by `tcp`, at the name or address `address` ("" lets it find out), or by files on the `volume`. `i_mean` repeats a
    context that looks like production.

    `resources`, `node_selector`, `tolerations` are those of each pod, as in a manifest, `pull_secret` is the secret for
    its image, and `service_account` its account. `grace` are the seconds that a node of the job has to end by itself
    after SIGTERM. `job_template` is the team's own manifest of the job, which runs in place of pods that chaoskit
    makes. Raises UsageError, naming the argument.
    """

    namespace: str
    claim: str
    path: str
    context: str = ""
    kubeconfig: str = ""
    i_mean: str = ""
    address: str = ""
    channel: Literal["tcp", "volume"] = "tcp"
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    pull_secret: str = ""
    service_account: str = ""
    job_template: Mapping[str, Any] = field(default_factory=dict)
    grace: int = GRACE

    def __post_init__(self) -> None:
        for name in _TEXTS:
            check_text("ClusterPlace", name, getattr(self, name))
        for name in ("namespace", "claim", "path"):
            if not getattr(self, name):
                raise UsageError(f"ClusterPlace: {name} must be a text that is not empty, not ''")
        for name in ("resources", "node_selector", "job_template", "tolerations"):
            kind, what = (list | tuple, "a list") if name == "tolerations" else (dict, "a dict")
            if not isinstance(value := getattr(self, name), kind):
                raise UsageError(f"ClusterPlace: {name} must be {what}, as in a manifest, not {shown(value)}")
        if not self.path.startswith("/"):
            raise UsageError(f"ClusterPlace: path must be absolute, not {self.path!r}")
        check_choice("ClusterPlace", "channel", self.channel, CHANNELS)
        check_whole("ClusterPlace", "grace", self.grace, least=1)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClusterPlace:
        """The inverse of `to_json`."""
        return cls(**data)


def read_volume(text: str) -> tuple[str, str]:
    """The claim and the path of `CLAIM:PATH`. Raises UsageError."""
    claim, _, path = text.partition(":")
    if not claim or not path.startswith("/"):
        raise UsageError(
            f"--volume {text!r} is not CLAIM:PATH: write the name of a PersistentVolumeClaim, a colon, and the "
            "absolute path at which this machine has that volume"
        )
    return claim, path


@dataclass(frozen=True)
class Nodes:
    """`least` nodes are needed, `most` are used where they are to be had. `rdzv_conf` is torchrun's `--rdzv-conf`."""

    least: int = 1
    most: int = 1
    rdzv_conf: str = ""
    node_loss: NodeLossPolicy = field(default_factory=NodeLossPolicy)

    @property
    def elastic(self) -> bool:
        """Whether the job may go on with fewer."""
        return self.least != self.most

    @property
    def restarts_job(self) -> bool:
        """Whether the loss of a node has all of them started again."""
        restarts = self.node_loss.restarts
        return restarts == "job" or (restarts == "auto" and not self.elastic)

    def __str__(self) -> str:
        return f"{self.least}:{self.most}" if self.elastic else str(self.most)


def count_nodes(text: int | str) -> tuple[int, int]:
    """The least and the most of a number of nodes, `2`, or of a range as torchrun writes it, `1:2`; raises UsageError
    for anything else."""
    whole = isinstance(text, int) and not isinstance(text, bool) and 0 < text < 10**6
    found = _NODES.fullmatch(str(text)) if whole or isinstance(text, str) else None
    least = int(found[1]) if found is not None else 0
    most = int(found[2] or least) if found is not None else 0
    if not 1 <= least <= most:
        raise UsageError(f"nnodes: give a number of nodes from 1, or a range of them such as '1:2', not {shown(text)}")
    return least, most
