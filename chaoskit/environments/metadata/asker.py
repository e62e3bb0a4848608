"""Which process of the job is at the other end of a connection to a metadata service."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from chaoskit.environments.machine import processes, tcp_connections
from chaoskit.environments.machine.processes import Process
from chaoskit.environments.records.ranks import Rank

#: How many parents up a rank may be.
_GENERATIONS = 8


def process_of(port: int, among: Iterable[Process]) -> int | None:
    """The pid, among processes that share a network, of the one with a connection from that port; None if there is
    none, or it is another user's."""
    found = list(among)
    inodes = {one.inode for one in _connections(found) if one.local_port == port and one.inode}
    sockets = {f"socket:[{inode}]" for inode in inodes}
    return next(
        (process.pid for process in found if sockets and not sockets.isdisjoint(_files(process.pid))), None
    )


def line_of(port: int, among: Iterable[Process]) -> list[int]:
    """The pid that `process_of` finds, and those of the processes above it; none if it finds none."""
    found: list[int] = []
    pid = process_of(port, among)
    while pid is not None and pid > 1 and len(found) < _GENERATIONS:
        found.append(pid)
        pid = processes.parent(pid)
    return found


def rank_of(line: Sequence[int], known: Iterable[Rank], *, node: str) -> int | None:
    """The rank on `node` that the first of these processes is, or was started by; None if it was started by none."""
    ranks = {each.pid: each.rank for each in known if each.node in ("", node)}
    return next((ranks[pid] for pid in line if pid in ranks), None)


def _connections(among: list[Process]) -> tuple[tcp_connections.TcpConnection, ...]:
    for process in among:
        with suppress(OSError):
            net = Path(f"/proc/{process.pid}/net")
            return tcp_connections.parsed((net / "tcp").read_text() + (net / "tcp6").read_text())
    return ()


def _files(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found
