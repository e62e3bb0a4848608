"""`OwnDescriptor`: a descriptor that is kept in a process which may close it, as a daemon closes all of them.

Its number may then be that of a file of the process. So whoever keeps one in a rank asks before each use.
"""

from __future__ import annotations

import os


class OwnDescriptor:
    """The descriptor `fd`. Raises OSError if it is not open."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._file = _file_of(fd)

    @property
    def is_ours(self) -> bool:
        """Whether it is still open, and its number not that of something else."""
        try:
            return _file_of(self.fd) == self._file
        except OSError:
            return False

    def close(self) -> None:
        """Close it, unless it was closed already."""
        if self.is_ours:
            os.close(self.fd)


def _file_of(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
