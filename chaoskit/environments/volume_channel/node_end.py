"""The node's end of the channel: a process beside the agent, at two ports that only its own node can reach.

Standard library only: it runs in the agent of a node.
"""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from chaoskit.environments.volume_channel.carrier import DOORS, GONE, Carrier, Pace, files
from chaoskit.environments.volume_channel.frames import make_file

#: How an address of a door begins that is reached by files; the directory of these follows.
VOLUME = "volume:"


def start(directory: Path, name: str) -> dict[int, str]:
    """Start the process that carries the connections of this node, whose agent has that `name`; returns the address of
    each door, by its number. It ends with the agent, and when chaoskit is gone. Raises OSError."""
    own, other = files(directory, f"{name}.{secrets.token_hex(4)}")
    make_file(other)
    make_file(own)  # chaoskit looks for this one, and then has to find both
    listeners = {door: socket.create_server(("127.0.0.1", 0), backlog=1024) for door in DOORS}
    agent = os.getpid()
    if os.fork() == 0:
        try:
            for signum in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(signum, signal.SIG_DFL)
            _carry(own, other, listeners, agent)
        finally:
            os._exit(0)
    addresses = {door: f"tcp://127.0.0.1:{each.getsockname()[1]}" for door, each in listeners.items()}
    for each in listeners.values():
        each.close()
    return addresses


def _carry(own: Path, other: Path, listeners: Mapping[int, socket.socket], agent: int) -> None:
    selector, pace = selectors.DefaultSelector(), Pace()
    carrier = Carrier(own, other, selector)
    for door, listener in listeners.items():
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ, partial(_accept, carrier, listener, door))
    while os.getppid() == agent and carrier.silent < GONE:
        for key, _ in selector.select(pace.wait):
            key.data()
        pace.went(moved=carrier.exchange())


def _accept(carrier: Carrier, listener: socket.socket, door: int) -> None:
    try:
        line, _ = listener.accept()
    except OSError:
        return  # it has gone again
    carrier.take(line, door)
