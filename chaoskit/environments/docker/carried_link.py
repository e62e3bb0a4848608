"""`CarriedLink`: the link of a container, carried in user space by the wire of virtual hosts (`netns.wire`).

All of it happens in the network namespace of the container and ends with it; neither the machine's network nor the
container's processes are touched. A new veth pair is made there. Its one end takes over the name, the hardware address,
the address and the routes of the container's interface, and a wire carries frames between the other end and that
interface. So connections survive, and a job that looks for `eth0` finds it. It needs the tool `ip`, and from the kernel
veth and packet sockets, but no netem and no queue of nftables. IPv4, as the networks of runs have it. Standard library
only.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from chaoskit.environments.netns import network
from chaoskit.environments.netns.network import NetworkError
from chaoskit.environments.netns.wire import Quality, Wire, await_running

#: The interfaces, while the link is carried: the container's own, and the end of the pair beside it. A third name is
#: that of the other end before and after it has the container's.
_OUTER, _INNER, _SPARE = "chaos-outer", "chaos-inner", "chaos-spare"


@dataclass(frozen=True)
class _Interface:
    """What moves from one interface to another. `address` has the length of its prefix, `routes` are as `ip` prints
    them."""

    name: str
    hardware: str
    mtu: int
    address: str
    broadcast: str
    routes: tuple[str, ...]

    def move(self, source: str, target: str, *, aside: str) -> list[list[str]]:
        """The lines that make `target` this interface and name `source` something else, in batches. Some packets are
        lost meanwhile, but there is a route at any time."""
        away = "02:" + os.urandom(5).hex(":")
        own = f"addr add {self.address} {f'broadcast {self.broadcast} ' if self.broadcast else ''}dev"
        return [
            # With another address and no ARP, the kernel ignores what comes there.
            [f"link set {source} address {away} arp off"],
            [
                f"{own} {target}",
                *(f"route append {route} dev {target}" for route in self.routes),
                f"link set {target} address {self.hardware} arp on",
                f"addr del {self.address} dev {source}",
            ],
            [f"link set {source} name {aside}"],
            [f"link set {target} name {self.name}"],
            # Before Linux 6.2 an interface must be down to be renamed, and loses its routes.
            [f"route replace {route} dev {self.name}" for route in self.routes],
        ]


class CarriedLink:
    """The link of the interface with this IPv4 `address` in the network namespace that the caller, who has one thread,
    is in. It is carried until `close`; if the caller dies, nothing gets through any more. Raises NetworkError and
    OSError, and then all is as before."""

    def __init__(self, address: str, quality: Quality) -> None:
        self._address = address
        self._found = found = _interface(address)
        with ExitStack() as undo:
            network.ip(f"link add {_SPARE} mtu {found.mtu} type veth peer name {_INNER} mtu {found.mtu}")
            undo.callback(_remove)
            for name in (_INNER, _SPARE):
                network.ip(f"link set {name} arp off addrgenmode none up")
            for name in (_INNER, _SPARE):
                await_running(name)
            undo.callback(self._give_back)
            first, *others = found.move(found.name, _SPARE, aside=_OUTER)
            _run(first)
            # Now: earlier it would bring a second time what the kernel had, later it would miss what is asked by ARP.
            self._wire = Wire(_INNER, found.name, quality)
            undo.callback(self._wire.close)
            for lines in others:
                _run(lines)
            undo.pop_all()

    def counts(self) -> Mapping[str, float]:
        """See `Wire.counts`."""
        return self._wire.counts()

    def close(self) -> None:
        """Send on what is held back, and let the container's own interface be as before. Raises NetworkError if that
        failed."""
        self._wire.close()
        # Where the container has left its network, the end with its name has gone, and the other one with it. Then
        # the address must not come back: another container may have it by now.
        if _INNER in _names():
            self._give_back()
            _remove()
            _interface(self._address)

    def _give_back(self) -> None:
        """Undo the move, or what of it was done."""
        found, names = self._found, _names()
        target = _OUTER if _OUTER in names else found.name
        source = found.name if target == _OUTER and found.name in names else _SPARE
        for lines in found.move(source, target, aside=_SPARE):
            for line in lines:
                if line != f"link set {target} name {target}":
                    with suppress(NetworkError):  # not done before
                        _run([line])


def _interface(address: str) -> _Interface:
    for each in network.interfaces():
        for own in each.get("addr_info", ()):
            if own.get("local") == address:
                name, prefixed = each["ifname"], f"{address}/{own['prefixlen']}"
                routes = tuple(network.routes(name))
                return _Interface(name, each["address"], each["mtu"], prefixed, own.get("broadcast", ""), routes)
    raise NetworkError(f"no interface has the address {address}")


def _run(lines: list[str]) -> None:
    """Run lines of `ip`; a renaming that needs the interface down takes it down."""
    if not lines:
        return
    try:
        network.ip(*lines)
    except NetworkError:
        words = lines[0].split()
        if words[:2] != ["link", "set"] or words[3] != "name":
            raise
        _, _, old, _, new = words
        network.ip(f"link set {old} down", f"link set {old} name {new}", f"link set {new} up")


def _remove() -> None:
    """Remove the pair, whichever name its other end has."""
    with suppress(NetworkError):
        network.ip(f"link del {_INNER}")


def _names() -> set[str]:
    return {name for _, name in socket.if_nameindex()}
