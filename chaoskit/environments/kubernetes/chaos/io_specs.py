"""IOChaos: slow or failing system calls on one volume of a container."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Any

from chaoskit.environments.kubernetes.api_kinds import IO_CHAOS
from chaoskit.environments.kubernetes.chaos.aim import Aim
from chaoskit.environments.kubernetes.chaos.chaos_spec import ChaosSpec, container_names, go_duration, made
from chaoskit.errors import UsageError
from chaoskit.validation import check_choices, check_errno, check_number, check_whole

#: Those that Chaos Mesh knows. Of any other word it says nothing, and injects nothing.
METHODS = (
    "lookup", "forget", "getattr", "setattr", "readlink", "mknod", "mkdir", "unlink", "rmdir", "symlink", "rename",
    "link", "open", "read", "write", "flush", "release", "fsync", "opendir", "readdir", "releasedir", "fsyncdir",
    "statfs", "setxattr", "getxattr", "listxattr", "removexattr", "access", "create", "getlk", "setlk", "bmap",
)  # fmt: skip
_LONGEST = 600.0


def io_latency(*, aim: Aim, volume: str, delay: float, seconds: float, **where: Any) -> ChaosSpec:
    """Delay each call by `delay` seconds. See `_io` for `where`."""
    check_number("io latency", "delay", delay, least=1e-6, most=_LONGEST)
    return _io("latency", aim, volume, {"delay": go_duration(delay)}, seconds, **where)


def io_fault(*, aim: Aim, volume: str, error: str, seconds: float, **where: Any) -> ChaosSpec:
    """Let each call fail with this error of Linux, such as 'ENOSPC'."""
    number = getattr(errno, check_errno("io fault", "error", error))
    return _io("fault", aim, volume, {"errno": number}, seconds, **where)


def _io(
    action: str, aim: Aim, volume: str, fields: Mapping[str, Any], seconds: float, *,
    path: str = "", methods: Sequence[str] = (), percent: int = 100, containers: Sequence[str] = (),
) -> ChaosSpec:  # fmt: skip
    """`volume` is where the volume is mounted in the container; it must be that very directory. The fault meets
    `percent` of the calls of these `methods` (none: all) to files whose path matches the pattern `path` ("": all)."""
    where = f"io {action}"
    known: dict[str, Any] = {"action": action, "volumePath": _volume(where, volume), **fields}
    if path:
        if not isinstance(path, str) or not path.startswith(f"{volume}/"):
            raise UsageError(f"{where}: path must be a pattern below the volume, such as {volume}/**/*, not {path!r}")
        known["path"] = path
    if methods or not isinstance(methods, tuple | list):
        known["methods"] = list(check_choices(where, "methods", methods, METHODS))
    known["percent"] = check_whole(where, "percent", percent, least=1, most=100)
    return made(IO_CHAOS, where, aim, {**known, **container_names(where, containers)}, seconds=seconds)


def _volume(where: str, volume: object) -> str:
    parts = volume.split("/")[1:] if isinstance(volume, str) else [""]
    if not isinstance(volume, str) or not volume.startswith("/") or not all(parts) or {".", ".."} & set(parts):
        raise UsageError(
            f"{where}: volume must be the path at which a volume is mounted in the container, such as /ckpt, not "
            f"{volume!r}"
        )
    return volume
