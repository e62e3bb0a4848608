"""Carries out operations on files where it stands, as JSON lines on its standard input ask for, and says what came of
each: a value, or the name of an error. `{"do": name, ...}` are methods of `Actor`. Standard library only.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import sys


class Actor:
    def __init__(self):
        self.open_files = {}

    def open(self, slot, path, flags, mode=0o644):
        self.close(slot)
        self.open_files[slot] = os.open(path, flags, mode)

    def close(self, slot):
        if slot in self.open_files:
            os.close(self.open_files.pop(slot))

    def close_all(self):
        for slot in list(self.open_files):
            self.close(slot)

    def write(self, slot, text, times=1, at=None):
        data = text.encode() * times
        fd = self.open_files[slot]
        return os.write(fd, data) if at is None else os.pwrite(fd, data, at)

    def read(self, slot, size, at):
        return os.pread(self.open_files[slot], size, at).decode("latin-1")

    def mapped_write(self, slot, text, at):
        fd = self.open_files[slot]
        size = os.fstat(fd).st_size
        with mmap.mmap(fd, size) as made:
            data = text.encode()[: max(0, size - at)]
            made[at : at + len(data)] = data
            made.flush()

    def ftruncate(self, slot, size):
        os.ftruncate(self.open_files[slot], size)

    def fallocate(self, slot, size):
        os.posix_fallocate(self.open_files[slot], 0, size)

    def truncate(self, path, size):
        os.truncate(path, size)

    def fsync(self, slot):
        os.fsync(self.open_files[slot])

    def fchmod(self, slot, mode):
        os.fchmod(self.open_files[slot], mode)

    def fstat(self, slot):
        found = os.fstat(self.open_files[slot])
        return [found.st_size, found.st_nlink, oct(found.st_mode)]

    def fsync_directory(self, path):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def chmod(self, path, mode):
        os.chmod(path, mode)

    def utime(self, path, times):
        os.utime(path, tuple(times))
        return os.stat(path).st_mtime

    def mkdir(self, path):
        os.mkdir(path)

    def rmdir(self, path):
        os.rmdir(path)

    def unlink(self, path):
        os.unlink(path)

    def rename(self, path, to):
        os.rename(path, to)

    def link(self, path, to):
        os.link(path, to)

    def symlink(self, path, to):
        os.symlink(to, path)

    def readlink(self, path):
        return os.readlink(path)

    def stat(self, path):
        found = os.lstat(path)
        return [found.st_size if not os.path.isdir(path) else None, found.st_nlink, oct(found.st_mode)]

    def list(self, path):
        return sorted(os.listdir(path))

    def exists(self, path):
        return os.path.exists(path)

    def space(self):
        found = os.statvfs(".")
        return [found.f_bfree, found.f_bavail]

    def setsid(self):
        os.setsid()


if __name__ == "__main__":
    actor = Actor()
    for line in sys.stdin:
        told = json.loads(line)
        try:
            answer = {"done": getattr(actor, told.pop("do"))(**told)}
        except OSError as error:
            answer = {"failed": errno.errorcode[error.errno]}
        except (KeyError, ValueError) as error:
            answer = {"failed": type(error).__name__}
        print(json.dumps(answer), flush=True)
