"""What the trainer does about bad numbers: before an update, before a save, between saves, and when it rolls back."""

from typing import Any

import torch

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.checkpoints.manifest import step_of
from tinymodels.checkpoints.state import State
from tinymodels.config import Config
from tinymodels.elasticity.collective_io import on_all_ranks
from tinymodels.elasticity.world import World
from tinymodels.metrics import Metrics
from tinymodels.numbers import inspection, postmortem
from tinymodels.numbers.guard import Guard
from tinymodels.numbers.rollback import Rollback, RollbackLog, Samples, rate_factor, skipped_steps
from tinymodels.optimizer import set_peak
from tinymodels.preemption.exits import Diverged, LaunchEnd, NotFinite, Refused


class NumberChecks:
    """The part of `Trainer` that looks at numbers. Call its methods on all ranks: all of them raise, or none."""

    data: Any  # the other parts of the trainer that it needs
    state: State
    checkpoints: Checkpoints
    metrics: Metrics

    def __init__(self, config: Config, world: World) -> None:
        self.config, self.world = config, world
        self.judge = Guard(config, world)
        self.rollback_log = RollbackLog(config.rollbacks, world)
        self.bad: list[Samples] = []  # the samples of the last steps, if all of them were bad
        self.evidence: dict[str, Any] = {}  # of the last step, for the post-mortem

    # Before an update.

    def guard(self, loss: float, norm: torch.Tensor) -> bool | None:
        """Return True if the update must be left out. A bad number that reaches the weights never goes away."""
        state, config = self.state, self.config
        if config.on_nonfinite == "off":
            return False
        problem = self.judge(state.progress.step + 1, loss, norm, state.scaler, state.memory)
        if problem is None:
            return False
        if config.on_nonfinite == "stop" and not config.rollback_after:
            raise NotFinite(problem)
        self.world.say(f"left out: {problem}")
        return True

    # Before a save, and between saves (--check-replicas, --check-finite).

    def check_between_saves(self) -> None:
        step, config = self.state.progress.step, self.config
        if config.check_replicas and step % config.check_replicas == 0:
            self.compare_replicas()
        due = config.check_finite and step % config.check_finite == 0
        if due and (found := inspection.not_finite(self.state, self.world)):
            raise NotFinite(f"after step {step} the state is not finite: {found}")

    def compare_replicas(self) -> None:
        """End the launch if the replicas differ. A replica that has diverged looks healthy from inside."""
        if self.config.check_replicas and (found := inspection.differing(self.state, self.world)):
            raise Diverged(f"after step {self.state.progress.step} the replicas are not equal: {found}")

    def check_finite(self) -> None:
        """End the launch rather than publish a checkpoint with a bad value: later launches resume from it."""
        if not self.config.allow_nonfinite_saves and (found := inspection.not_finite(self.state, self.world)):
            raise NotFinite(f"step {self.state.progress.step} is not published, as it is not finite: {found}")

    # Rollbacks.

    def read_rollbacks(self) -> frozenset[tuple[int, int]]:
        """Read the log of rollbacks. Returns the steps that this run skips."""
        self.rollback_log.read()
        return skipped_steps(self.rollback_log.rollbacks)

    def apply_rollbacks(self) -> None:
        """Skip the samples and lower the learning rate, after a resume. The checkpoint may be older than the log."""
        memory = self.state.memory
        memory.rollbacks = max(memory.rollbacks, self.rollback_log.rollbacks, key=len)
        if memory.rollbacks:
            self.data.skipped = skipped_steps(memory.rollbacks)
            set_peak(self.state.scheduler, self.config.lr * rate_factor(memory.rollbacks))

    def must_roll_back(self) -> bool:
        """Return True after too many bad steps in a row. The run must not end on a bad step."""
        allowed = 0 if self.finished() else self.config.rollback_after - 1
        return self.config.rollback_after > 0 and len(self.bad) > allowed

    def roll_back(self) -> None:
        """Return to the newest valid checkpoint in this process, and skip the samples of the bad steps."""
        step, known = self.state.progress.step, self.state.memory.rollbacks
        self.checkpoints.settle()
        on_all_ranks(self.world, self.checkpoints.wait_for_replica)  # its copies are read next
        newest = self.checkpoints.newest_valid()
        to = 0 if newest is None else step_of(newest)
        if known and known[-1].to == to:
            raise Refused(f"step {step} is bad, and it was rolled back to step {to} before: that did not help")
        self.rollback_log.write([*known, Rollback(to, tuple(self.bad), self.config.rollback_lr)])
        if newest is None:
            raise NotFinite(f"step {step} is bad, and there is no checkpoint to roll back to")
        self.world.say(f"rolling back from step {step} to {to}; bad and skipped from now on: {len(self.bad)}")
        self.bad.clear()
        self.metrics.keep()
        self.resume(newest)
        self.evaluate()  # as at the beginning of a launch

    # After the end.

    def keep_evidence(self, end: LaunchEnd) -> None:
        """Keep what each rank held, if a bad number ended the launch (--postmortem)."""
        if isinstance(end, NotFinite) and self.config.postmortem:
            postmortem.dump(self.config.dumps, self.world, self.state, self.evidence | {"why": str(end)})
