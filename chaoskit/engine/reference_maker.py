"""`ReferenceMaker`: the reference of a job: the stored one, if it still holds, else a new one.

A reference consists of controls: uninterrupted runs of the job. The first is launched cold and shows what the ranks
import. It records every step, whatever `--record-every` says, so that each step of another run has its counterpart. The
second is launched warm, if that is possible and not excluded, and beside the first, if the machine has room for both
(see `SecondControl`). If the two agree to the bit, the launch makes no difference and the job is deterministic. If they
differ, a third control, launched cold, shows whether the job or the warm launch is the cause. If the job is not
deterministic, further controls measure the spread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from chaoskit import environments
from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine import launch_mode, reference_store
from chaoskit.engine.control_failure import check_control
from chaoskit.engine.execution import CONTROL_DEADLINE, execute
from chaoskit.engine.progress import Progress, quiet
from chaoskit.engine.reference_digest import digest
from chaoskit.engine.reference_store import CONTROLS
from chaoskit.engine.run_store import Store
from chaoskit.engine.second_control import SecondControl, meets_alone
from chaoskit.engine.windows import keeping
from chaoskit.engine.windows.keeping import Keeping
from chaoskit.environments.launch.mode import COLD, Mode
from chaoskit.errors import CannotWarm, ReferenceFailed
from chaoskit.job import Job


@dataclass(frozen=True, kw_only=True)
class ReferenceMaker:
    """Makes references in one environment; `launch` is `auto`, `cold` or `warm`. The second control keeps states from
    which windows may begin, if `windows` are wanted (see `keeping.WISHES`) and save time."""

    store: Store
    environment: str
    launch: str
    progress: Progress
    windows: str = "never"

    def reference(self, job: Job) -> Reference:
        """The stored reference of the job, if it still holds, else a new one, made under a lock by one process.

        Raises ReferenceFailed if the job cannot give one, CannotWarm if it must be launched warm and cannot be.
        """
        name = digest(job, launch=self.launch, environment=self.environment)
        waiting = "waiting for the reference, which another process is making"
        with reference_store.lock(self.store, name, waiting=lambda: self.progress.phase(waiting)):
            kept = reference_store.load(self.store, name)
            if kept is not None and (kept.deterministic or len(kept.controls) >= job.controls):
                return kept
            return _Making(self, job, name).make()


@dataclass(frozen=True)
class _Making:
    """The making of one reference."""

    maker: ReferenceMaker
    job: Job
    name: str

    def make(self) -> Reference:
        """Run the controls, as many as are needed, and store them."""
        begun = time.monotonic()
        planned = launch_mode.planned(self.job, environment=self.maker.environment, wish=self.maker.launch)
        # A warm launch that is demanded may use what another reference of the same program has learned.
        known = reference_store.learned_before(self.maker.store, self.job) if planned.demanded else None
        first = Mode.from_json(known) if known else COLD

        def learned() -> Mode:
            if not planned.warm:
                return planned
            return replace(first, demanded=True) if known else launch_mode.learned(planned, self._directory(0))

        with self._second_control(learned) as second:
            self._run_first(first, second, learning=not known and planned.warm)
            seconds = time.monotonic() - begun
            mode = self._join(second)
        if mode is None:
            mode = self._run_second(learned())
            seconds = (time.monotonic() - begun) / CONTROLS
        reference = self._keep(mode, seconds=seconds)
        if reference.deterministic or self.job.controls == CONTROLS:
            return reference
        count = CONTROLS
        if mode.warm and not known:
            if self._warm_launch_differs(number=count):
                return self._without_warm(reference, mode, seconds=seconds, cold=count)
            count += 1
        for number in range(count, self.job.controls):
            self._run_control(number, mode=mode)
        return self._keep(mode, seconds=seconds, controls=max(count, self.job.controls))

    def _second_control(self, mode: Callable[[], Mode]) -> SecondControl:
        """Make what runs the second control beside the first, if both can be on this machine."""
        traits = environments.environment(self.maker.environment).traits
        alone = meets_alone(self.job) or not traits.shares_ports
        quietly = replace(self, maker=replace(self.maker, progress=quiet))
        started = partial(self.maker.progress.phase, f"references 1 and 2 of {CONTROLS}, side by side")
        return SecondControl(
            self._directory(0), mode=mode, run=quietly.run_beside, started=started, possible=alone and traits.is_here
        )

    def _run_first(self, mode: Mode, second: SecondControl, *, learning: bool) -> None:
        """Run the first control. If it fails beside the second one, which may be the cause, run it again, alone."""
        try:
            self._run_control(0, mode=mode, learning=learning, watch=second)
        except ReferenceFailed:
            if second.mode is None:
                raise
            second.stop()
            self.maker.progress.phase("the first run failed beside the second: once more, alone")
            self._run_control(0, mode=mode, learning=learning)

    def _join(self, second: SecondControl) -> Mode | None:
        """Wait for the control that runs beside the first; returns how the job can be launched, or None if that control
        must be run again, alone."""
        mode = second.mode
        if mode is None:
            return None
        self.maker.progress.phase(f"reference 2 of {CONTROLS}, which began beside the first")
        status = second.status()
        if not status or not self._stands_waiting(self._directory(1), status):
            self.maker.progress.phase("the run beside the first differs from it: once more, alone")
            return None
        return launch_mode.as_launched(mode, self._directory(1)) if mode.warm else mode

    def run_beside(self, mode: Mode) -> str:
        """Run the second control while the first one trains, in a separate process. Returns its status."""
        maker, job = self.maker, self.job
        run_dir = maker.store.new_control(self.name, 1, job=job.to_json(), environment=maker.environment)
        keeps = maker.windows != "never"
        states = Keeping.beside(run_dir, self._directory(0), store=maker.store) if keeps else None
        status = self._execute(run_dir, mode=mode, states=states, record_every=job.record_every)
        if states is not None:
            states.write(maker.store, maker.progress)
        return status

    def _directory(self, number: int) -> Path:
        return self.maker.store.references / self.name / f"control-{number}"

    def _run_second(self, mode: Mode) -> Mode:
        """Run the control that shows whether a warm launch makes a difference; returns how the job can be launched."""
        try:
            run_dir = self._run_control(1, mode=mode, keep_states=True)
        except ReferenceFailed as error:
            if not mode.warm or mode.demanded:
                raise
            said = str(error).partition(", before")[0]
            mode = Mode(reason=f"its first warm launch failed: {said}")
            self._run_control(1, mode=mode, keep_states=True)
            return mode
        return launch_mode.as_launched(mode, run_dir) if mode.warm else mode

    def _warm_launch_differs(self, *, number: int) -> bool:
        """Run a third control, cold again: if it equals the first, the warm launch is the cause of the difference."""
        self._run_control(number, mode=COLD)
        return reference_store.alike(self.maker.store, self.name, 0, number)

    def _without_warm(self, reference: Reference, mode: Mode, *, seconds: float, cold: int) -> Reference:
        """The reference of the two cold controls; raises CannotWarm if a warm launch was demanded."""
        why = launch_mode.why_not_warm(reference)
        if mode.demanded:
            raise CannotWarm(f"cannot launch warm: {why}")
        reference_store.replace_control(self.maker.store, self.name, 1, by=cold)
        return self._keep(Mode(reason=why), seconds=seconds)

    def _run_control(
        self,
        number: int,
        *,
        mode: Mode,
        learning: bool = False,
        keep_states: bool = False,
        watch: SecondControl | None = None,
    ) -> Path:
        """Run the job uninterrupted; raises ReferenceFailed if it does not finish. With `keep_states`, its `{out}` is
        kept at some of the saves that the first control made, if windows are wanted."""
        maker, job = self.maker, self.job
        of = CONTROLS if number < CONTROLS else max(job.controls, number + 1)
        maker.progress.phase(f"reference {number + 1} of {of}, {'warm' if mode.warm else 'cold'}")
        run_dir = maker.store.new_control(self.name, number, job=job.to_json(), environment=maker.environment)
        states = self._states(run_dir) if keep_states else None
        every = job.record_every if number else 1
        status = self._execute(
            run_dir, mode=mode, learning=learning, states=states, record_every=every, watch=watch
        )
        if states is None:
            check_control(run_dir, status, nodes=job.nodes.most)
        elif self._stands_waiting(run_dir, status):
            states.write(maker.store, maker.progress)
        else:
            maker.progress.phase("the run whose states are kept differs from the first: once more, without")
            return self._run_control(number, mode=mode)
        return run_dir

    def _execute(
        self,
        run_dir: Path,
        *,
        mode: Mode,
        record_every: int,
        learning: bool = False,
        states: Keeping | None = None,
        watch: SecondControl | None = None,
    ) -> str:
        maker, job = self.maker, self.job
        return execute(
            run_dir,
            replace(job, relaunches=0),
            store=maker.store,
            environment=maker.environment,
            progress=maker.progress,
            deadline=job.timeout or CONTROL_DEADLINE,
            mode=mode,
            learning=learning,
            keeper=states.keeper if states is not None else None,
            watch=watch,
            record_every=record_every,
        )

    def _stands_waiting(self, run_dir: Path, status: str) -> bool:
        """Whether a control finished and equals the first one, although its ranks waited while states were kept: if a
        watchdog of the job reacts to that, the job is not to blame."""
        try:
            check_control(run_dir, status, nodes=self.job.nodes.most)
            return reference_store.alike(self.maker.store, self.name, 0, 1)
        except ReferenceFailed:
            return False

    def _states(self, run_dir: Path) -> Keeping | None:
        """Keep states of the second control, if a window can begin from them."""
        if not environments.environment(self.maker.environment).traits.is_here:
            return None
        return keeping.of_second_control(run_dir, self._directory(0), wish=self.maker.windows, store=self.maker.store)

    def _keep(self, mode: Mode, *, seconds: float, controls: int = CONTROLS) -> Reference:
        """Store the controls that were run as the reference."""
        kind = environments.environment(self.maker.environment)
        return reference_store.keep(
            self.maker.store, self.name, self.job, seconds=seconds, mode=mode.to_json(), controls=controls,
            here=lambda path: kind.path_here(self.job, path),
        )  # fmt: skip
