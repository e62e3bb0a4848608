"""`packet_corruption`: a share of a node's packets has a flipped bit, as from a bad cable or network card."""

from __future__ import annotations

from chaoskit.faults.fault import Fault
from chaoskit.faults.network.links import Degrade
from chaoskit.faults.node.nodes import NodeSpec, show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number, check_numbered


@fault("packet_corruption", Degrade)
def packet_corruption(*, node: NodeSpec, percent: float, seconds: float) -> Fault:
    """Flip a bit in `percent` of the packets to and from `node` for `seconds`.

    `node`: a number, negative from the last; a tuple; 'all'. Observed once packets of the job were corrupted.
    Raises UsageError for a node of another form, for a share that is not over 0 and up to 100, and for a time that
    is not positive.
    """
    check_numbered("packet_corruption", "node", node, distinct=True)
    share = check_number("packet_corruption", "percent", percent, over=0, most=100)
    lasts = check_number("packet_corruption", "seconds", seconds, over=0)
    text = f"corrupt {share:g}% of the packets of {show_nodes(node)}"
    return Fault(
        Degrade("packet_corruption", node, lasts, {"percent": share}, {"corrupt": share}, "corrupted", text)
    )
