"""`delay`: packets of a node arrive late, as over a long or busy route."""

from __future__ import annotations

from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault
from chaoskit.faults.network.links import Degrade
from chaoskit.faults.node.nodes import NodeSpec, show_nodes
from chaoskit.faults.registry import fault
from chaoskit.validation import check_number, check_numbered


@fault("delay", Degrade)
def delay(*, node: NodeSpec, ms: float, jitter: float = 0.0, seconds: float) -> Fault:
    """Delay every packet to and from `node` by `ms` milliseconds, plus or minus `jitter`, for `seconds`.

    `node`: a number, negative from the last; a tuple; 'all'. Observed once packets of the job were delayed. Raises
    UsageError for a node of another form, for a delay or a time that is not positive, and for a jitter larger than
    the delay.
    """
    check_numbered("delay", "node", node, distinct=True)
    late = check_number("delay", "ms", ms, over=0)
    spread = check_number("delay", "jitter", jitter, least=0)
    if spread > late:
        raise UsageError(f"delay: jitter must be at most ms, which is {ms!r}, not {jitter!r}")
    lasts = check_number("delay", "seconds", seconds, over=0)
    given, quality = {"ms": late, "jitter": spread}, {"delay": late / 1000, "jitter": spread / 1000}
    text = f"delay packets of {show_nodes(node)} by {late:g} ms" + (
        f" (give or take {spread:g} ms)" if spread else ""
    )
    return Fault(Degrade("delay", node, lasts, given, quality, "held", text))
