"""`bandwidth`: the link of a node lets only so much through, as one that others fill."""

from __future__ import annotations

from chaoskit.faults.fault import Fault, check_number
from chaoskit.faults.links import Degrade
from chaoskit.faults.nodes import NodeSpec, check_node_spec, show_nodes


def bandwidth(*, node: NodeSpec, kbit: float, seconds: float) -> Fault:
    """Let `node` (a number, negative from the last; a tuple; 'all') send and be sent no more than `kbit` kilobits a
    second, for `seconds`.

    Observed once packets of the job had to wait. Raises UsageError for what is no node, and for a rate or a time that
    is not positive.
    """
    check_node_spec("bandwidth", node)
    limit = check_number("bandwidth", "kbit", kbit)
    lasts = check_number("bandwidth", "seconds", seconds)
    text = f"limit {show_nodes(node)} to {limit:g} kbit/s"
    return Fault(Degrade("bandwidth", node, lasts, {"kbit": limit}, {"rate": limit * 1000 / 8}, "held", text))
