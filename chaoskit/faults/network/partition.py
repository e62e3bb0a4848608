"""`partition` and `isolate`: the network splits into parts that cannot reach each other, for a time."""

from __future__ import annotations

from collections.abc import Sequence

from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault
from chaoskit.faults.network.cuts import Cut
from chaoskit.faults.network.ways import AroundNodes, BetweenGroups
from chaoskit.faults.node.nodes import show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number, check_numbered, check_whole, shown


@fault("partition", Cut)
def partition(*, groups: Sequence[Sequence[int]] = ((0,), (1,)), seconds: float) -> Fault:
    """Stop every packet between nodes of different `groups` for `seconds`.

    A node that is in no group reaches all others. Observed once packets of the job were stopped and nothing gets
    through. Raises UsageError for fewer than two groups, for an empty group, for a node in two groups, and for a
    time that is not positive.
    """
    if not isinstance(groups, (tuple, list)) or not all(isinstance(group, (tuple, list)) for group in groups):
        raise UsageError(f"partition: groups must be a tuple of groups of nodes, ((0,), (1,)), not {shown(groups)}")
    parts = tuple(tuple(group) for group in groups)
    if len(parts) < 2 or not all(parts):
        raise UsageError(f"partition: groups must be two or more, each with a node in it, not {shown(groups)}")
    for group in parts:
        check_numbered("partition", "groups", group, distinct=True)
    named = [node for group in parts for node in group]
    twice = next((node for node in named if named.count(node) > 1), None)
    if twice is not None:
        raise UsageError(f"partition: groups must not overlap, and node {twice} is in two; name each node once")
    lasts = check_number("partition", "seconds", seconds, over=0)
    *others, last = [show_nodes(group) for group in parts]
    apart = f"{others[0]} from {last}" if len(others) == 1 else f"{', '.join(others)} and {last} from each other"
    text = f"partition {apart} for {lasts:g} s"
    given = {"groups": [list(group) for group in parts]}
    return Fault(Cut(name="partition", given=given, ways=BetweenGroups(parts), heal_after=lasts, text=text))


@fault("isolate", Cut)
def isolate(*, node: int = 1, seconds: float) -> Fault:
    """Stop every packet between `node` (a number, negative from the last) and all others for `seconds`.

    Observed as `partition` is. Raises UsageError for a node that is not a whole number and for a time that is not
    positive.
    """
    check_whole("isolate", "node", node)
    lasts = check_number("isolate", "seconds", seconds, over=0)
    text = f"isolate {show_nodes(node)} for {lasts:g} s"
    return Fault(Cut(name="isolate", given={"node": node}, ways=AroundNodes(node), heal_after=lasts, text=text))
