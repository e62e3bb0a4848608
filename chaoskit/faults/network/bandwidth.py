"""`bandwidth`: the link of a node has little capacity left, as when others fill it."""

from __future__ import annotations

from chaoskit.faults.fault import Fault
from chaoskit.faults.network.links import Degrade
from chaoskit.faults.node.nodes import NodeSpec, show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number, check_numbered


@fault("bandwidth", Degrade)
def bandwidth(*, node: NodeSpec, kbit: float, seconds: float) -> Fault:
    """Limit what `node` sends and receives to `kbit` kilobits a second, for `seconds`.

    `node`: a number, negative from the last; a tuple; 'all'. Observed once packets of the job had to wait. Raises
    UsageError for a node of another form, and for a rate or a time that is not positive.
    """
    check_numbered("bandwidth", "node", node, distinct=True)
    limit = check_number("bandwidth", "kbit", kbit, over=0)
    lasts = check_number("bandwidth", "seconds", seconds, over=0)
    text = f"limit {show_nodes(node)} to {limit:g} kbit/s"
    return Fault(Degrade("bandwidth", node, lasts, {"kbit": limit}, {"rate": limit * 1000 / 8}, "held", text))
