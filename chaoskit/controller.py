"""`Controller`: carries one job through one run: launches and relaunches it, strikes when a trigger says so, and writes
down what it did and what it saw.

The ranks stop at their gates while a fault is still to come, at the steps at which it may; the controller knows from
alignment with the reference at which true step each one is, and lets it go on or strikes. It keeps to the order of the
faults: each is armed once the one before it has been struck and seen to take effect (or was given up on). A rank whose
moment it was is held at its gate until then, unless the fault only shows while the ranks go on: such a one is looked
for until it is healed, and nobody waits for it. One that strikes again does so whenever its moment comes again,
whatever is still to come.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from chaoskit.alignment import Index
from chaoskit.environments.environment import Arrived, Ended, Environment, Told
from chaoskit.errors import TooFewNodes
from chaoskit.events import EventWriter
from chaoskit.faults import Fault
from chaoskit.faults.fault import Apart, Driven
from chaoskit.job import Job
from chaoskit.lasting import Lasting
from chaoskit.life import step_of
from chaoskit.progress import Progress
from chaoskit.reference import Reference
from chaoskit.strike import Strike, next_stop
from chaoskit.triggers import Moment

#: A fault that has not been seen to take effect after this many seconds never was, unless it says otherwise.
OBSERVE_WITHIN = 10.0
#: How often an applied fault is looked at, in seconds, until it is observed.
LOOK_EVERY = 0.003
#: One that holds nobody is looked at less often as time goes by: after this share of the time that has passed, and
#: after `LOOK_AT_LEAST_EVERY` seconds at the latest.
LOOK_SHARE = 0.02
LOOK_AT_LEAST_EVERY = 0.1
#: A fault that goes by the clock and finds nobody to strike tries again after this many seconds.
RETRY_EVERY = 0.05


class Controller:
    """One run. `faults` have been resolved already; `deadline` is in seconds from now."""

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
    ) -> None:
        self.env = env
        self.job = job
        self.out = out
        self.reference = reference
        self.index = Index.of(reference) if reference is not None else None
        self.writer = writer
        self.progress = progress
        self.deadline = time.monotonic() + deadline
        self.launch = -1
        self.strikes = [Strike(index, fault) for index, fault in enumerate(faults)]
        self.waiting = list(self.strikes)
        self.pending: Strike | None = None
        self.healing: list[Strike] = []
        self.lasting = Lasting(env, writer, reference)
        self.last: dict[int, tuple[Arrived, Moment]] = {}
        self.bases: dict[tuple[int, int], int | None] = {}
        self.first: set[int] = set()
        self.struck_launcher = False

    def run(self) -> str:
        """Until the job is done: `finished`, `gave-up` or `deadline`. On Ctrl-C everything is ended first."""
        for strike in self.waiting:
            self.writer.write("fault.planned", fault=strike.index, what=strike.fault.to_json())
        status = "interrupted"
        try:
            self._start_launch()
            while True:
                done = self._turn()
                if done is not None:
                    status = done
                    return status
        finally:
            try:
                if status == "interrupted":
                    self._end_launch(code=None, cause="interrupted", survivors=self.env.stop())
            finally:
                self._heal(self.healing)
            self.writer.write("run.end", status=status)

    def _turn(self) -> str | None:
        """Wait for the next thing to happen and deal with it; the status once the run is over."""
        for happening in self.env.wait(self._patience()):
            ended = isinstance(happening, Ended)
            # What a rank is ordered to do it says itself: to look costs nothing.
            said = self.pending is not None and self.pending.ordered and not self.pending.owed
            self._look(time.monotonic(), whatever=ended or said)
            self.lasting.look()
            if isinstance(happening, Told):
                self.writer.write(happening.kind, **happening.data)
            elif isinstance(happening, Ended):
                cause = "fault" if self.struck_launcher else "itself"
                self._end_launch(code=happening.code, cause=cause, survivors=happening.survivors)
                if happening.code == 0:
                    return "finished"
                if self.launch >= self.job.relaunches:
                    return "gave-up"
                self._between_launches()
                if not self._start_launch():
                    return "gave-up"
            else:
                self._arrived(happening)
        now = time.monotonic()
        self._tick(now)
        self._look(now)
        self.lasting.look()
        self._heal(strike for strike in self.healing if strike.heal_at is not None and now >= strike.heal_at)
        if self.waiting and self.pending is None:
            due = self._due()
            if due is not None and now >= due:
                self._strike(None)
        if now >= self.deadline:
            return self._give_up()
        return None

    def _patience(self) -> float:
        """How long nothing needs to be done unless something happens."""
        times = [self.deadline] + [strike.heal_at for strike in self.healing if strike.heal_at is not None]
        times += [strike.tick_at for strike in self.healing if strike.manner.tick_every is not None]
        if self.lasting.unseen:
            times.append(time.monotonic() + LOOK_AT_LEAST_EVERY)
        if self.pending is not None:
            times.append(max(time.monotonic() + LOOK_EVERY, self.pending.look_at))
        elif self.waiting and (due := self._due()) is not None:
            times.append(due)
        return max(0.0, min(times) - time.monotonic())

    # Launches.

    def _start_launch(self) -> bool:
        """Whether there was anything to launch it on."""
        self.launch += 1
        relaunch = self.launch > 0
        self.progress.phase(f"relaunch {self.launch} of {self.job.relaunches}" if relaunch else "launch")
        self.struck_launcher = False
        command = self.job.words(out=self.out, relaunch=relaunch)
        self.writer.write("launch.start", launch=self.launch, command=command)
        try:
            how = self.env.launch(self.launch, command)
        except TooFewNodes:
            self._end_launch(code=None, cause="too-few-nodes", survivors=())
            return False
        self.writer.write("launch.how", launch=self.launch, how=how)
        return True

    def _end_launch(self, *, code: int | None, cause: str, survivors: Sequence[Mapping[str, Any]]) -> None:
        self.writer.write(
            "launch.end",
            launch=self.launch,
            code=code,
            cause=cause,
            survivors=[dict(survivor) for survivor in survivors],
        )
        self.writer.write("files", launch=self.launch, files=_files(self.out))

    def _between_launches(self) -> None:
        """Nobody is there: heal what is due, and strike what strikes now."""
        over = self.launch
        self._heal(each for each in self.healing if each.heal_launch is not None and each.heal_launch <= over)
        self._settle()
        while self._is_moment(Moment("relaunch")):
            self._strike(None)
            self._settle()

    def _give_up(self) -> str:
        """The deadline has come: keep the stacks of whoever still lives, then end everything."""
        self.progress.phase("deadline: taking stacks")
        for rank, text in self.env.stacks().items():
            self.writer.write("stack", rank=rank, text=text)
        self._end_launch(code=None, cause="deadline", survivors=self.env.stop())
        return "deadline"

    # Faults.

    def _arrived(self, arrived: Arrived) -> None:
        """A rank is at its gate: is it the moment?"""
        moment = Moment(arrived.at, arrived.rank, self._position(arrived), arrived.call)
        self.last[arrived.rank] = arrived, moment
        if moment.kind == "step" and moment.position is not None:
            next_step = moment.position + 1
            self._heal(each for each in self.healing if (each.manner.heal_step or math.inf) <= next_step)
        self.lasting.arrived(arrived, moment)
        if self._is_moment(moment):
            self._strike(arrived)
        else:
            self._release(arrived.rank)

    def _is_moment(self, moment: Moment) -> bool:
        """Whether the next fault strikes now."""
        if not self.waiting or self.pending is not None or self.reference is None:
            return False
        self._armed()
        return self.waiting[0].comes(moment, world_size=self.reference.world_size, plan=self.reference)

    def _position(self, arrived: Arrived) -> int | None:
        """The true number of steps that the rank has completed; None where alignment cannot tell (yet)."""
        key = (arrived.rank, arrived.pid)
        if arrived.rank not in self.first:
            # The first life of a rank has nothing to resume from.
            self.first.add(arrived.rank)
            self.bases[key] = 0
        if self.bases.get(key) is None and arrived.record is not None and self.reference and self.index:
            step = step_of(arrived.record, 0.0)
            self.bases[key] = self.index.base_of(step, arrived.rank, likely=self.reference.saves)
        elif (position := self._rolled_back_to(arrived, self.bases.get(key))) is not None:
            self.bases[key] = position - arrived.n  # its process goes on counting
        base = self.bases.get(key)
        return base + arrived.n if base is not None else None

    def _rolled_back_to(self, arrived: Arrived, base: int | None) -> int | None:
        """The position of a rank that has read a checkpoint in mid-life and is where an earlier state of it was; None
        for any other."""
        if base is None or not (arrived.record or {}).get("loaded") or not (self.reference and self.index):
            return None
        assert arrived.record is not None
        step = step_of(arrived.record, 0.0)
        own = self.index.align(step, arrived.rank, likely=self.reference.saves)
        position = own.position
        back = (
            position is not None and position < base + arrived.n and position in (own.positions.get("model") or ())
        )
        return position if back else None

    def _armed(self) -> float:
        """Since when the next fault is armed; from now on, if it was not yet."""
        strike = self.waiting[0]
        if strike.armed is None:
            strike.armed = time.monotonic()
        return strike.armed

    def _due(self) -> float | None:
        """When the next fault is to strike, if it goes by the clock."""
        strike = self.waiting[0]
        delay = strike.fault.trigger.delay if strike.fault.trigger is not None else None
        return None if delay is None else max(self._armed() + delay, strike.retry)

    def _strike(self, arrived: Arrived | None) -> None:
        """Apply the next fault; the rank whose moment it was is held until the effect has been seen, if it may be."""
        strike = self.waiting[0]
        fault = strike.fault
        at = arrived.rank if arrived is not None else None
        if not strike.requested:
            strike.requested = True
            self.progress.phase(str(fault))
            self.writer.write("fault.requested", fault=strike.index, at=at)
        try:
            self._apply(strike, arrived)
        except LookupError as error:
            if self._due() is not None:
                # By the clock, between two incarnations: there will be somebody to strike.
                strike.retry = time.monotonic() + RETRY_EVERY
                return
            self.waiting.pop(0)
            self._missed(strike, error)
            if at is not None:
                self._release(at)
            return
        self.waiting.pop(0)
        self.lasting.begin(strike)
        strike.applied = time.monotonic()
        strike.held = at
        self.struck_launcher |= bool(getattr(fault.action, "launcher", False))
        self.writer.write("fault.applied", fault=strike.index, evidence=dict(strike.evidence))
        if fault.action.heal_after is not None:
            strike.heal_at = strike.applied + fault.action.heal_after
        if fault.action.heal_launches is not None:
            strike.heal_launch = self.launch + fault.action.heal_launches
        if {strike.heal_at, strike.heal_launch, strike.manner.heal_step} != {None}:
            self.healing.append(strike)
        if strike.manner.tick_every is not None:
            strike.tick_at = strike.applied + strike.manner.tick_every
        self.pending = strike
        # An order is carried out only once its rank is let go, and packets flow only if the ranks go on.
        if at is not None and (strike.ordered or not strike.manner.holds):
            strike.held = None
            self._release(at)
        self._look(time.monotonic())

    def _apply(self, strike: Strike, arrived: Arrived | None) -> None:
        """Strike whom it strikes now; raises LookupError where there is nobody."""
        action = strike.fault.action
        world_size = self.reference.world_size if self.reference is not None else 1
        victims = action.victims(world_size)
        # A save is not a moment to which each of them comes.
        own = arrived is not None and arrived.at in ("start", "step") and arrived.rank in victims
        if arrived is None or not own or not strike.manner.apart:
            strike.evidence = action.apply(self.env, world_size)
            return
        strike.evidence = cast(Apart, action).strike(self.env, arrived.rank, {})
        strike.owed = {*victims} - {arrived.rank}
        strike.life = arrived.launch, arrived.restart

    def _missed(self, strike: Strike, why: LookupError) -> None:
        self.lasting.begin(strike)
        self.writer.write("fault.missed", fault=strike.index, evidence={"missed": str(why)})

    def _look(self, now: float, *, whatever: bool = False, last: bool = False) -> None:
        """Has the fault that was applied taken effect? Asked when its time to be looked at has come (or `whatever` the
        time is); after the `last` look it is given up on."""
        strike = self.pending
        if strike is None or strike.applied is None or not (now >= strike.look_at or whatever or last):
            return
        if strike.owed and not (whatever or last):
            return
        try:
            seen = strike.fault.action.observed(self.env, strike.evidence)
        except LookupError as error:
            self.pending = None
            self._missed(strike, error)
            if strike.held is not None:
                self._release(strike.held)
            return
        if seen is not None:
            self.writer.write("fault.observed", fault=strike.index, evidence=dict(seen))
        within = strike.manner.observe_within or OBSERVE_WITHIN
        within = max(within, strike.fault.action.heal_after or 0.0)
        if seen is not None or last or now > strike.applied + within:
            self.pending = None
            if strike.held is not None:
                self._release(strike.held)
        elif not strike.manner.holds:
            # To look costs: at first precisely, later in proportion.
            strike.look_at = now + min(LOOK_AT_LEAST_EVERY, max(LOOK_EVERY, LOOK_SHARE * (now - strike.applied)))

    def _settle(self) -> None:
        """Wait until the fault that was applied has been seen, or given up on. One that only shows while the ranks go
        on stays as it is: there are none now."""
        while self.pending is not None and self.pending.manner.holds:
            self._look(time.monotonic())
            if self.pending is not None:
                time.sleep(LOOK_EVERY)

    def _tick(self, now: float) -> None:
        """Drive the faults that are to be driven while they last."""
        for strike in self.healing:
            every = strike.manner.tick_every
            if every is not None and now >= strike.tick_at:
                strike.evidence = cast(Driven, strike.fault.action).tick(self.env, strike.evidence)
                strike.tick_at = now + every

    def _heal(self, due: Iterable[Strike]) -> None:
        """The newest first: two that have moved the same things must move them back in turn."""
        for strike in reversed(list(due)):
            if strike is self.pending:
                self._look(time.monotonic(), last=True)
            self.healing.remove(strike)
            self.progress.phase(f"heal: {strike.fault.action}")
            evidence = strike.fault.action.heal(self.env, strike.evidence)
            self.writer.write("fault.healed", fault=strike.index, evidence=dict(evidence))

    def _release(self, rank: int) -> None:
        """Let it go on, up to where it may be wanted again."""
        coming = self.pending is not None and self.pending.manner.holds
        ending = any(each.manner.heal_step is not None for each in self.healing)
        keep = bool(self.waiting or coming or ending or self.lasting.strikes)
        arrived, moment = self.last[rank]
        if moment.position is None or self.reference is None:
            self.env.release(rank, keep_gating=keep)
            return
        ranks = self.reference.world_size
        # At its gate before a step it has come past that one.
        least = moment.position + (arrived.at == "step")
        strikes = [*self.waiting, *self.healing, *self.lasting.strikes]
        stop = next_stop(strikes, rank, world_size=ranks, least=least) if keep else 0
        # Also of one that has struck by now, at the beginning.
        names = max((each.names(least + 1) for each in self.strikes), default=0)
        self.env.release(rank, keep_gating=keep, until=max(0, stop - (moment.position - arrived.n)), names=names)


def _files(out: Path) -> list[tuple[str, int]]:
    """What lies in the job's directory now: names and sizes, at most 10,000."""
    found: list[tuple[str, int]] = []
    for directory, _, names in os.walk(out):
        for name in sorted(names):
            path = Path(directory, name)
            try:
                found.append((str(path.relative_to(out)), path.lstat().st_size))
            except FileNotFoundError:
                continue
            if len(found) == 10_000:
                return found
    return sorted(found)
