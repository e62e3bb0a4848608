"""`Controller`: carries one job through one run: reacts to what the environment reports, and records it.

While a fault is still to come, the ranks stop at their gates, at the steps at which it may be applied. The controller
knows the true step of each rank, and releases it or applies the fault. Its parts each do one job: `Launches` starts the
command, `RankPositions` counts true steps, `FaultSchedule` applies the faults in their order, `Observation` looks for
their effect, `RepeatedFaults` follows those with several victims or several moments, `Healing` undoes them.
`AgentRestarts` notices that the job's own agent starts the ranks again, for which no relaunch is needed. `HangWatch`
decides that the job hangs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine import agent_restarts, observation
from chaoskit.engine.agent_restarts import AgentRestarts
from chaoskit.engine.armed_fault import next_stop
from chaoskit.engine.fault_schedule import FaultSchedule
from chaoskit.engine.hang_watch import Hang, HangWatch
from chaoskit.engine.healing import Healing
from chaoskit.engine.launches import Launches
from chaoskit.engine.log_limit import LogLimit
from chaoskit.engine.notice_watch import NoticeWatch
from chaoskit.engine.observation import Observation
from chaoskit.engine.progress import Progress
from chaoskit.engine.rank_positions import RankPositions
from chaoskit.engine.ranks_ahead import RanksAhead, patience
from chaoskit.engine.repeated_faults import RepeatedFaults
from chaoskit.engine.resume_arguments import ResumeArguments
from chaoskit.engine.windows.out_keeper import OutKeeper
from chaoskit.engine.windows.window_watch import Watch
from chaoskit.environments.environment import Arrived, Ended, Environment, EnvironmentEvent, ExtraEvent
from chaoskit.faults import Fault
from chaoskit.faults.triggers import Moment
from chaoskit.job import Job
from chaoskit.protocol.events import EventWriter

#: Events that do not show that the job goes on: a daemon beside it may ask the metadata service for ever.
_NO_PROGRESS = ("metadata",)


class Controller:
    """One run. The triggers of `faults` have been resolved already; `deadline` is in seconds from now.

    `keeper` has ranks wait while the job's `{out}` is copied. With `late`, the job begins from such a copy: its first
    launch is a relaunch, after the one that the record has from another run. `watch` ends the run once nothing is left
    to be seen.
    """

    def __init__(
        self,
        *,
        env: Environment,
        job: Job,
        out: Path,
        faults: Sequence[Fault],
        reference: Reference | None,
        writer: EventWriter,
        deadline: float,
        progress: Progress,
        keeper: OutKeeper | None = None,
        late: bool = False,
        watch: Watch | None = None,
    ) -> None:
        self._env = env
        self._keeper = keeper
        self._watch = watch
        self._reference = reference
        self._writer = writer
        self._progress = progress
        self._deadline = time.monotonic() + deadline
        resume = ResumeArguments(job, env, out.parent, out, reference)
        self._launches = Launches(
            env=env, job=job, out=out, writer=writer, progress=progress, resume_words=resume.words, late=late
        )
        self._positions = RankPositions(reference, late=late)
        self._schedule = FaultSchedule(faults, env=env, reference=reference, writer=writer, progress=progress)
        self._observation = Observation(env, writer, release=self._release)
        self._healing = Healing(env, writer, progress=progress, observation=self._observation)
        self._repeated = RepeatedFaults(env, writer, reference)
        self._restarts = AgentRestarts(env, job)
        self._hang_watch = HangWatch(
            env, reference=reference, deadline=self._deadline, progress=progress, least=job.hang_after
        )
        self._notices = NoticeWatch(out.parent, writer, list(faults))
        self._logs = LogLimit(out.parent, writer)
        self._ahead = RanksAhead(self._observation, patience=patience(reference))
        #: By rank: its last arrival at its gate.
        self._last: dict[int, tuple[Arrived, Moment]] = {}

    def run(self) -> str:
        """Run the job to its end: `finished`, `gave-up`, `hang` or `deadline`. On Ctrl-C, end every process first."""
        self._schedule.record_plan()
        status = "interrupted"
        try:
            self._launches.start()
            while True:
                over = self._turn()
                if over is not None:
                    status = over
                    return status
        finally:
            try:
                if status == "interrupted":
                    self._launches.stop("interrupted")
            finally:
                self._healing.heal_all()
                self._notices.look(time.monotonic(), last=True)
                self._logs.end()
            self._writer.write("run.end", status=status)

    def _turn(self) -> str | None:
        """Wait for the next event or timer and handle it; the status once the run is over."""
        for event in self._env.wait(self._seconds_to_next_timer()):
            if not (isinstance(event, ExtraEvent) and event.kind in _NO_PROGRESS):
                self._hang_watch.alive(time.monotonic())
            early = isinstance(event, Ended) or self._observation.reported_by_rank
            self._observation.look(time.monotonic(), early=early)
            self._repeated.look()
            over = self._handle(event)
            if over is not None:
                return over
        now = time.monotonic()
        self._notices.look(now)
        self._logs.look(now)
        self._healing.tick(now)
        self._observation.look(now)
        self._repeated.look()
        self._healing.heal_by_time(now)
        if self._observation.pending is None and self._restarts.are_gone():
            self._restarted()
        for arrived, moment in self._ahead.free(now):
            self._meet(arrived, moment)
        self._free_kept(now)
        due = self._schedule.due_time() if self._observation.pending is None else None
        if due is not None and now >= due:
            self._apply_next_fault(None)
        if now >= self._deadline:
            return self._give_up()
        if self._watch is not None and not self._is_disturbed and self._watch.look(now):
            self._launches.stop("window")
            return "window"
        return self._look_for_hang(now)

    def _handle(self, event: EnvironmentEvent) -> str | None:
        """Handle one event; the status if it ends the run."""
        if isinstance(event, ExtraEvent):
            self._writer.write(event.kind, **event.data)
        elif isinstance(event, Ended):
            self._ahead.clear()
            self._launches.ended(event)
            self._restarts.launch_ended()
            if self._launches.is_done(event):
                return "finished"
            if self._launches.spent:
                return "gave-up"
            self._between_incarnations()
            if not self._launches.start():
                return "gave-up"
        else:
            self._arrived(event)
        return None

    def _seconds_to_next_timer(self) -> float:
        """Seconds until the next timer is due."""
        now = time.monotonic()
        times = [self._deadline, self._hang_watch.next_look, *self._healing.timers(), *self._ahead.timers()]
        times += [*self._notices.timers(), *self._logs.timers()]
        times += self._keeper.timers() if self._keeper is not None else []
        times += [self._watch.next_look] if self._watch is not None and not self._is_disturbed else []
        if self._repeated.unseen:
            times.append(now + observation.LOOK_AT_LEAST_EVERY)
        if self._observation.pending is not None:
            times.append(self._observation.next_look)
        elif (due := self._schedule.due_time()) is not None:
            times.append(due)
        if self._restarts.is_falling:
            times.append(now + agent_restarts.LOOK_EVERY)
        return max(0.0, min(times) - time.monotonic())

    @property
    def _incarnation(self) -> int:
        """How often the ranks were started before this time, by a launch or by the job's own agent."""
        return self._launches.index + self._restarts.count

    def _between_incarnations(self, *, strike: bool = True) -> None:
        """No rank has begun to train again: heal what is due, and apply the faults whose moment is now."""
        self._healing.heal_by_launch(self._incarnation)
        self._observation.settle()
        while strike and self._is_moment(Moment("relaunch")):
            self._apply_next_fault(None)
            self._observation.settle()

    def _restarted(self, *, strike: bool = True) -> None:
        """The job's own agent starts the ranks again: what waits for a relaunch waits no longer, unless a rank may
        have read its checkpoint by now and it is too late to `strike`."""
        self._between_incarnations(strike=strike)
        self._restarts.count += 1

    @property
    def _is_disturbed(self) -> bool:
        """Whether something of ours is still to happen to the job, or is not over."""
        return bool(
            self._observation.pending is not None
            or self._schedule.waiting
            or self._healing.while_training
            or self._repeated.unseen
        )

    def _free_kept(self, now: float) -> None:
        """Release the ranks that waited for their `{out}` to be kept."""
        if self._keeper is None:
            return
        for arrived, moment in self._keeper.free(now):
            self._hang_watch.alive(time.monotonic())
            self._meet(arrived, moment)

    def _look_for_hang(self, now: float) -> str | None:
        """End the job if it hangs and nothing of ours is to happen to it that could change that."""
        if self._observation.pending is not None or self._healing.timers() or self._schedule.is_awaited:
            self._hang_watch.alive(now)
            return None
        hang = self._hang_watch.look(now)
        return self._end_stuck("hang", hang) if hang is not None else None

    def _give_up(self) -> str:
        """The deadline is reached."""
        self._progress.phase("deadline: taking stacks")
        return self._end_stuck("deadline", self._env.stacks())

    def _end_stuck(self, cause: str, found: Hang | Mapping[int, str]) -> str:
        """Record what the job was doing, then end every process."""
        if isinstance(found, Hang):
            self._writer.write("hang", quiet=round(found.quiet, 1), longest=round(found.longest, 1))
        for rank, text in (found.stacks if isinstance(found, Hang) else found).items():
            self._writer.write("stack", rank=rank, text=text)
        self._launches.stop(cause)
        return cause

    def _arrived(self, arrived: Arrived) -> None:
        """A rank is at its gate: apply a fault, if this is its moment, or release the rank."""
        if self._restarts.arrived(arrived):
            self._restarted(strike=arrived.at == "start")
        moment = Moment(arrived.at, arrived.rank, self._positions.of(arrived), arrived.call)
        self._last[arrived.rank] = arrived, moment
        if self._keeper is not None and self._keeper.holds(arrived, moment):
            self._free_kept(time.monotonic())
            return
        if self._ahead.holds(arrived, moment, self._schedule):
            return
        self._meet(arrived, moment)

    def _meet(self, arrived: Arrived, moment: Moment) -> None:
        """Do what is due at this moment of a rank at its gate."""
        if moment.kind == "step" and moment.position is not None:
            self._healing.heal_by_step(moment.position + 1)
        self._repeated.arrived(arrived, moment)
        if self._is_moment(moment):
            self._apply_next_fault(arrived)
        else:
            self._release(arrived.rank)

    def _is_moment(self, moment: Moment) -> bool:
        """Whether the next fault is to be applied now."""
        return self._observation.pending is None and self._schedule.is_due_at(moment)

    def _apply_next_fault(self, arrived: Arrived | None) -> None:
        """Apply the next fault. Hold the rank whose moment it was until the effect has been seen, if it may be held."""
        self._restarts.fault_applies()
        armed = self._schedule.apply_next(arrived)
        if armed is None:
            return
        self._repeated.begin(armed)
        rank = arrived.rank if arrived is not None else None
        if armed.applied_at is None:
            if rank is not None:
                self._release(rank)
            return
        self._launches.fault_hit_launcher |= bool(getattr(armed.fault.action, "launcher", False))
        self._launches.told_to_stop |= bool(getattr(armed.fault.action, "tells_to_stop", False))
        self._healing.add(armed, launch=self._incarnation)
        self._observation.pending = armed
        if armed.ordered or not armed.traits.holds:
            # A rank carries out an order only after its release, and packets flow only while the ranks go on.
            if rank is not None:
                self._release(rank)
        else:
            armed.held_rank = rank
        self._observation.look(time.monotonic())

    def _release(self, rank: int) -> None:
        """Release the rank from its gate, up to the next step at which it has to stop."""
        pending, waiting, healing = self._observation.pending, self._schedule.waiting, self._healing.faults
        coming = pending is not None and pending.traits.holds
        ending = any(each.traits.heal_step is not None for each in healing)
        keep = bool(waiting or coming or ending or self._repeated.faults)
        arrived, moment = self._last[rank]
        if self._keeper is not None and moment.position is not None:
            self._release_up_to(arrived, moment, self._keeper)
            return
        if moment.position is None or self._reference is None:
            # A rank that resumes shows only by its first step where it is.
            keeping = self._keeper is not None and self._keeper.waits
            self._env.release(rank, keep_gating=keep or keeping)
            return
        # At the gate of a step, the rank is past stopping for that one.
        least = moment.position + (arrived.at == "step")
        stopping = [*waiting, *healing, *self._repeated.faults]
        stop = next_stop(stopping, rank, world_size=self._reference.world_size, least=least) if keep else 0
        # At the beginning of the job, a fault may have been applied before the steps that are to be recorded for it.
        names = max((each.steps_to_record(least + 1) for each in self._schedule.all), default=0)
        self._env.release(rank, keep_gating=keep, until=max(0, stop - (moment.position - arrived.n)), names=names)

    def _release_up_to(self, arrived: Arrived, moment: Moment, keeper: OutKeeper) -> None:
        """Release the rank up to the next step at which its `{out}` is kept."""
        assert moment.position is not None
        until = keeper.next_stop(moment.position + (arrived.at == "step")) - (moment.position - arrived.n)
        self._env.release(arrived.rank, keep_gating=keeper.waits, until=max(0, until))
