"""What a policy of retention costs and what it can still recover: bytes, money, and the worst loss of work (RPO).

Closed forms; nothing is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from chaoskit.errors import UsageError
from chaoskit.studies.forecast.plan import HOUR, Plan
from chaoskit.validation import check_number, check_whole

_MONTH = 30 * 24 * HOUR


@dataclass(frozen=True)
class RetentionPolicy:
    """Keep the newest `keep` checkpoints that can be resumed from. Every `full_every`-th is whole; the others are
    deltas of the share `delta_share` of it, and need all since the whole one before them."""

    name: str
    keep: int
    full_every: int = 1
    delta_share: float = 1.0

    def __post_init__(self) -> None:
        check_whole("RetentionPolicy", "keep", self.keep, least=1, most=10**9)
        check_whole("RetentionPolicy", "full_every", self.full_every, least=1, most=10**6)
        check_number("RetentionPolicy", "delta_share", self.delta_share, least=0, most=1)
        if self.full_every > 1 and self.keep < self.full_every:
            raise UsageError(
                f"RetentionPolicy: keep={self.keep} is less than full_every={self.full_every}: a whole chain has to be "
                "kept, or its newest delta cannot be read"
            )


@dataclass(frozen=True)
class RetentionCost:
    """`held_bytes` is the most that is on the storage, `written_bytes` what is written in a month of 30 days,
    `month_usd` the price of what is held for a month. Worst losses, in seconds: `crash` with a good newest checkpoint,
    `damaged` if that one is damaged (with deltas: the chain that it begins or continues). `reach_seconds` is how far
    back a resume can go, `out_of_reach` the share of silent corruptions that are found later than that; then all work
    is lost."""

    policy: RetentionPolicy
    held_bytes: float
    written_bytes: float
    month_usd: float
    crash: float
    damaged: float
    reach_seconds: float
    out_of_reach: float


def retention_cost(policy: RetentionPolicy, plan: Plan, *, checkpoint_bytes: float, price: float) -> RetentionCost:
    """Evaluate a policy. `checkpoint_bytes` is the size of a whole checkpoint, `price` USD for a terabyte and month.
    A new checkpoint is written before the oldest goes, and a whole chain goes at a time."""
    check_number("retention_cost", "checkpoint_bytes", checkpoint_bytes, least=0)
    check_number("retention_cost", "price", price, least=0)
    saves = plan.checkpointing
    cycle = saves.interval_seconds * saves.stretch + saves.blocking_seconds
    mean = (1 + (policy.full_every - 1) * policy.delta_share) / policy.full_every
    chains = math.ceil(policy.keep / policy.full_every) + (policy.full_every > 1)
    held = (chains * policy.full_every * mean if policy.full_every > 1 else policy.keep + 1) * checkpoint_bytes
    reach = (policy.keep - 1) * cycle
    latency = plan.recovery.silent_hours * HOUR
    behind = saves.background_seconds
    return RetentionCost(
        policy,
        held,
        _MONTH / cycle * mean * checkpoint_bytes,
        held / 1e12 * price,
        cycle + behind,
        (1 + policy.full_every) * cycle + behind if policy.keep > 1 else math.inf,
        reach,
        math.exp(-reach / latency) if latency else 0.0,
    )


def usual_policies(keep: int, delta_share: float, interval_seconds: float) -> Iterator[RetentionPolicy]:
    """The policy of today, and some to compare it with; each once."""
    yield RetentionPolicy(f"the last {keep}", keep)
    for each in (2, 10):
        if each != keep:
            yield RetentionPolicy(f"the last {each}", each)
    day = max(11, math.ceil(24 * HOUR / interval_seconds))
    yield RetentionPolicy("all of a day", day)
    chain = f"deltas of {100 * delta_share:.0f} %, every 10th whole"
    yield RetentionPolicy(f"the last 10, {chain}", 10, 10, delta_share)
    yield RetentionPolicy(f"all of a day, {chain}", day, 10, delta_share)
