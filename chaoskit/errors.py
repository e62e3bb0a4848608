"""The public vocabulary of trouble: exit codes, diagnosis codes, exceptions.

Nothing here imports anything: the probe, the checks and the command line all speak these words.
`docs/codes.md` says the same for people; a test keeps the two equal.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What `chaoskit` returns to the shell."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    INCONCLUSIVE = 3
    INTERNAL = 4
    INTERRUPTED = 130


#: Every code of diagnosis and the one sentence that it stands for. Codes may join; none changes its meaning.
CODES: dict[str, str] = {
    # state
    "model-not-restored": "The parameters after the resume are not those of the checkpoint.",
    "buffers-not-restored": "The buffers after the resume are not those of the checkpoint.",
    "optimizer-not-restored": "The optimizer's moments or step counts are not those of the checkpoint.",
    "options-not-restored": "An option of a parameter group (weight decay, betas) is not that of the step.",
    "lr-schedule-off": "The learning rate after the resume is not the one that belongs to the step.",
    "scaler-not-restored": "The gradient scaler is not that of the checkpoint.",
    "ema-not-restored": "The averaged copy of the model is not that of the checkpoint.",
    "rng-not-restored": "A random stream is not the one that an uninterrupted run has at that step.",
    "extra-state-not-restored": "Something else in the checkpoint (a counter, a table) is not what it should be.",
    # data
    "data-replayed": "Batches that had been consumed before the checkpoint come again.",
    "data-skipped": "Batches that come after the checkpoint are never consumed.",
    "data-reordered": "The batches after the resume are others than the reference consumed, or in another order.",
    "global-batch-changed": "A step consumed more or fewer samples, over all ranks, than it should.",
    # checkpoint
    "restarted-from-scratch": "The job began again at its first step although a checkpoint was due.",
    "stale-checkpoint": "The job resumed from a checkpoint older than the last valid one.",
    "corrupt-accepted": "The job resumed from a checkpoint that was not what had been saved.",
    "torn-checkpoint": "The resume crashes or hangs on a save that the fault left unfinished, or on damaged files.",
    "checkpoint-lost": "The last valid checkpoint was destroyed by retention or by a failed save.",
    "checkpoint-not-durable": "A power cut would lose the checkpoint that the job counts on.",
    "poisoned-checkpoint": "A checkpoint that holds not-a-number was saved.",
    "debris-left": "What interrupted saves leave behind piles up from launch to launch.",
    "disk-use-grows": "After interruptions the job keeps more on the disk than a usual run and one checkpoint more.",
    # liveness
    "hang": "The job made no end before its deadline.",
    "crash-loop": "The job never came back within its budget of relaunches.",
    "exited-early": "The job ended without its last step.",
    "orphans": "Processes of the job outlived its launcher.",
    "needless-restart": "The job restarted for a fault that it should have waited out.",
    "slow-recovery": "The job came back later, or lost more steps, than the limit that was set.",
    # trajectory
    "loss-diverged": "Every component is aligned with the reference and the losses still differ.",
    "ranks-diverged": "Replicas that are equal in the reference are not equal in the run.",
    "nonfinite-accepted": "A loss that is not a number was trained on.",
    "corruption-accepted": "A wrong number was trained on, and nobody noticed in time.",
    "corruption-saved": "A number that a fault had made wrong got into a checkpoint.",
    "corruption-spread": "A number that a fault had made wrong on one rank made others wrong.",
    "log-wrong": "The training is right and the job's own log is wrong.",
    # inconclusive
    "fault-not-observed": "The fault was never seen to take effect, so nothing was tested.",
    "not-deterministic": "Two uninterrupted runs differ, so equality to the bit cannot be judged.",
    "probe-blind": "The probe could not see what the check needs.",
    "reference-failed": "The uninterrupted run itself failed, so there is nothing to compare with.",
}


class ChaoskitError(Exception):
    """Base of what chaoskit raises on purpose; `exit_code` is what the command line returns for it."""

    exit_code = ExitCode.INTERNAL


class UsageError(ChaoskitError):
    """An argument, a command or a name that cannot be used; the message names it and the remedy."""

    exit_code = ExitCode.USAGE


class CannotWarm(UsageError):
    """A command that only fresh processes can stand for, although warm launches were demanded; says why."""


class ParentLost(CannotWarm):
    """A warm parent died, or does not answer."""


class TooFewNodes(ChaoskitError):
    """A job whose nodes are lost for good: fewer are left than it needs, and none will come."""


class StoreError(ChaoskitError):
    """A stored run that cannot be read or written: truncated, of another version, not ours, disk full."""

    def __init__(self, message: str, *, path: str = "", exit_code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.path = path
        self.exit_code = exit_code


class MissingCapability(ChaoskitError):
    """The environment cannot do what a fault needs; the experiment is skipped with this reason."""

    exit_code = ExitCode.INCONCLUSIVE

    def __init__(self, message: str, *, capability: str, remedy: str) -> None:
        super().__init__(message)
        self.capability = capability
        self.remedy = remedy


class ReferenceFailed(ChaoskitError):
    """The uninterrupted run gave no reference. `code` says why: `reference-failed` or `probe-blind`."""

    exit_code = ExitCode.INCONCLUSIVE

    def __init__(self, message: str, *, code: str = "reference-failed", run: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.run = run


class Undecided(ChaoskitError):
    """Something that cannot be told of this job, at least not so; `code` says why."""

    exit_code = ExitCode.INCONCLUSIVE

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class CheckFailed(AssertionError):
    """At least one check of `Run.verify` failed. `verdicts` holds all of them, `run` the directory."""

    def __init__(self, message: str, *, verdicts: tuple[object, ...] = (), run: str = "") -> None:
        super().__init__(message)
        self.verdicts = verdicts
        self.run = run


class Inconclusive(CheckFailed):
    """No check failed, but at least one could not be decided; it is not a pass."""
