"""`replace_node`: a node is lost, and a fresh host takes its place at once, as in a cloud that has a spare."""

from __future__ import annotations

from chaoskit.faults.fault import Fault
from chaoskit.faults.kill_node import KillNode
from chaoskit.faults.nodes import check_node


def replace_node(*, node: int) -> Fault:
    """Lose `node` (a number, negative from the last) as `kill_node` does; a fresh one joins at once in its place,
    whatever the supervisor would do.

    Observed once the old one is lost. Raises UsageError for what is no node.
    """
    check_node("replace_node", node)
    return Fault(KillNode(node, replaced=True))
