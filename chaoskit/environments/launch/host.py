"""A virtual host: the namespaces that a command is started in, and how a process enters them.

Standard library only: a keeper runs this file by its path, and a fork of a warm parent imports it as a module.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping
from typing import Any

#: In the order in which they are entered: only who is in the user namespace may enter the others.
KINDS = {"user": 0x10000000, "uts": 0x04000000, "net": 0x40000000, "mnt": 0x00020000}
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def enter(host: Mapping[str, Any], cwd: str) -> None:
    """Move this process, which must have a single thread, to a host, and there to `cwd`.

    `host` maps kinds of namespaces to the paths that open them. An ordinary user gives up the capabilities that
    come with a user namespace. Raises OSError.
    """
    opened = {kind: os.open(host[kind], os.O_RDONLY | os.O_CLOEXEC) for kind in KINDS if kind in host}
    try:
        for kind, fd in opened.items():
            call("setns", fd, KINDS[kind])
    finally:
        for fd in opened.values():
            os.close(fd)
    os.chdir(cwd)
    if os.geteuid() != 0:
        set_capabilities(0, inheritable=0)


def set_capabilities(permitted: int, *, inheritable: int) -> None:
    """The sets of this process, as masks; what is permitted is in effect."""
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    masks = (permitted, permitted, inheritable)
    words = [mask >> shift & 0xFFFFFFFF for shift in (0, 32) for mask in masks]
    call("capset", ctypes.create_string_buffer(header), ctypes.create_string_buffer(struct.pack("6I", *words)))


def call(name: str, *args: Any) -> int:
    """Call a function of the C library. Raises OSError if it returns -1."""
    made: int = getattr(_libc, name)(*args)
    if made == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return made
