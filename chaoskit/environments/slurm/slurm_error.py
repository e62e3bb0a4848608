"""`SlurmError`: a command of Slurm failed, or said something that cannot be read."""

from __future__ import annotations

from chaoskit.errors import ChaoskitError


class SlurmError(ChaoskitError):
    """`program` is the command, and `said` what it wrote."""

    def __init__(self, message: str, *, program: str, said: str = "") -> None:
        super().__init__(message)
        self.program = program
        self.said = said


class ForeignJob(ChaoskitError):
    """A job of Slurm that does not belong to this run. chaoskit does nothing to it."""
