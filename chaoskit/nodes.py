"""`Nodes`: on how many nodes a job runs, how they meet, and what its scheduler does when one is lost."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaoskit.errors import UsageError
from chaoskit.supervisor import Supervisor


@dataclass(frozen=True)
class Nodes:
    """`least` nodes are needed, `most` are used where they are to be had. `rdzv_conf` is torchrun's `--rdzv-conf`."""

    least: int = 1
    most: int = 1
    rdzv_conf: str = ""
    supervisor: Supervisor = field(default_factory=Supervisor)

    @property
    def elastic(self) -> bool:
        """Whether the job may go on with fewer."""
        return self.least != self.most

    @property
    def restarts_job(self) -> bool:
        """Whether the loss of a node has all of them started again."""
        restarts = self.supervisor.restarts
        return restarts == "job" or (restarts == "auto" and not self.elastic)

    def __str__(self) -> str:
        return f"{self.least}:{self.most}" if self.elastic else str(self.most)


def count_nodes(text: int | str) -> tuple[int, int]:
    """The least and the most of a number of nodes, `2`, or of a range as torchrun writes it, `1:2`; raises UsageError
    for anything else."""
    low, colon, high = str(text).partition(":")
    try:
        least = int(low)
        most = int(high) if colon else least
    except ValueError:
        least = most = 0
    if isinstance(text, bool) or not 1 <= least <= most:
        raise UsageError(f"nnodes: give a number of nodes from 1, or a range of them such as '1:2', not {text!r}")
    return least, most
