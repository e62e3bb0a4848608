"""IOChaos for real: a file system of chaoskit's is mounted over a volume of a pod, as that of Chaos Mesh is.

The volume must be at the same path on this machine. It needs root.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from chaoskit.capabilities import InjectedIOError
from chaoskit.environments.fusefs.storage import Storage
from chaoskit.environments.kubernetes.chaos.pod_storage import METHODS
from chaoskit.errors import ChaoskitError

Json = dict[str, Any]
#: Shows a directory of this machine at a path of another mount namespace; without one, takes it away from there.
SHOW = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *words):
    found = libc.syscall(number, *words)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found
space, path, directory = sys.argv[1:]
OPEN_TREE, MOVE_MOUNT, SETNS, UMOUNT2 = 428, 429, 308, 166
tree = call(OPEN_TREE, -100, os.fsencode(directory), 1 | os.O_CLOEXEC) if directory else -1
call(SETNS, os.open(space, os.O_RDONLY), 0x20000)
if directory:
    call(MOVE_MOUNT, tree, b"", -100, os.fsencode(path), 4)
else:
    call(UMOUNT2, os.fsencode(path), 2)
"""


def fail_requests(spec: Json, pids: list[int]) -> Callable[[], None]:
    """Let requests fail in the mount namespaces of these processes. Raises OSError for what is not possible here."""
    if spec["action"] != "fault" or spec.get("percent", 100) != 100:
        raise OSError(f"IOChaos {spec['action']} is not possible here")
    volume = spec["volumePath"]
    if not spec["path"].endswith("/**/*"):
        raise OSError(f"the path {spec['path']} is not possible here")
    below = os.path.relpath(spec["path"].removesuffix("/**/*"), volume)
    methods = set(spec.get("methods") or [one for each in METHODS.values() for one in each])
    kinds = tuple(kind for kind, own in METHODS.items() if methods & {*own})
    trouble = InjectedIOError(
        operations=kinds, files="*" if below == "." else f"{below}/*", error=errno.errorcode[spec["errno"]]
    )
    with ExitStack() as made:
        for pid in pids:
            place = Path(made.enter_context(tempfile.TemporaryDirectory(prefix="io-chaos-")))
            (place / "at").mkdir()
            try:
                storage = Storage(
                    f"io-{pid}", out=place / "at", run_dir=place, source=Path(volume),
                    within={"mnt": f"/proc/{os.getpid()}/ns/mnt"},
                )  # fmt: skip
                made.callback(storage.close)
                storage.fail(trouble)
            except ChaoskitError as error:
                raise OSError(str(error)) from error
            _show(pid, volume, str(place / "at"))
            made.callback(_hide, pid, volume)
        return made.pop_all().close


def _show(pid: int, path: str, directory: str) -> None:
    words = [sys.executable, "-I", "-S", "-c", SHOW, f"/proc/{pid}/ns/mnt", path, directory]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise OSError(done.stderr.strip().splitlines()[-1])


def _hide(pid: int, path: str) -> None:
    try:
        _show(pid, path, "")
    except OSError:
        if os.path.exists(f"/proc/{pid}/root/"):  # what is mounted in a pod ends with it
            raise
