"""`NetnsClient`: the harness's connection to the netns helper, which makes virtual hosts and runs their network."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from chaoskit.environments.machine.helper_process import HelperProcess, HelperRefused
from chaoskit.environments.netns import network
from chaoskit.errors import ChaoskitError, UsageError
from chaoskit.files.removal import remove

__all__ = ["HelperRefused", "NetnsClient", "trial", "why_not"]

#: Seconds for a socket that was sent to arrive.
_HANDING_OVER = 10.0
_SCRIPT = Path(__file__).with_name("netns_helper.py")


class NetnsClient:
    """Starts a netns helper, which runs until `close`, or until the harness dies. Raises UsageError if this machine
    cannot provide virtual hosts, with the reason and the remedy.
    """

    def __init__(self, run_id: str) -> None:
        self._helper = HelperProcess(_SCRIPT, run_id, called="the netns helper")
        self._process = self._helper.process
        try:
            begun = self.ask("begin")
        except BaseException as error:
            self.close()
            if isinstance(error, HelperRefused):
                raise UsageError(why_not(error)) from error
            raise

        #: A file system that is mounted in these namespaces appears on every host.
        self.within: dict[str, str] = begun["within"]

    def ask(self, request: str, **given: Any) -> Any:
        """Call a method of `chaoskit.environments.netns.hosts.Hosts` in the helper; returns its result.

        Raises HelperRefused if the method failed, ChaoskitError if the helper has ended.
        """
        return self._helper.ask(request, **given)

    def listener(self, name: str, address: str, port: int, *, directory: Path) -> socket.socket:
        """A socket that is bound to an address of that host alone (see `Hosts.listen`). `directory` is one that this
        process may make a file in.

        Raises HelperRefused if the host cannot have it, ChaoskitError if the helper has ended.
        """
        path = directory / "handed-over"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.bind(str(path))
            try:
                door.listen(1)
                door.settimeout(_HANDING_OVER)
                self.ask("listen", name=name, address=address, port=port, hand_to=str(path))
                line, _ = door.accept()
                with line:
                    _, (fd,), *_ = socket.recv_fds(line, 1, 1)
            finally:
                remove(path, within=directory)
        return socket.socket(fileno=fd)

    def close(self) -> None:
        """End the helper. The hosts disappear when no process is left on them."""
        self._helper.close()


@cache
def trial() -> str | None:
    """None if this machine can provide virtual hosts that reach each other, else the reason and the remedy."""
    if missing := network.missing():
        packages = " ".join(missing)
        return (
            f"it needs {' and '.join(missing)}: apt-get install {packages}, or the package of that name on your system"
        )
    try:
        client = NetnsClient("trial")
    except ChaoskitError as error:
        return str(error)
    try:
        for number in range(2):
            client.ask("add", name=f"node{number}", number=number, names="/etc/hosts")
        client.ask("cut", ways=[("node0", "node1")], how="drop", percent=100)
        if not client.ask("reaches", source="node1", target="node0"):
            return "virtual hosts on one bridge cannot reach each other: does a firewall drop bridged packets?"
        if client.ask("reaches", source="node0", target="node1"):
            return "nftables accepts rules here but does not apply them: use another kernel"
        return None
    except ChaoskitError as error:
        return str(error)
    finally:
        client.close()


#: Settings that forbid namespaces to ordinary users: the file, its content in that case, and the remedy.
_SETTINGS = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor restricts the user namespaces of ordinary users (Ubuntu 23.10 and newer): "
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


def why_not(error: HelperRefused, *, settings: Mapping[str, str] | None = None) -> str:
    """Why namespaces cannot be made, from the error and the machine's `settings` (read if not given), and the
    remedy.
    """
    found = _settings(name for name, _, _ in _SETTINGS) if settings is None else settings
    if error.number in (errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EUSERS):
        for name, forbids, advice in _SETTINGS:
            if found.get(name) == forbids:
                return advice
        if error.number in (errno.ENOSPC, errno.EUSERS):
            return f"this machine has no more namespaces ({error}): raise user.max_net_namespaces (sudo sysctl)"
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
