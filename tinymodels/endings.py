"""The ways in which a launch ends before its run does: on every rank alike, each with its exit code."""

import os
import sys
import traceback
from typing import NoReturn


class Ending(Exception):
    """Raised on all ranks, or on none. Its message is one line for whoever started the launch."""

    code = 1

    def tell(self) -> None:
        """One line, and on standard error if somebody has to do something about it."""
        if self.code == 1:
            print(f"tinymodels.train: error: {self}", file=sys.stderr, flush=True)
        else:
            print(self, flush=True)


class Refused(Ending):
    """A run that cannot go on as it is: a person has to look at it."""


class NotFinite(Ending):
    """A number that cannot be right: the launch that comes after resumes from before it."""


class Diverged(NotFinite):
    """Numbers that should be the same on all ranks and are not: one of them cannot be right."""


class Preempted(Ending):
    """Told to leave (SIGTERM), and saved: the job is not done, and the launcher should know."""

    code = 143  # 128 + 15, as a shell says it of whoever dies of SIGTERM


class Stopped(Ending):
    """Told to stop here (--stop-after): a rehearsal, no failure."""

    code = 0


def leave_at_once() -> NoReturn:
    """End the process now, with the exception that is being handled, and wait for none of its threads."""
    if sys.exc_info()[0] is not None:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
