"""`packet_loss`: a share of a node's packets never arrives, as on a bad link or a full switch."""

from __future__ import annotations

from chaoskit.faults.fault import Fault
from chaoskit.faults.network.cuts import Cut
from chaoskit.faults.network.ways import AroundNodes
from chaoskit.faults.node.nodes import NodeSpec, as_json, show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number, check_numbered


@fault("packet_loss", Cut)
def packet_loss(*, node: NodeSpec, percent: float, seconds: float) -> Fault:
    """Lose `percent` of the packets to and from `node` for `seconds`.

    `node`: a number, negative from the last; a tuple; 'all'. Observed once packets of the job were lost. Raises
    UsageError for a node of another form, for a share that is not over 0 and up to 100, and for a time that is not
    positive.
    """
    check_numbered("packet_loss", "node", node, distinct=True)
    share = check_number("packet_loss", "percent", percent, over=0, most=100)
    lasts = check_number("packet_loss", "seconds", seconds, over=0)
    return Fault(
        Cut(
            name="packet_loss",
            given={"node": as_json(node), "percent": share},
            ways=AroundNodes(node),
            heal_after=lasts,
            text=f"lose {share:g}% of the packets of {show_nodes(node)} for {lasts:g} s",
            percent=share,
            closes=False,
        )
    )
