"""`replace_node`: a node is lost, and a fresh host takes its place at once, as in a cloud with a spare."""

from __future__ import annotations

from chaoskit.faults.fault import Fault
from chaoskit.faults.node.kill_node import KillNode
from chaoskit.faults.registry import fault
from chaoskit.validation import check_whole


@fault("replace_node", KillNode)
def replace_node(*, node: int) -> Fault:
    """Lose `node` (a number, negative from the last) as `kill_node` does; a fresh one takes its place at once.

    The job's `NodeLossPolicy` does not apply. Observed once the old node is lost. Raises UsageError if `node` is
    not a whole number.
    """
    check_whole("replace_node", "node", node)
    return Fault(KillNode(node, replaced=True))
