"""`HangWatch`: decides that a job hangs, long before its deadline, and says meanwhile what it waits for.

A job is alive as long as it makes progress: every step, save and load counts, and so does every fault. Once it has been
quiet for longer than its pace explains, its processes are looked at from time to time. It hangs where between several
looks no stack has changed, next to nothing was read or written, and nobody but a rank has computed. A rank may compute
for long in one call of native code, and a job may print that it waits: then the patience is a multiple. What cannot be
proved, for want of stacks, is left to the deadline.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from chaoskit.analysis.recovery.pace import longest_quiet
from chaoskit.analysis.reference.reference import Reference
from chaoskit.capabilities import Activity, CanShowActivity
from chaoskit.checks.stacks import explain, waits_in
from chaoskit.engine.progress import Progress
from chaoskit.environments.environment import Environment

#: Seconds between two looks at what the job has written.
LOOK_EVERY = 1.0
#: No job hangs that was quiet for fewer seconds. torchrun gives ranks 30 s to end: without all ranks the patience is
#: twice as long. Without a reference nothing is known of the job.
FLOOR, FLOOR_WITHOUT_REFERENCE = 30.0, 120.0
#: A job may be quiet for as many times its own longest quiet time.
PACE = 5.0
#: The patience is as many times longer unless every rank is there and some rank waits for another in a collective; and
#: where a rank computes although its stack does not change. Of a job without a reference nobody knows how long it does.
UNCLEAR, BUSY = 2.0, 4.0
#: Where nothing comes but lines of output: a job may wait and say so, or a thread of it prints that it lives.
PRINTS = 10.0
#: A collective gives up after its timeout; this is when it surely has.
TIMEOUT_SHARE, TIMEOUT_MORE = 1.25, 10.0
#: As many looks at unchanged stacks prove a hang.
LOOKS = 4
#: Less than this is no sign of life: the share of a processor, and bytes per second.
IDLE_SHARE, IDLE_BYTES = 0.05, 4096


@dataclass(frozen=True)
class Hang:
    """`quiet`: for how many seconds the job did nothing. `longest`: its longest quiet time before."""

    quiet: float
    longest: float
    stacks: Mapping[int, str]


@dataclass(frozen=True)
class _Look:
    """The stacks of the ranks, and what they had used just after these were taken."""

    stacks: Mapping[int, str]
    activity: Activity
    t: float


class HangWatch:
    """Watches one run, whose `deadline` is on the monotonic clock. The caller asks `look` when `next_look` is due, and
    reports every other sign of life by `alive`. `least` replaces the floor, in seconds."""

    def __init__(
        self,
        env: Environment,
        *,
        reference: Reference | None,
        deadline: float,
        progress: Progress,
        least: float | None = None,
    ) -> None:
        self._env = env
        self._progress = progress
        self._deadline = deadline
        self._world_size = reference.world_size if reference is not None else None
        self._floor = least or (FLOOR if reference is not None else FLOOR_WITHOUT_REFERENCE)
        self._timeout = reference.group_timeout if reference is not None else None
        self._said = -1
        self._since = time.monotonic()
        self._look_at = self._since + LOOK_EVERY
        self._sample_at = 0.0
        self._looks: list[_Look] = []
        self._told = False
        #: The longest quiet time of the reference, or, without one, of this run so far.
        self._longest = 0.0
        if reference is not None:
            self._longest = max((longest_quiet(control) for control in reference.controls), default=0.0)

    @property
    def next_look(self) -> float:
        """When the next look is due, on the monotonic clock; never, where the environment shows no activity."""
        return self._look_at if isinstance(self._env, CanShowActivity) else math.inf

    def alive(self, now: float) -> None:
        """The job, or a fault, has just done something."""
        if self._world_size is None:
            self._longest = max(self._longest, now - self._since)
        self._since = now
        self._looks.clear()
        self._sample_at = 0.0
        if self._told:
            self._told = False
            self._progress.phase("the job goes on")

    def look(self, now: float) -> Hang | None:
        """Look whether the job does anything, if that is due. Returns the hang once there is no doubt."""
        if now < self.next_look or not isinstance(self._env, CanShowActivity):
            return None
        self._look_at = now + LOOK_EVERY
        said = self._env.said()
        if said != self._said:
            self._said = said
            self.alive(now)
            return None
        patience = self._patience()
        quiet = now - self._since
        if quiet < patience / 3 or now < self._sample_at:
            return None
        self._sample_at = now + max(patience / 6, quiet / 4)
        return self._sample(self._env, now, patience)

    def _patience(self) -> float:
        """For how many seconds the job may be quiet, as long as there is no doubt about its ranks."""
        patience = max(self._floor, PACE * self._longest)
        if self._timeout is not None:
            ends_itself = TIMEOUT_SHARE * self._timeout + TIMEOUT_MORE
            if self._since + ends_itself < self._deadline:
                patience = max(patience, ends_itself)
        return patience

    def _sample(self, env: CanShowActivity, now: float, patience: float) -> Hang | None:
        quiet = now - self._since
        before = env.activity()
        stacks = self._env.stacks()
        last = self._looks[-1] if self._looks else None
        if last is not None and _lives(last, before, stacks, now):
            self.alive(now)
            return None
        if not stacks or not stacks.keys() >= before.ranks.keys():
            # A rank that does not answer may do anything.
            self._looks.clear()
            self._tell(f"nothing new for {quiet:.0f} s, and not every rank answers")
            return None
        self._looks.append(_Look(stacks, env.activity(), now))
        limit = patience * self._doubt(stacks, before)
        if quiet >= limit and len(self._looks) >= LOOKS:
            return Hang(quiet, self._longest, stacks)
        what = f"after {limit:.0f} s that is a hang" if math.isfinite(limit) else "it computes"
        self._tell(f"nothing new for {quiet:.0f} s: {explain(stacks)}; {what}")
        return None

    def _doubt(self, stacks: Mapping[int, str], now: Activity) -> float:
        """How many times longer to wait, because it is not clear that nobody does anything."""
        inside = {rank for rank, text in stacks.items() if (own := waits_in(text)) is not None and own.collective}
        first = self._looks[0]
        seconds = max(self._looks[-1].t - first.t, LOOK_EVERY)
        prints = PRINTS if now.printed > first.activity.printed else 1.0
        busy = {
            rank
            for rank, used in now.ranks.items()
            if used - first.activity.ranks.get(rank, used) > IDLE_SHARE * seconds
        }
        if busy - inside:
            return max(BUSY, prints) if self._world_size is not None else math.inf
        everybody = self._world_size is None or len(stacks) >= self._world_size
        return max(prints, 1.0 if inside and everybody else UNCLEAR)

    def _tell(self, text: str) -> None:
        self._told = True
        self._progress.phase(text)


def _lives(last: _Look, now: Activity, stacks: Mapping[int, str], t: float) -> bool:
    """Whether anything has happened since the last look."""
    seconds = max(t - last.t, LOOK_EVERY)
    return (
        stacks != last.stacks
        or now.ranks.keys() != last.activity.ranks.keys()
        or now.moved - last.activity.moved > IDLE_BYTES * seconds
        or now.others - last.activity.others > IDLE_SHARE * seconds
    )
