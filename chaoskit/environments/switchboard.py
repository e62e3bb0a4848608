"""`Switchboard`: the harness's end of the line to a holder, who makes virtual hosts and runs their network."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from chaoskit.environments import network
from chaoskit.environments.servant import Refused, Servant
from chaoskit.errors import ChaoskitError, UsageError

__all__ = ["Refused", "Switchboard", "trial", "why_not"]

_HOLDER = Path(__file__).with_name("holder.py")


class Switchboard:
    """Starts a holder, which lives until `close`, or until the harness dies. Raises UsageError where this machine gives
    us no hosts, saying why and what would help."""

    def __init__(self, run_id: str) -> None:
        self._servant = Servant(_HOLDER, run_id, called="the holder of the virtual hosts")
        self._process = self._servant.process
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
        return self._servant.ask(request, **given)

    def close(self) -> None:
        """Let it go, and with it the hosts, as soon as nobody is on them."""
        self._servant.close()


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
