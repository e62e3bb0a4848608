"""`FileOwners`: lets the user of the image and the user who runs chaoskit write to the files of one run."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.errors import UsageError
from chaoskit.files.private import open_directory

#: Of the directory of a run, what a job writes to.
PARTS = ("out", "events", "logs")


class FileOwners:
    """The files of a `run` whose job runs as user `uid`. `take` has that user open files below these directories to
    everybody; it is an agent that does so."""

    def __init__(self, run: MachineRun, uid: int, take: Callable[[list[str]], object]) -> None:
        self.uid = uid
        self._run = run
        self._take = take
        #: The user of the image is neither root nor our user, and may not open our files.
        self.is_closed_to_job = uid not in (0, os.geteuid())
        #: We are not root, nor the user of the image: what the job writes is closed to us.
        self.is_closed_to_us = os.geteuid() not in (0, uid)

    @property
    def parts(self) -> list[Path]:
        """The directories that the job writes to."""
        return [self._run.spec.out.absolute(), *(self._run.run_dir / part for part in PARTS[1:])]

    def open(self, *, to_helpers: bool = False) -> None:
        """Let the job write to its directories until the end of the run. `to_helpers`: let helpers in containers reach
        the run as well; each is root without the right to pass over the modes of files. Raises UsageError."""
        if not (self.is_closed_to_job or (to_helpers and os.geteuid() != 0)):
            return
        run_dir, store = self._run.run_dir, self._run.spec.store
        try:
            for above in run_dir.parents:
                if store is not None and above.is_relative_to(store.absolute()):
                    # For good, since other runs need it too. Only we can list the names in it.
                    open_directory(above, 0o011)
            self._run.keep(open_directory(run_dir, 0o055 if self.is_closed_to_job else 0o011))
            for place in self.parts if self.is_closed_to_job else ():
                self._run.keep(open_directory(place, 0o077))
        except OSError as error:
            raise UsageError(f"cannot let another user write to the run's directory: {error}") from error

    def give(self, root: Path | None = None) -> None:
        """Let the job write to files that we have made or changed in its `{out}`, as a fault that damages checkpoints
        does, or below another directory."""
        if not self.is_closed_to_job:
            return
        for directory, _, names in os.walk(root or self._run.spec.out):
            for path in (directory, *(os.path.join(directory, name) for name in names)):
                with suppress(OSError):
                    about = os.lstat(path)
                    if about.st_uid == os.geteuid() and not stat.S_ISLNK(about.st_mode):
                        self._give(path, about.st_mode)

    def _give(self, path: str, mode: int) -> None:
        if os.geteuid() == 0:
            os.chown(path, self.uid, -1)
        else:
            os.chmod(path, mode & 0o7777 | (0o777 if stat.S_ISDIR(mode) else 0o666))

    def take(self) -> None:
        """Let us change and remove what the job has written."""
        if self.is_closed_to_us:
            self._take([str(part) for part in self.parts])
