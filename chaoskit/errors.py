"""The public vocabulary of errors: exit codes, codes of diagnosis, exceptions.

This module imports nothing of chaoskit, so every other module may use it. `docs/reference/codes.md` is made of it.
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
    EXHAUSTED = 5
    INTERRUPTED = 130


#: What each exit code says to the shell.
EXIT_MEANINGS: dict[ExitCode, str] = {
    ExitCode.PASS: "every verdict is a pass, or all that was lost is accepted",
    ExitCode.FAIL: "at least one verdict is a fail",
    ExitCode.USAGE: (
        "usage error: a command, an option or a name cannot be used; nothing was run, nothing was lost"
    ),
    ExitCode.INCONCLUSIVE: (
        "nothing failed, but at least one verdict is inconclusive (a skipped run counts, too)"
    ),
    ExitCode.INTERNAL: (
        "an error inside chaoskit, or its environment failed: the Docker daemon has gone, a cluster does not answer"
    ),
    ExitCode.EXHAUSTED: (
        "this machine has run out of something: the disk is full, memory is gone, or a process of chaoskit was killed; "
        "experiments that had ended keep their results"
    ),
    ExitCode.INTERRUPTED: "interrupted",
}

#: By family, every code of diagnosis and the one sentence that it stands for. New codes may join; none changes its
#: meaning.
_BY_FAMILY: dict[str, dict[str, str]] = {
    "state": {
        "model-not-restored": "The parameters after the resume differ from those in the checkpoint.",
        "buffers-not-restored": "The buffers after the resume differ from those in the checkpoint.",
        "optimizer-not-restored": (
            "The optimizer's moments or step counts after the resume differ from those in the checkpoint."
        ),
        "options-not-restored": (
            "An option of a parameter group (weight decay, betas) has the wrong value for the step."
        ),
        "lr-schedule-off": "The learning rate after the resume is wrong for the step.",
        "scaler-not-restored": "The gradient scaler after the resume differs from that in the checkpoint.",
        "ema-not-restored": "The averaged copy of the model differs from that in the checkpoint.",
        "rng-not-restored": "A random stream differs from that of an uninterrupted run at the same step.",
        "rng-unused-not-restored": (
            "A random stream was not restored, and no loss and no batch of the run depended on it: a weakness."
        ),
        "extra-state-not-restored": "Something else in the checkpoint (a counter, a table) has the wrong value.",
    },
    "data": {
        "data-replayed": (
            "After the resume the job consumed batches again that it had consumed before the checkpoint."
        ),
        "data-skipped": "The job never consumed some batches that come after the checkpoint.",
        "data-reordered": (
            "After the resume the job consumed different batches from the reference, or the same ones in a different "
            "order."
        ),
        "data-differs": (
            "After the resume the job consumed batches that the uninterrupted run never has, and which rows of the "
            "data they are of cannot be determined."
        ),
        "global-batch-changed": "A step consumed the wrong number of samples, counted over all ranks.",
    },
    "checkpoint": {
        "restarted-from-scratch": (
            "The job restarted at its first step although there was a checkpoint to resume from."
        ),
        "stale-checkpoint": "The job resumed from a checkpoint older than the last valid one.",
        "corrupt-accepted": "The job resumed from a checkpoint whose contents are not those that it saved.",
        "checkpoint-unfaithful": (
            "A save holds other values than the run held at that step, so a resume from it continues with those."
        ),
        "torn-checkpoint": (
            "The resume crashes or hangs on a save that the fault left unfinished, or on damaged files."
        ),
        "checkpoint-lost": "Retention or a failed save destroyed the last valid checkpoint.",
        "checkpoint-not-durable": "A power cut would lose the checkpoint that the job relies on.",
        "poisoned-checkpoint": "The job saved a checkpoint that contains NaN or infinity.",
        "unpickles-freely": (
            "A resume unpickles a file of the checkpoint without restriction, so whoever can write the file can run "
            "code in the job."
        ),
        "grace-too-short": (
            "An evicted node was killed at the end of its grace, inside a save that the job had begun after SIGTERM."
        ),
        "no-emergency-checkpoint": (
            "The job learnt that its node would be taken away, and began no save before that."
        ),
        "emergency-too-late": "The save that a notice of preemption called for was not settled in time.",
        "emergency-torn": (
            "After a notice of preemption some ranks saved and others did not, or not after the same step."
        ),
        "debris-left": "Leftovers of interrupted saves accumulate from launch to launch.",
        "disk-use-grows": "After interruptions the job keeps more on disk than a usual run plus one checkpoint.",
    },
    "liveness": {
        "hang": "The job did nothing for long while its stacks did not change, or did not finish before its deadline.",
        "crash-loop": "The job did not recover within its limit of relaunches.",
        "failure-policy-final": (
            "The failure policy of the job's controller takes an exit code as final from which the job could recover."
        ),
        "restart-budget-spent": "The job's controller had no restart left before the job had recovered.",
        "exited-early": "The job ended before its last step.",
        "orphans": "Processes of the job outlived its launcher.",
        "needless-restart": "The job restarted because of a fault that it should have waited out.",
        "notice-ignored": (
            "The job never learnt that its node would be taken away, or went on as if it had not been told."
        ),
        "slow-recovery": "The job recovered later, or lost more steps, than the limit allows.",
        "straggler-unnoticed": "One of the ranks was slow, and the job did not say so and did not act.",
    },
    "trajectory": {
        "loss-diverged": "Every component agrees with the reference and the losses still differ.",
        "ranks-diverged": "Replicas that are equal in the reference differ in the run.",
        "nonfinite-accepted": "The job trained on a loss that is NaN or infinite.",
        "corruption-accepted": "The job trained on a corrupted number and did not detect it in time.",
        "corruption-saved": "The job saved a number that a fault had corrupted.",
        "corruption-spread": "A number that a fault corrupted on one rank corrupted other ranks.",
        "log-wrong": "The training is right and the job's own log is wrong.",
    },
    "inconclusive": {
        "nothing-to-resume": "The job never had a valid checkpoint to resume from, so no resume was tested.",
        "fault-not-observed": "The fault was not observed to take effect, so nothing was tested.",
        "not-deterministic": "Two uninterrupted runs differ, so bitwise equality cannot be judged.",
        "probe-blind": "The probe could not see something that the check needs.",
        "window-wrong": (
            "An experiment was run in a window and whole, and the two verdicts differ, so windows of this job prove "
            "nothing."
        ),
        "reference-failed": "The uninterrupted run itself failed, so there is nothing to compare with.",
        "reference-nonfinite": (
            "The uninterrupted run itself trains on NaN or infinity, so there is nothing to compare with."
        ),
    },
}

#: Every code of diagnosis, and its sentence.
CODES: dict[str, str] = {code: text for family in _BY_FAMILY.values() for code, text in family.items()}
#: The codes of a weakness: a guard is missing, and nothing was lost or changed in the run that shows it. All others are
#: problems.
WEAKNESSES = frozenset({"rng-unused-not-restored", "needless-restart", "straggler-unnoticed", "unpickles-freely"})
#: The family of each code.
FAMILIES: dict[str, str] = {code: family for family, codes in _BY_FAMILY.items() for code in codes}


class ChaoskitError(Exception):
    """Base of the errors that chaoskit raises on purpose. The command line returns their `exit_code`."""

    exit_code = ExitCode.INTERNAL


class UsageError(ChaoskitError):
    """An argument, a command or a name that cannot be used. The message names it and says what to do."""

    exit_code = ExitCode.USAGE


class CannotWarm(UsageError):
    """Warm launches were required, and this command can only start in fresh processes. The message says why."""


class ParentLost(CannotWarm):
    """A warm parent died, or does not answer."""


class TooFewNodes(ChaoskitError):
    """Nodes were lost for good: fewer are left than the job needs, and none will come."""


class SupervisorGaveUp(ChaoskitError):
    """The controller of the job, such as that of Kubernetes' Jobs, starts nothing again. `reason` is its own word, and
    `code` the diagnosis."""

    def __init__(self, message: str, *, reason: str, code: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.code = code


class StoreError(ChaoskitError):
    """A stored run that cannot be read or written: truncated, of another version, not of chaoskit, disk full."""

    def __init__(self, message: str, *, path: str = "", exit_code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.path = path
        self.exit_code = exit_code


class MissingCapability(ChaoskitError):
    """The environment lacks a capability that a fault needs. The experiment is skipped for this reason."""

    exit_code = ExitCode.INCONCLUSIVE

    def __init__(self, message: str, *, capability: str, remedy: str) -> None:
        super().__init__(message)
        self.capability = capability
        self.remedy = remedy


class ReferenceFailed(ChaoskitError):
    """The uninterrupted run gave no reference. `code` is `reference-failed`, `reference-nonfinite` or
    `probe-blind`; `advice` is what to change, where that is known better than by the code."""

    exit_code = ExitCode.INCONCLUSIVE

    def __init__(self, message: str, *, code: str = "reference-failed", run: str = "", advice: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.run = run
        self.advice = advice


class Undecided(ChaoskitError):
    """A question that cannot be decided for this job, at least not this way. `code` says why."""

    exit_code = ExitCode.INCONCLUSIVE

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class CheckFailed(AssertionError):
    """At least one check of `Run.verify` failed. `verdicts` has all verdicts, `run` is the directory of the run."""

    def __init__(self, message: str, *, verdicts: tuple[object, ...] = (), run: str = "") -> None:
        super().__init__(message)
        self.verdicts = verdicts
        self.run = run


class Inconclusive(CheckFailed):
    """No check failed, and at least one could not be decided. That is not a pass."""
