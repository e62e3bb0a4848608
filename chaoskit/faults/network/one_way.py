"""`one_way`: packets from one node to another are lost, and those in the other direction arrive."""

from __future__ import annotations

from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault
from chaoskit.faults.network.cuts import Cut
from chaoskit.faults.network.ways import OneDirection
from chaoskit.faults.node.nodes import show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number, check_whole


@fault("one_way", Cut)
def one_way(*, source: int = 0, target: int = 1, seconds: float) -> Fault:
    """Stop every packet from `source` to `target` for `seconds`; the other direction stays open.

    Observed once packets of the job were stopped in that direction, nothing gets through there, and something does
    the other way. Raises UsageError for a node that is not a whole number, for one node as both, and for a time
    that is not positive.
    """
    check_whole("one_way", "source", source)
    check_whole("one_way", "target", target)
    if source == target:
        raise UsageError(f"one_way: source and target must be two nodes, and both are {source}")
    lasts = check_number("one_way", "seconds", seconds, over=0)
    text = f"lose what {show_nodes(source)} sends to {show_nodes(target)} for {lasts:g} s"
    given = {"source": source, "target": target}
    return Fault(Cut(name="one_way", given=given, ways=OneDirection(source, target), heal_after=lasts, text=text))
