"""`Switchboard`: the harness's end of the line to a holder, who makes virtual hosts and runs their network."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from chaoskit.environments import network
from chaoskit.errors import ChaoskitError, UsageError
from chaoskit.launch.lines import Lines

_HOLDER = Path(__file__).with_name("holder.py")
_LIMIT = 60.0


class Refused(ChaoskitError):
    """The holder could not do it; `number` is the errno, if there was one."""

    def __init__(self, message: str, *, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


class Switchboard:
    """Starts a holder, which lives until `close`, or until the harness dies. Raises UsageError where this machine gives
    us no hosts, saying why and what would help."""

    def __init__(self, run_id: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_HOLDER), run_id],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                start_new_session=True,
            )
        self._line = ours
        self._lines = Lines(ours)
        try:
            self.ask("begin")
        except BaseException as error:
            self.close()
            if isinstance(error, Refused):
                raise UsageError(why_not(error)) from error
            raise

    def ask(self, request: str, **given: Any) -> Any:
        """A method of `chaoskit.environments.hosts.Hosts`, carried out by the holder; what it returns.

        Raises Refused if it could not be done, ChaoskitError if the holder is gone.
        """
        try:
            self._lines.say({"do": request, **given}, limit=_LIMIT)
            said = self._lines.hear(_LIMIT)
        except OSError as error:
            raise ChaoskitError(
                f"the holder of the virtual hosts is gone, or silent: {self._last_words()}"
            ) from error
        if "failed" in said:
            raise Refused(said["failed"], number=said.get("errno"))
        return said["done"]

    def close(self) -> None:
        """Let it go, and with it the hosts, as soon as nobody is on them."""
        self._line.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            _, said = self._process.communicate(timeout=1)
            return (
                said.decode(errors="replace").strip().rpartition("\n")[2]
                or f"exit code {self._process.returncode}"
            )
        return "it still runs"


@cache
def trial() -> str | None:
    """None where this machine gives us virtual hosts that reach one another, else why not and what would help."""
    if missing := network.missing():
        return (
            f"it needs {' and '.join(missing)}: apt-get install {' '.join(missing)}, or what your system calls it"
        )
    try:
        board = Switchboard("trial")
    except ChaoskitError as error:
        return str(error)
    try:
        for number in range(2):
            board.ask("add", name=f"node{number}", number=number, names="/etc/hosts")
        board.ask("cut", ways=[("node0", "node1")], how="drop", percent=100)
        if not board.ask("reaches", source="node1", target="node0"):
            return "two hosts on one bridge do not hear each other: does a firewall drop what crosses a bridge?"
        if board.ask("reaches", source="node0", target="node1"):
            return "nftables takes rules here but does not heed them: run it on another kernel"
        return None
    except ChaoskitError as error:
        return str(error)
    finally:
        board.close()


#: Settings that forbid an ordinary user to have namespaces: the file, what it then says, and how to change it.
_SETTINGS = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor forbids ordinary users what they need of a user namespace (Ubuntu 23.10 and newer): "
        "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or run as root",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "ordinary users may not make user namespaces (a setting of Debian's kernels): "
        "sudo sysctl kernel.unprivileged_userns_clone=1, or run as root",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "no user namespaces are allowed on this machine: sudo sysctl user.max_user_namespaces=10000, or run as root",
    ),
)


def why_not(error: Refused, *, settings: Mapping[str, str] | None = None) -> str:
    """What forbids namespaces, told by the error that came of making them and the settings of this machine, which are
    read where none are given."""
    found = _settings(name for name, _, _ in _SETTINGS) if settings is None else settings
    if error.number in (errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EUSERS):
        for name, forbids, advice in _SETTINGS:
            if found.get(name) == forbids:
                return advice
        if error.number in (errno.ENOSPC, errno.EUSERS):
            return f"no more namespaces are to be had ({error}): raise user.max_net_namespaces (sudo sysctl)"
        return (
            f"namespaces are forbidden here ({error}): start a container with --security-opt seccomp=unconfined, "
            "or as one that may use user namespaces"
        )
    if error.number in (errno.EINVAL, errno.ENOSYS):
        return f"the kernel has no user or network namespaces ({error}): use one that is built with them"
    return str(error)


def _settings(names: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in names:
        with suppress(OSError):
            found[name] = Path(name).read_text().strip()
    return found
