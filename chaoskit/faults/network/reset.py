"""`reset`: the connections of a node are reset (TCP RST), as by a firewall or load balancer that forgot them."""

from __future__ import annotations

from chaoskit.capabilities import CanPartition, CanReset
from chaoskit.faults.fault import Fault
from chaoskit.faults.network.cuts import Cut
from chaoskit.faults.network.ways import AroundNodes
from chaoskit.faults.node.nodes import show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number, check_whole


@fault("reset", Cut)
def reset(*, node: int = 1, seconds: float = 0.5) -> Fault:
    """Answer every packet of a connection between `node` and another with a reset, for `seconds`; new ones may
    begin.

    A connection is reset when something is sent over it: for a job that is silent for longer, give more `seconds`.
    Observed once a packet was answered so. Raises UsageError for a node that is not a whole number and for a time
    that is not positive.
    """
    check_whole("reset", "node", node)
    return Fault(
        Cut(
            name="reset",
            given={"node": node},
            ways=AroundNodes(node),
            heal_after=check_number("reset", "seconds", seconds, over=0),
            text=f"reset the connections of {show_nodes(node)}",
            resets=True,
            closes=False,
            needs=(CanPartition, CanReset),
        )
    )
