"""The files that determine the behaviour of a rank, besides its command: modules that it imports, files that it reads.

A stored reference rests on them: when one changes, the old reference proves nothing about the new program.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from hashlib import blake2b
from pathlib import Path
from typing import Any

#: Files up to this size are identified by content, larger ones by size and time of change. So are all files once this
#: much has been read: a data set of many small files is not read twice.
WHOLE, ALTOGETHER = 16 << 20, 128 << 20

_read: set[str] = set()
_outside: tuple[str, ...] = ()


def watch_files(run: Path, out: str | None) -> None:
    """Note every file that this process opens for reading, except those of the run, the interpreter and the system."""
    global _outside
    _outside = (*_system_roots(), str(run), out or str(run), "/proc/", "/sys/", "/dev/", "/tmp/chaoskit-")

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open":
            return
        path, mode, flags = arguments
        reads = mode is None or "r" in mode or not flags & os.O_ACCMODE
        if isinstance(path, str) and reads and not path.startswith(_outside) and not path.endswith(".pyc"):
            _read.add(path if path.startswith("/") else _absolute(path))

    sys.addaudithook(audit)


def sources() -> list[dict[str, Any]]:
    """Each source file and data file seen so far, with its size and fingerprint (or time of change if it is large); of
    each imported package that is installed, only the first file, which an upgrade replaces."""
    # A copy in one go: other threads go on opening files.
    paths = set(_read)
    packages = set()
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str):
            paths.add(_absolute(path))
            if "." not in name and ("site-packages" in path or "dist-packages" in path):
                packages.add(_absolute(path))
    found = [entry for path in sorted(packages) if (entry := identify(path, whole=False))]
    left = ALTOGETHER
    for path in sorted(paths):
        if not path.startswith(_outside) and (entry := identify(path, whole=left > 0)):
            found.append(entry)
            left -= entry["size"] if "hash" in entry else 0
    return found


def installed() -> list[str]:
    """The modules of installed packages that were imported so far, in this order, without chaoskit's and the user's
    own. A warm parent imports them before it is forked."""
    roots = tuple(root for root in _system_roots() if root.endswith(("site-packages/", "dist-packages/")))
    found = []
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        path = getattr(spec, "origin", None)
        if getattr(spec, "name", None) != name or not isinstance(path, str) or not path.startswith(roots):
            continue
        if name.partition(".")[0] not in ("chaoskit", "sitecustomize", "usercustomize"):
            found.append(name)
    return found


def identify(path: str, *, whole: bool = True) -> dict[str, Any] | None:
    """Identify a file by its content, or, if it is large or not `whole`, by its size and time of change; None where it
    is not a readable regular file."""
    try:
        if not os.path.isfile(path):
            return None
        status = os.stat(path)
        if not whole or status.st_size > WHOLE:
            return {"path": path, "size": status.st_size, "changed": status.st_mtime_ns}
        with open(path, "rb") as file:
            # A hash that every interpreter has: harness and rank may have different libraries.
            hasher = blake2b(file.read(), digest_size=16)
        return {"path": path, "size": status.st_size, "hash": hasher.hexdigest()}
    except OSError:
        return None


def _absolute(path: str) -> str:
    """Make the path absolute now: the job may change its directory later."""
    try:
        return os.path.abspath(path)
    except OSError:  # the current directory is gone
        return path


def _system_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    own = str(Path(__file__).resolve().parents[1])
    roots = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {own}
    roots |= {path for path in sys.path if path.endswith(("site-packages", "dist-packages"))}
    return tuple(sorted(root.rstrip(os.sep) + os.sep for root in roots))
