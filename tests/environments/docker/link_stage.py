"""`python -m tests.environments.docker.link_stage SCENARIO [QUALITY]` carries the link of a host from inside its
network namespace, and prints what came of it as JSON. Both hosts are namespaces: no container is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from chaoskit.environments.docker import carried_link
from chaoskit.environments.docker.carried_link import CarriedLink
from chaoskit.environments.netns import network
from chaoskit.environments.netns.network import NetworkError
from chaoskit.environments.netns.wire import Quality
from tests.environments.netns.two_hosts import Hosts, carry, drain, meet, round_trip

MB = 1_000_000


def main(scenario: str, quality: str = "{}") -> None:
    hosts = Hosts()
    with hosts.on(0):
        network.ip("route add default via 10.0.0.2", "route add 192.0.2.0/24 via 10.0.0.2")
    links, before = hosts.links(), inside(hosts)
    found = SCENARIOS[scenario](hosts, Quality(**json.loads(quality)))
    assert inside(hosts) == before, f"{inside(hosts)} instead of {before}"
    assert hosts.links() == links
    print(json.dumps(found))


def inside(hosts: Hosts) -> list[Any]:
    """What a process sees of its interface, as long as nothing is done to it."""
    with hosts.on(0):
        (own,) = [each for each in network.interfaces() if each["ifname"] == "eth0"]
        names = sorted(each["ifname"] for each in network.interfaces())
        return [names, *seen(own), network.routes("eth0")]


def seen(own: dict[str, Any]) -> list[Any]:
    addresses = [each["local"] for each in own["addr_info"] if each["family"] == "inet"]
    return [own["address"], own["mtu"], addresses, "NOARP" in own["flags"]]


def carried(hosts: Hosts, quality: Quality) -> CarriedLink:
    with hosts.on(0):
        return CarriedLink("10.0.0.1", quality)


def away(hosts: Hosts, link: CarriedLink) -> dict[str, float]:
    """Take the link away; returns its counts, which are whole then: a packet is counted after it was sent."""
    with hosts.on(0):
        link.close()
    return dict(link.counts())


def survives(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """Connections go on when the link is carried, and when it is not any more; the interface looks the same."""
    here, there = hosts.connection()
    links: list[CarriedLink] = []
    found: dict[str, Any] = {}

    def begin() -> None:
        before = inside(hosts)[1:]
        links.append(carried(hosts, quality))
        found["looks the same"] = inside(hosts)[1:] == before

    def end() -> None:
        found["counts"] = away(hosts, links.pop())

    intact = [carry(here, there, 20 * MB, at={5 * MB: begin, 15 * MB: end})]
    intact.append(carry(there, here, 20 * MB, at={5 * MB: begin}))
    again = hosts.connection()
    intact.append(carry(*again, 10 * MB))
    intact.append(carry(*again[::-1], 10 * MB, at={5 * MB: end}))
    return {"intact": intact, **found}


def slow(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """Round trips, before, meanwhile, and after."""
    ends = hosts.connection()
    before = [round_trip(*ends) for _ in range(5)]
    link = carried(hosts, quality)
    during = [round_trip(*ends) for _ in range(10)]
    counts = away(hosts, link)
    return {"before": before, "during": during, "after": [round_trip(*ends) for _ in range(5)], "counts": counts}


def narrow(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """How long 2 MB take each way."""
    ends = hosts.connection()
    link = carried(hosts, quality)
    took, intact = [], []
    for pair in (ends, ends[::-1]):
        begun = time.monotonic()
        intact.append(carry(*pair, 2 * MB))
        took.append(time.monotonic() - begun)
    return {"took": took, "intact": intact, "counts": away(hosts, link)}


def corrupted(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """5 MB each way."""
    pair = hosts.connection()
    link = carried(hosts, quality)
    intact = [carry(*pair, 5 * MB), carry(*pair[::-1], 5 * MB)]
    counts = away(hosts, link)
    return {"intact": intact, "counts": counts, "noticed": [hosts.seen(n, "Tcp")["InCsumErrors"] for n in (0, 1)]}


def once(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """Datagrams arrive once, both ways."""
    mouth, ear = hosts.datagrams()
    meet(mouth, ear)
    link = carried(hosts, quality)
    for number in range(200):
        mouth.send(number.to_bytes(2, "big"))
        time.sleep(0.001)
    came = [int.from_bytes(datagram, "big") for datagram in drain(ear, 1.0)]
    away(hosts, link)
    return {"came": came}


def fails(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """Whatever fails while the link is taken, all is as it was."""
    pair = hosts.connection()
    before, failed, ip = inside(hosts), [], network.ip
    for failing in range(1, 7):
        calls = 0

        def broken(*lines: str, failing: int = failing) -> None:
            nonlocal calls
            calls += 1
            if calls == failing:
                if len(lines) > 1:
                    ip(*lines[: len(lines) // 2])
                raise OSError(f"{failing}")
            ip(*lines)

        network.ip = broken  # type: ignore[assignment]
        try:
            link = carried(hosts, quality)
        except OSError as error:
            failed.append(str(error))
        else:
            away(hosts, link)
        finally:
            network.ip = ip
        assert inside(hosts) == before, f"call {failing}: {inside(hosts)} instead of {before}"
        round_trip(*pair)
    try:
        CarriedLink("10.0.0.99", quality)
    except NetworkError as error:
        failed.append(str(error))
    return {"failed": failed}


def renamed_while_down(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """On a kernel that renames no interface that is up."""
    pair = hosts.connection()
    round_trip(*pair)
    ip = network.ip

    def old(*lines: str) -> None:
        for line in lines:
            words = line.split()
            if words[:2] == ["link", "set"] and words[3] == "name":
                state = subprocess.run(
                    ["ip", "-j", "link", "show", words[2]], capture_output=True, text=True
                ).stdout
                if "UP" in json.loads(state)[0]["flags"]:
                    raise NetworkError("ip: Device or resource busy")
            ip(line)

    network.ip = old  # type: ignore[assignment]
    try:
        link = carried(hosts, quality)
        during = [round_trip(*pair) for _ in range(3)]
        with hosts.on(0):
            routes = network.routes("eth0")
        away(hosts, link)
    finally:
        network.ip = ip
    return {"during": during, "routes": routes, "after": round_trip(*pair)}


def gone(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """The daemon takes the interface out of the container: its address does not come back."""
    link = carried(hosts, quality)
    with hosts.on(0):
        network.ip("link del eth0")
        link.close()
        left = {each["ifname"]: [a["local"] for a in each["addr_info"]] for each in network.interfaces()}
        # As it was, for the comparison.
        network.ip(
            f"link set {carried_link._OUTER} name eth0",
            "addr add 10.0.0.1/24 dev eth0",
            "link set eth0 arp on",
            "route add default via 10.0.0.2",
            "route add 192.0.2.0/24 via 10.0.0.2",
        )
        network.ip(f"link set eth0 address {link._found.hardware}")
    return {"left": left}


def dies(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """A wire that is killed is missed, and the link can be given back all the same."""
    pair = hosts.connection()
    link = carried(hosts, quality)
    round_trip(*pair)
    os.kill(link._wire._pid, signal.SIGKILL)
    os.waitid(os.P_PID, link._wire._pid, os.WEXITED | os.WNOWAIT)
    try:
        link.counts()
        said = ""
    except ChildProcessError as error:
        said = str(error)
    with hosts.on(0):
        link.close()
    return {"said": said, "after": round_trip(*pair)}


SCENARIOS: dict[str, Callable[[Hosts, Quality], dict[str, Any]]] = {
    each.__name__: each
    for each in (survives, slow, narrow, corrupted, once, fails, renamed_while_down, gone, dies)
}

if __name__ == "__main__":
    main(*sys.argv[1:])
