"""`corrupt`: a share of the packets of a node has a flipped bit, as from a bad cable or network card."""

from __future__ import annotations

from chaoskit.faults.fault import Fault, check_number
from chaoskit.faults.links import Degrade
from chaoskit.faults.nodes import NodeSpec, check_node_spec, show_nodes


def corrupt(*, node: NodeSpec, percent: float, seconds: float) -> Fault:
    """Flip a bit in `percent` of the packets of `node` (a number, negative from the last; a tuple; 'all') on their way,
    for `seconds`.

    Observed once packets of the job were struck. Raises UsageError for what is no node, for a share that is not over 0
    and up to 100, and for a time that is not positive.
    """
    check_node_spec("corrupt", node)
    share = check_number("corrupt", "percent", percent, most=100)
    lasts = check_number("corrupt", "seconds", seconds)
    text = f"corrupt {share:g}% of the packets of {show_nodes(node)}"
    return Fault(Degrade("corrupt", node, lasts, {"percent": share}, {"corrupt": share}, "corrupted", text))
