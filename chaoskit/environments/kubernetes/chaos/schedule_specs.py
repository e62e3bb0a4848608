"""Schedule: a fault of Chaos Mesh again and again."""

from __future__ import annotations

import copy

from chaoskit.environments.kubernetes.api_kinds import SCHEDULES
from chaoskit.environments.kubernetes.chaos.chaos_spec import ChaosSpec
from chaoskit.errors import UsageError
from chaoskit.validation import check_whole

#: Where a schedule has the spec of each kind.
_FIELDS = {
    "PodChaos": "podChaos", "NetworkChaos": "networkChaos", "IOChaos": "ioChaos", "StressChaos": "stressChaos",
    "TimeChaos": "timeChaos", "DNSChaos": "dnsChaos",
}  # fmt: skip
_DAY = 86400


def schedule(*, fault: ChaosSpec, every: int) -> ChaosSpec:
    """Begin this fault every so many seconds, until the schedule is removed. Pods are chosen each time.

    Raises UsageError if the fault would still last when it begins again, or is a schedule itself.
    """
    if type(fault) is not ChaosSpec or fault.kind.kind not in _FIELDS:
        raise UsageError(f"schedule: fault must be the spec of one of {', '.join(_FIELDS)}, not {fault!r}")
    check_whole("schedule", "every", every, least=1, most=_DAY)
    if fault.seconds is not None and fault.seconds >= every:
        raise UsageError(
            f"schedule: every must be longer than {fault.action} lasts, which is {fault.seconds:g} s, not {every!r}"
        )
    spec = {
        "schedule": f"@every {every}s",
        "concurrencyPolicy": "Forbid",
        "historyLimit": 1,
        "type": fault.kind.kind,
        _FIELDS[fault.kind.kind]: copy.deepcopy(dict(fault.spec)),
    }
    return ChaosSpec(SCHEDULES, f"schedule of {fault.action}", spec, None)
