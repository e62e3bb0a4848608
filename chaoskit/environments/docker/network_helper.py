"""The network helper: a process in the network namespace of one container, and in nothing else of it.

A script, standard library only. `network_helper.py RUN_ID NAMESPACE` is started by a harness that is root on the
machine of the daemon: it enters the namespace, and answers JSON lines on its standard input. `network_helper.py SOCKET
NODE` is the first process of a short-lived container that has joined that network, with NET_ADMIN and NET_RAW and no
other privilege: it answers on a socket of the harness. As on virtual hosts, it stops packets with nftables, and carries
the frames of a slow or noisy link itself.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from typing import Any

if __name__ == "__main__":
    _own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _own]
    _path = os.path.join(os.path.dirname(os.path.dirname(_own)), "protocol", "bootstrap.py")
    with open(_path) as _file:
        exec(_file.read(), {"__file__": _path})

from chaoskit.environments.agents.agent import greet
from chaoskit.environments.docker.carried_link import CarriedLink
from chaoskit.environments.launch.host import KINDS, call
from chaoskit.environments.machine.serve import REFUSALS, serve
from chaoskit.environments.netns.cuts import InstalledCut, rules, table_of
from chaoskit.environments.netns.network import NetworkError, counters, ip, nft
from chaoskit.environments.netns.wire import Quality


class NodeNetwork:
    """The cuts at one node, by the numbers that the harness gives them, and its link. All raise NetworkError."""

    def __init__(self) -> None:
        self._links: dict[int, CarriedLink] = {}

    def cut(self, number: int, how: str, percent: float, sources: dict[str, str]) -> None:
        """Stop what comes from these nodes; `sources` are their addresses by name."""
        made = InstalledCut(tuple((source, "") for source in sources), how, percent)
        nft(*rules(table_of(number), made, sources))

    def mend(self, number: int) -> None:
        """End a cut."""
        nft(f"delete table inet {table_of(number)}")

    def lost(self, number: int) -> dict[str, int]:
        """How many packets a cut has stopped, by the name of the node that they came from."""
        return {name.removeprefix("from_"): count for name, count in counters(table_of(number)).items()}

    def degrade(self, number: int, address: str, **quality: Any) -> None:
        """Carry the link of the interface with this address; `quality` are the fields of a `Quality`."""
        if self._links:
            raise NetworkError("the link is degraded already")
        self._links[number] = CarriedLink(address, Quality(**quality))

    def restore(self, number: int) -> None:
        """End that. An unknown number is no error."""
        if (link := self._links.pop(number, None)) is not None:
            link.close()

    def degraded(self, number: int) -> dict[str, float]:
        """What the link has done so far: see `Wire.counts`. Nothing if it has been given back."""
        link = self._links.get(number)
        return dict(link.counts()) if link is not None else {}

    def listen(self, node: str, address: str, port: int, door: str) -> None:
        """Open a socket at an address that the node then has for itself alone, and hand it over at the door of the
        harness."""
        ip(f"addr add {address}/32 dev lo")
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address, port))
            with greet(door, {"listener": node}) as line:
                socket.send_fds(line, [b"x"], [made.fileno()])

    def end(self) -> None:
        """The harness has gone: let the daemon find the interface that it has made."""
        for link in self._links.values():
            with suppress(NetworkError, OSError):  # the container has gone, too
                link.close()


def main(first: str, second: str) -> None:
    """Serve until the harness is gone."""
    if second.startswith("/proc/"):
        namespace = os.open(second, os.O_RDONLY | os.O_CLOEXEC)
        call("setns", namespace, KINDS["net"])
        os.close(namespace)
        line = socket.socket(fileno=0)
    else:
        line = greet(first, {"helper": second})
    network = NodeNetwork()
    serve(line, network, refusals=(NetworkError, *REFUSALS))
    network.end()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
