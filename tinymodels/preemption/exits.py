"""The ways in which a launch ends before the run has finished, each with its exit code."""

import os
import sys
import traceback
from typing import NoReturn


class LaunchEnd(Exception):
    """Ends the launch. Raised on all ranks or on none. Its message is one line for the person who started it."""

    code = 1

    def report(self) -> None:
        """Print the line: an error to standard error, anything else to standard output."""
        if self.code == 1:
            print(f"tinymodels.train: error: {self}", file=sys.stderr, flush=True)
        else:
            print(self, flush=True)


class Refused(LaunchEnd):
    """The run cannot go on as it is. A person has to look at it."""


class NotFinite(LaunchEnd):
    """A bad number. The next launch resumes from before it."""


class Diverged(NotFinite):
    """Numbers that must be equal on all ranks differ, so at least one of them is wrong."""


class Preempted(LaunchEnd):
    """Told to leave (SIGTERM). The state is saved, but the job is not done, and the launcher should know that."""

    code = 143  # 128 + 15: what a shell reports for a process that died of SIGTERM


class Stopped(LaunchEnd):
    """Told to stop here (--stop-after). Not a failure."""

    code = 0


def exit_at_once() -> NoReturn:
    """End the process now, without waiting for its threads. Prints the exception that is being handled."""
    if sys.exc_info()[0] is not None:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
