"""`JobTimeLimit`: a Slurm job reaches its time limit: Slurm tells it as it has asked, and then ends it."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoskit.environments.environment import EnvironmentEvent
from chaoskit.environments.slurm.batch_launch import LOOK, BatchLaunch
from chaoskit.environments.slurm.job_notices import JobNotices
from chaoskit.environments.slurm.signal_wish import SignalWish

#: The state of a job that has reached its limit.
_TIMEOUT = "TIMEOUT"
#: Seconds after which a job that is still there was told, and has not just ended: the end of a job wakes its batch
#: script, too, and brings SIGTERM to its steps.
_SURE = 1.0
#: Seconds by which the end of a job may be seen late, or its SIGTERM.
_LATE = 2 * LOOK


@dataclass
class LoweredLimit:
    """A limit that was lowered for one `launch`, and what Slurm has done since. Times are of the monotonic clock.
    `wish` is the signal that the job has asked for. `before` is how often the agent of each node had got it, and
    `woken` how often the batch script had been, where it is for that alone.

    `since` is the last moment at which nothing had happened: not later than the signal. `stirred` is when something had
    that may have been the signal, `told` when that was certain, `terminated` when Slurm ended the job."""

    launch: BatchLaunch
    nodes: tuple[str, ...]
    wish: SignalWish | None
    kill_wait: float
    before: Mapping[str, int]
    woken: int
    since: float
    stirred: float | None = None
    told: float | None = None
    terminated: float | None = None
    ended: float | None = None

    @property
    def is_sure(self) -> bool:
        """Whether the signal cannot be mistaken for the end of the job."""
        wish = self.wish
        return wish is not None and not wish.to_script and wish.signum != signal.SIGTERM

    @property
    def outcome(self) -> dict[str, Any]:
        """What became of the job on each node, in the words of `CanPreempt.preempted`."""
        assert self.ended is not None
        by_limit = self.launch.job.state == _TIMEOUT
        # Slurm counts what ignores SIGTERM as ended by that, too.
        waited = self.ended - (self.terminated if self.terminated is not None else self.ended)
        was_killed = by_limit and waited >= self.kill_wait - _LATE
        wish = self.wish if self.told is not None or not by_limit else None
        return {
            "received": [
                {
                    "signal": wish.signum if wish is not None else int(signal.SIGTERM),
                    "after": self._after(self.told if wish is not None else self.terminated) or 0.0,
                }
            ],
            "asked": 0,
            "refused": 0,
            "times": 1,
            "shutdown": self._after(self.terminated) if by_limit else None,
            "ended": None if was_killed else self._after(self.ended),
            "killed": self._after(self.ended) if was_killed else None,
            "withdrawn": None,
        }

    def _after(self, moment: float | None) -> float | None:
        return None if moment is None else max(0.001, round(moment - self.since, 3))


class JobTimeLimit(JobNotices):
    """Fulfils `CanLimitTime`. Slurm lets users lower the limit of their own jobs. It looks for jobs that have reached
    theirs every 30 s."""

    _limit: LoweredLimit | None = None

    def limit_time(self, minutes: int) -> Mapping[str, Any]:
        """See `CanLimitTime`: `scontrol update TimeLimit`, in whole minutes since the job has started."""
        launch, wish = self.job.running, self.job.signal_wish
        if launch is None:
            raise LookupError("nothing of the job runs")
        before = self._signalled(wish)
        self._script = self._batch_script() if wish is not None and wish.to_script else None
        woken, begun = self._wakings(), time.monotonic()
        kill_wait = self.job.limit(minutes)
        self._limit = LoweredLimit(launch, self.nodes(), wish, kill_wait, before, woken, begun)
        warned = min(wish.seconds, minutes * 60) if wish is not None else 0
        return {
            "job": launch.job.number,
            "nodes": list(self.nodes()),
            "grace": warned + kill_wait,
            "signal": wish.name if wish is not None else "",
        }

    def time_limit_reached(self) -> Mapping[str, Any] | None:
        """See `CanLimitTime`."""
        limit = self._limit
        if limit is None:
            raise LookupError("no limit was lowered")
        self._look_at_limit(limit)
        if limit.ended is None:
            return None
        job, requeued = limit.launch.job, limit.launch.was_requeued
        # A job that was requeued had asked for it, or somebody else had.
        if job.state != _TIMEOUT and limit.told is None and not (requeued and limit.wish is not None):
            raise LookupError(f"the job had ended before Slurm told it anything: {job.state}")
        nodes = dict.fromkeys(limit.nodes, limit.outcome)
        return {"since": limit.since, "state": job.state, "requeued": requeued, "nodes": nodes}

    def look_at_notices(self, happened: list[EnvironmentEvent]) -> list[EnvironmentEvent]:
        """See `Preemptions`; looks at the limit, too."""
        if self._limit is not None:
            self._look_at_limit(self._limit)
        return super().look_at_notices(happened)

    def _look_at_limit(self, limit: LoweredLimit) -> None:
        if limit.ended is not None:
            return
        now, launch = time.monotonic(), limit.launch
        is_over = launch.has_ended or launch.job.state in ("COMPLETING", _TIMEOUT)
        if not is_over and limit.told is None:
            heard = any(times > limit.before.get(node, 0) for node, times in self._signalled(limit.wish).items())
            if heard or self._wakings() > limit.woken:
                limit.stirred = now if limit.stirred is None else limit.stirred
                if limit.is_sure or now >= limit.stirred + _SURE:
                    limit.told = limit.stirred
        if is_over and limit.terminated is None:
            limit.terminated = now
        if launch.has_ended:
            limit.ended = now
        if limit.stirred is None and limit.terminated is None:
            limit.since = now

    def _signalled(self, wish: SignalWish | None) -> Mapping[str, int]:
        """By node, how often the signal has come that the job has asked for, if it comes to all steps."""
        if wish is None or wish.to_script:
            return {}
        return self.agents.ask_all("signalled", signum=wish.signum)
