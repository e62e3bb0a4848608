"""The namespaces that virtual hosts are made of: how a process leaves the machine's, and holds those it is in.

Standard library only: it lives in the process that runs the network of the hosts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from chaoskit.environments.launch.host import KINDS, call, set_capabilities

#: What each host has of its own.
OWN = KINDS["uts"] | KINDS["net"] | KINDS["mnt"]
_AMBIENT, _RAISE = 47, 2
_NET_ADMIN, _NET_RAW, _SYS_ADMIN = 12, 13, 21


def opened(kinds: Sequence[str]) -> dict[str, int]:
    """The namespaces that this process is in now, held open."""
    return {kind: os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds}


def unshare() -> bool:
    """Leave the machine's namespaces; whether that took a user namespace. Raises OSError."""
    try:
        call("unshare", OWN)
        return False
    except PermissionError:
        pass
    uid, gid = os.geteuid(), os.getegid()
    call("unshare", KINDS["user"])
    for name, text in (("uid_map", f"{uid} {uid} 1"), ("setgroups", "deny"), ("gid_map", f"{gid} {gid} 1")):
        Path("/proc/self", name).write_text(text)
    call("unshare", OWN)
    if uid:
        # What an ordinary user executes loses its capabilities, unless they are ambient: ip and nft need these.
        wanted = (_NET_ADMIN, _NET_RAW, _SYS_ADMIN)
        everything = (1 << int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1) - 1
        set_capabilities(everything, inheritable=sum(1 << number for number in wanted))
        for number in wanted:
            call("prctl", _AMBIENT, _RAISE, number, 0, 0)
    return True
