"""The only place that calls `ip` and `nft`: lines for them, and the counters that they report.

The tools are used instead of a netlink library: nftables has no other complete interface, every machine that runs
containers has both, a person can type the same lines, and a batch takes milliseconds. They act on the network
namespace of the caller. Standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

#: The package of Debian and its kin, and of most others, that has the tool.
PACKAGES = {"ip": "iproute2", "nft": "nftables"}
#: Ordinary users often have no sbin in their PATH.
_PLACES = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin", "/usr/local/sbin"])
_LIMIT = 30.0


class NetworkError(Exception):
    """A tool failed with this message."""


def missing() -> list[str]:
    """The packages of the tools that this machine lacks."""
    return [package for tool, package in PACKAGES.items() if shutil.which(tool, path=_PLACES) is None]


def ip(*lines: str, files: Sequence[int] = ()) -> None:
    """Run lines as they would be typed after `ip`. Raises NetworkError with the first that fails. `files` are open
    files that the lines name as /proc/self/fd/N.
    """
    _run(["ip", "-batch", "-"], "\n".join(lines) + "\n", files)


def interfaces() -> list[dict[str, Any]]:
    """The interfaces of this network namespace with their addresses, as `ip -j addr` describes them."""
    found: list[dict[str, Any]] = json.loads(_run(["ip", "-j", "addr", "show"], ""))
    return found


def routes(name: str) -> list[str]:
    """The IPv4 routes of an interface, as one types them after `ip route add`, but for those that the kernel makes."""
    lines = _run(["ip", "-4", "route", "show", "dev", name], "").splitlines()
    return [line.strip() for line in lines if line.strip() and "proto kernel" not in line]


def nft(*lines: str) -> None:
    """Run lines of nftables, all or none. Raises NetworkError."""
    _run(["nft", "-f", "-"], "\n".join(lines) + "\n")


def counters(table: str) -> dict[str, int]:
    """The named counters of a table of family inet: how many packets each has seen."""
    told = json.loads(_run(["nft", "-j", "list", "counters", "table", "inet", table], ""))
    found = (entry["counter"] for entry in told["nftables"] if "counter" in entry)
    return {str(each["name"]): int(each["packets"]) for each in found}


def _run(command: Sequence[str], text: str, files: Sequence[int] = ()) -> str:
    program = shutil.which(command[0], path=_PLACES)
    if program is None:
        raise NetworkError(f"there is no {command[0]!r}: install {PACKAGES[command[0]]}")
    try:
        done = subprocess.run(
            [program, *command[1:]], input=text, capture_output=True, text=True, timeout=_LIMIT, pass_fds=files
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise NetworkError(f"{command[0]}: {' '.join(done.stderr.split())}")
    return done.stdout
