"""`python -m tests.environments.netns.wire_stage SCENARIO [QUALITY]` tries something with two hosts and a wire, and
prints
what came of it as JSON."""

from __future__ import annotations

import json
import os
import random
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from chaoskit.environments.netns.network import NetworkError, ip
from chaoskit.environments.netns.wire import Quality, Wire, insert, remove
from tests.environments.netns.two_hosts import LIMIT, Hosts, carry, drain, meet, round_trip

UDP_SEGMENT = 103
MB = 1_000_000


def main(scenario: str, quality: str = "{}") -> None:
    uid = os.getuid()
    hosts = Hosts()
    links = hosts.links()
    print(json.dumps({**SCENARIOS[scenario](hosts, Quality(**json.loads(quality))), "uid": uid}))
    assert set(hosts.links()) <= set(links), f"{hosts.links()} instead of {links}"


def nothing(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    return {}


def survives(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """A connection goes on when a wire comes and goes, both ways, and so does one that begins meanwhile."""
    here, there = hosts.connection()
    found: dict[str, Any] = {}
    wires: list[Wire] = []

    def away() -> None:
        found["counts"] = wires[0].counts()
        remove(0, wires[0], ip)

    intact = [
        carry(here, there, 20 * MB, at={5 * MB: lambda: wires.append(insert(0, quality, ip)), 15 * MB: away})
    ]
    wires.clear()
    intact.append(carry(there, here, 20 * MB, at={5 * MB: lambda: wires.append(insert(0, quality, ip))}))
    again = hosts.connection()
    intact.append(carry(*again, 10 * MB))
    intact.append(carry(*again[::-1], 10 * MB, at={5 * MB: away}))
    return {"intact": intact, **found}


def slow(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """Round trips, before, with a wire, and after."""
    ends = hosts.connection()
    before = [round_trip(*ends) for _ in range(5)]
    wire = insert(1, quality, ip)
    during = [round_trip(*ends) for _ in range(10)]
    counts = wire.counts()
    remove(1, wire, ip)
    return {"before": before, "during": during, "after": [round_trip(*ends) for _ in range(5)], "counts": counts}


def narrow(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """How long 2 MB take each way."""
    here, there = hosts.connection()
    wire = insert(0, quality, ip)
    took, intact = [], []
    for ends in ((here, there), (there, here)):
        begun = time.monotonic()
        intact.append(carry(*ends, 2 * MB))
        took.append(time.monotonic() - begun)
    counts = wire.counts()
    remove(0, wire, ip)
    return {"took": took, "intact": intact, "counts": counts}


def flooded(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """1000 datagrams at once."""
    mouth, ear = hosts.datagrams()
    wire = insert(0, quality, ip)
    meet(mouth, ear)
    before = wire.counts()
    for _ in range(1000):
        mouth.send(bytes(1400))
    time.sleep(0.5)
    wire.close()
    found = {name: count - before[name] for name, count in wire.counts().items()}
    came = len(drain(ear, 0.5))
    remove(0, wire, ip)
    return {"came": came, "counts": found}


def ordered(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    mouth, ear = hosts.datagrams()
    meet(mouth, ear)
    wire = insert(0, quality, ip)
    for number in range(300):
        mouth.send(number.to_bytes(2, "big"))
        time.sleep(0.001)
    came = [int.from_bytes(datagram, "big") for datagram in drain(ear, 1.0)]
    remove(0, wire, ip)
    return {"came": came}


def corrupted(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """5 MB each way by TCP, in both versions of IP."""
    pairs = [hosts.connection(version) for version in (4, 6)]
    wire = insert(0, quality, ip)
    intact = [carry(*ends, 5 * MB) for pair in pairs for ends in (pair, pair[::-1])]
    counts = wire.counts()
    remove(0, wire, ip)
    seen = [hosts.seen(number, "Tcp") for number in (0, 1)]
    return {
        "intact": intact,
        "counts": counts,
        "noticed": [each["InCsumErrors"] for each in seen],
        "sent again": [each["RetransSegs"] for each in seen],
    }


def noisy(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """2000 datagrams in both versions of IP: one by one, and handed to the kernel by the dozen."""
    found: dict[str, Any] = {"came": [], "true": [], "noticed": []}
    for version in (4, 6):
        for dozen in (1, 12):
            mouth, ear = hosts.datagrams(version)
            mouth.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 500 if dozen > 1 else 0)
            meet(mouth, ear)
            before = hosts.seen(1, "Udp")["InCsumErrors"]
            wire = insert(0, quality, ip)
            sent, came = set(), []
            for begin in range(0, 2004, dozen):
                those = [random.Random(number).randbytes(500) for number in range(begin, begin + dozen)]
                mouth.send(b"".join(those))
                sent.update(those)
                # No more on the way than every queue holds, however busy the machine is.
                patience = time.monotonic() + 5
                while time.monotonic() < patience:
                    came += drain(ear, 0.001)
                    lost = hosts.seen(1, "Udp")["InCsumErrors"] - before
                    if len(sent) - len(came) - lost <= 24:
                        break
            time.sleep(0.2)
            remove(0, wire, ip)
            came += drain(ear, 0.5)
            found["came"].append(len(came))
            found["true"].append(len(sent & set(came)))
            found["noticed"].append(hosts.seen(1, "Udp")["InCsumErrors"] - before)
    return found


def addressed(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """Whether ARP comes through where nothing of IP does."""
    mouth, ear = hosts.datagrams()
    wire = insert(0, quality, ip)
    for _ in range(20):
        mouth.send(b"hello")
        time.sleep(0.01)
    came = len(drain(ear, 0.3))
    counts = wire.counts()
    remove(0, wire, ip)
    with hosts.on(0):
        known = subprocess.run(["ip", "neigh", "show", "10.0.0.2"], capture_output=True, text=True).stdout
    return {"came": came, "known": "lladdr" in known, "counts": counts}


def ends(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """Which wires are left: of one that was closed, and of one whose caller was killed while another process had all
    that the caller had open; and whether one keeps anything of the caller open."""
    ip("link add w0 type veth peer name b0", "link set w0 up", "link set b0 up")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2048)), hard))
    many = [os.dup(2) for _ in range(min(1100, hard - 100))]  # more than select takes
    reader, writer = os.pipe()
    wire = Wire("v0", "w0", quality)
    os.close(writer)
    poll = select.poll()
    poll.register(reader)
    freed = bool(poll.poll(5000))
    closed = wire._pid
    wire.counts()
    wire.close()
    wire.close()
    told, tell = os.pipe()
    caller = os.fork()
    if caller == 0:
        wire = Wire("v0", "w0", quality)
        bystander = os.fork()
        if bystander:
            os.write(tell, json.dumps([wire._pid, bystander]).encode())
        time.sleep(LIMIT)
        os._exit(1)
    orphan, bystander = json.loads(os.read(told, 100))
    alive = running(orphan)
    os.kill(caller, signal.SIGKILL)
    os.waitpid(caller, 0)
    deadline = time.monotonic() + 10
    while running(orphan) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(bystander, signal.SIGKILL)
    ip("link del w0")
    for fd in many:
        os.close(fd)
    return {"freed": freed, "closed": running(closed), "before": alive, "after": running(orphan)}


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def dies(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """A wire that is killed is missed, and can be taken out all the same."""
    pair = hosts.connection()
    wire = insert(0, quality, ip)
    round_trip(*pair)
    os.kill(wire._pid, signal.SIGKILL)
    os.waitid(os.P_PID, wire._pid, os.WEXITED | os.WNOWAIT)
    try:
        wire.counts()
        said = ""
    except ChildProcessError as error:
        said = str(error)
    remove(0, wire, ip)
    return {"said": said, "after": round_trip(*pair)}


def unplugged(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """A wire waits while the cable is out, and ends when it is taken out though the host is gone."""
    pair = hosts.connection()
    wire = insert(0, quality, ip)
    ip("link set v0 down")
    time.sleep(0.5)
    ip("link set v0 up")
    round_trip(*pair)
    ip("link del v0")
    time.sleep(0.5)
    alive, before = wire.counts()["packets"] > 0, os.times()
    try:
        remove(0, wire, ip)
        said = ""
    except NetworkError as error:
        said = str(error)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {"alive": alive, "said": said, "used": used, "left": hosts.links(), "running": running(wire._pid)}


def fails(hosts: Hosts, quality: Quality) -> dict[str, Any]:
    """Whatever fails while a wire is put in, all is as it was."""
    pair = hosts.connection()
    links = hosts.links()
    failed = []
    for failing in range(4):
        calls = iter(range(100))

        def broken(*lines: str, failing: int = failing, calls: Iterator[int] = calls) -> None:
            if next(calls) == failing:
                raise RuntimeError(f"{failing}")
            ip(*lines)

        try:
            insert(0, quality, broken)
        except RuntimeError as error:
            failed.append(str(error))
        assert hosts.links() == links
        round_trip(*pair)
    try:
        Wire("v0", "nowhere", quality)
    except OSError as error:
        failed.append(str(error))
    return {"failed": failed}


SCENARIOS: dict[str, Callable[[Hosts, Quality], dict[str, Any]]] = {
    each.__name__: each
    for each in (
        nothing, survives, slow, narrow, flooded, ordered, corrupted, noisy, addressed, ends, dies,
        unplugged, fails,
    )
}  # fmt: skip

if __name__ == "__main__":
    main(*sys.argv[1:])
