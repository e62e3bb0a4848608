"""NetworkChaos: a partition, and links that delay, lose or corrupt packets, or are slow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from chaoskit.environments.kubernetes.api_kinds import NETWORK_CHAOS
from chaoskit.environments.kubernetes.chaos.aim import Aim, check_aim
from chaoskit.environments.kubernetes.chaos.chaos_spec import ChaosSpec, go_duration, made
from chaoskit.errors import UsageError
from chaoskit.validation import check_choice, check_number, check_whole

#: Seen from the pods of `aim`: what they send to the target, what they get from it, or both.
Direction = Literal["to", "from", "both"]
#: Seconds, percent and bytes per second that the kernel's queues take.
_LONGEST_DELAY, _LEAST_PERCENT, _MOST_RATE = 200.0, 0.001, 2**40


def partition(*, aim: Aim, target: Aim, direction: Direction = "both", seconds: float) -> ChaosSpec:
    """Drop all packets between the pods of `aim` and those of `target`.

    Raises UsageError without a target: Chaos Mesh would then cut the pods off from everything, the API server and the
    storage included.
    """
    if target is None:
        raise UsageError("partition: target is missing: without one Chaos Mesh would drop all packets of these pods")
    return _network("partition", aim, target, direction, {}, seconds)


def delay(
    *, aim: Aim, target: Aim | None = None, direction: Direction = "to",
    latency: float, jitter: float = 0.0, correlation: float = 0.0, seconds: float,
) -> ChaosSpec:  # fmt: skip
    """Delay each packet by `latency` seconds, plus or minus `jitter`. `correlation` is that of one packet's delay with
    the next one's, in percent."""
    fields = {"delay": _delay("delay", latency, jitter, correlation)}
    return _network("delay", aim, target, direction, fields, seconds)


def loss(
    *, aim: Aim, target: Aim | None = None, direction: Direction = "to",
    percent: float, correlation: float = 0.0, seconds: float,
) -> ChaosSpec:  # fmt: skip
    """Lose `percent` of the packets."""
    return _network("loss", aim, target, direction, {"loss": _share("loss", percent, correlation)}, seconds)


def poor_link(
    *, aim: Aim, target: Aim | None = None, direction: Direction = "to", latency: float = 0.0, jitter: float = 0.0,
    rate: int | None = None, corrupt: float = 0.0, seconds: float,
) -> ChaosSpec:  # fmt: skip
    """Several of these at once: two faults of one pair of pods would not add up, because Chaos Mesh sends each packet
    through the queue of one of them."""
    fields: dict[str, Any] = {}
    if latency or jitter:
        fields["delay"] = _delay("netem", latency, jitter, 0.0)
    if corrupt:
        fields["corrupt"] = _share("netem", corrupt, 0.0)
    if rate is not None:
        fields["rate"] = {"rate": _rate("netem", rate)}
    if not fields:
        raise UsageError("netem: latency, rate or corrupt must be given: without any the link would stay a good one")
    return _network("netem", aim, target, direction, fields, seconds)


def _network(
    action: str, aim: Aim, target: Aim | None, direction: Direction, fields: Mapping[str, Any], seconds: float
) -> ChaosSpec:
    check_choice(action, "direction", direction, get_args(Direction))
    check_aim(action, "aim", aim)
    others = {}
    if target is not None:
        others["target"] = check_aim(action, "target", target).as_fields()
        if direction != "to" and action != "partition" and aim.may_meet(target):
            # A pod on both sides would get the rule of one side only.
            raise UsageError(
                f"{action}: target must select other pods than aim for direction {direction!r}: select by role or node"
            )
    elif direction != "to":
        raise UsageError(f"{action}: target is missing: Chaos Mesh needs one for direction {direction!r}")
    what = {"action": action, "direction": direction, **others, **fields}
    return made(NETWORK_CHAOS, action, aim, what, seconds=seconds)


def _delay(action: str, latency: float, jitter: float, correlation: float) -> dict[str, str]:
    check_number(action, "latency", latency, over=0, most=_LONGEST_DELAY)
    check_number(action, "jitter", jitter, least=0, most=latency)
    share = check_number(action, "correlation", correlation, least=0, most=100)
    if round(latency * 1e6) == 0:
        raise UsageError(f"{action}: latency must be a microsecond at least, not {latency!r}")
    return {"latency": go_duration(latency), "jitter": go_duration(jitter), "correlation": f"{share:g}"}


def _share(action: str, percent: float, correlation: float) -> dict[str, str]:
    """The field of an action of this kind is called like the action."""
    field = "corrupt" if action == "netem" else action
    share = check_number(action, field if action == "netem" else "percent", percent, least=_LEAST_PERCENT, most=100)
    with_next = check_number(action, "correlation", correlation, least=0, most=100)
    return {field: f"{share:.6g}", "correlation": f"{with_next:g}"}


def _rate(action: str, rate: int) -> str:
    """`bps` are bytes per second, here as for `tc`."""
    return f"{check_whole(action, 'rate', rate, least=1, most=_MOST_RATE)}bps"
