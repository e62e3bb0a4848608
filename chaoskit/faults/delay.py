"""`delay`: what a node sends and is sent takes longer, as over a long or a crowded way."""

from __future__ import annotations

from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault, check_number
from chaoskit.faults.links import Degrade
from chaoskit.faults.nodes import NodeSpec, check_node_spec, show_nodes


def delay(*, node: NodeSpec, ms: float, jitter: float = 0.0, seconds: float) -> Fault:
    """Hold back every packet of `node` (a number, negative from the last; a tuple; 'all') by `ms` milliseconds, give or
    take `jitter`, for `seconds`.

    Observed once packets of the job were held back. Raises UsageError for what is no node, for a delay or a time that
    is not positive, and for a jitter that is larger than the delay.
    """
    check_node_spec("delay", node)
    late = check_number("delay", "ms", ms)
    spread = check_number("delay", "jitter", jitter, zero=True)
    if spread > late:
        raise UsageError(f"delay: jitter must be at most ms, which is {ms!r}, not {jitter!r}")
    lasts = check_number("delay", "seconds", seconds)
    given, quality = {"ms": late, "jitter": spread}, {"delay": late / 1000, "jitter": spread / 1000}
    text = f"delay packets of {show_nodes(node)} by {late:g} ms" + (
        f" (give or take {spread:g} ms)" if spread else ""
    )
    return Fault(Degrade("delay", node, lasts, given, quality, "held", text))
