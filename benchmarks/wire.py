"""What a wire costs that does nothing: one TCP stream and one round trip between two virtual hosts, over the bridge
alone and through a wire, one after the other; what it takes of a processor; and how late it is when it is to be late.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from table import Figure, parser, show

from chaoskit.environments.launch.host import KINDS, call
from chaoskit.environments.netns.hosts import Hosts
from chaoskit.environments.netns.network import ip
from chaoskit.environments.netns.wire import Quality, insert, remove

PORT = 7000
CHUNK = 1 << 18
ROUND_TRIPS = 1000
DELAY = 0.01
#: What lies between the hosts; None: the bridge alone.
WAYS = {
    "bridge": None,
    "wire": Quality(),
    "wire that corrupts 0.1 %": Quality(corrupt=0.1),
    "wire with 10 ms": Quality(delay=DELAY),
}


def serve(address: str) -> None:
    """Takes all of a stream, and then says so; or sends back each byte."""
    ear = socket.create_server((address, PORT))
    buffer = bytearray(CHUNK)
    while True:
        line, _ = ear.accept()
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if line.recv(1) == b"s":
            while line.recv_into(buffer):
                pass
            line.send(b".")
        else:
            while word := line.recv(1):
                line.send(word)
        line.close()


def stream(connect: Callable[[], socket.socket], size: int) -> float:
    """Seconds for so many bytes, until the other side says that it has them."""
    data = bytes(CHUNK)
    with connect() as line:
        line.sendall(b"s")
        begun = time.perf_counter()
        for _ in range(size // CHUNK):
            line.sendall(data)
        line.shutdown(socket.SHUT_WR)
        assert line.recv(1) == b"."
        return time.perf_counter() - begun


def round_trip(connect: Callable[[], socket.socket], count: int) -> float:
    """Seconds, the median."""
    took = []
    with connect() as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sendall(b"e")
        for _ in range(count):
            begun = time.perf_counter()
            line.sendall(b".")
            line.recv(1)
            took.append(time.perf_counter() - begun)
    return statistics.median(took)


def measure(rounds: int, size: int, names: str) -> dict[str, dict[str, list[float]]]:
    """Every round of every one of WAYS: MB per second, seconds of a round trip, seconds of a processor for a GB."""
    hosts = Hosts()
    hosts.begin()
    base = os.open("/proc/self/ns/net", os.O_RDONLY)
    made = [hosts.add(f"node{number}", number, names) for number in (0, 1)]
    networks = [os.open(each["host"]["net"], os.O_RDONLY) for each in made]
    server = os.fork()
    if server == 0:
        call("setns", networks[1], KINDS["net"])
        serve(made[1]["address"])

    def connect() -> socket.socket:
        call("setns", networks[0], KINDS["net"])
        line = socket.socket()
        call("setns", base, KINDS["net"])
        line.connect((made[1]["address"], PORT))
        return line

    time.sleep(0.2)  # until it listens
    found: dict[str, dict[str, list[float]]] = {name: {} for name in WAYS}
    try:
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for name, quality in WAYS.items():
                wire = insert(0, quality, ip) if quality else None
                late = quality is not None and quality.delay > 0
                figures = {"round trip": round_trip(connect, ROUND_TRIPS // 20 if late else ROUND_TRIPS)}
                if not late:  # which would tell of TCP's window and not of the wire
                    figures["MB/s"] = size / stream(connect, size) / 1e6
                if wire is not None:
                    before = os.times()
                    remove(0, wire, ip)
                    after = os.times()  # with all that the wire has used
                    used = (
                        after.children_user + after.children_system - before.children_user - before.children_system
                    )
                    figures["CPU"] = used / (size / 1e9)
                for key, value in figures.items():
                    found[name].setdefault(key, []).append(value)
    finally:
        os.kill(server, 9)
        os.waitpid(server, 0)
    return found


def figures(found: dict[str, dict[str, list[float]]]) -> list[Figure]:
    """Medians, and ratios of the medians."""
    medians = {name: {key: statistics.median(values) for key, values in of.items()} for name, of in found.items()}
    bridge, wire, late = medians["bridge"], medians["wire"], medians["wire with 10 ms"]
    through = [name for name in WAYS if "MB/s" in medians[name]]
    made = [Figure(f"one TCP stream, {name}", medians[name]["MB/s"], "MB/s") for name in through]
    made.append(Figure("one TCP stream, wire / bridge", wire["MB/s"] / bridge["MB/s"], "x", ">= 0.3"))
    made += [Figure(f"processor, {name}", medians[name]["CPU"], "s/GB") for name in through[1:]]
    made += [Figure(f"round trip, {name}", 1e6 * medians[name]["round trip"], "us") for name in ("bridge", "wire")]
    made.append(Figure("round trip, added by the wire", 1e6 * (wire["round trip"] - bridge["round trip"]), "us"))
    made.append(
        Figure("round trip, with 10 ms each way, over 20 ms", 1e6 * (late["round trip"] - 2 * DELAY), "us")
    )
    return made


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--size", type=int, default=1000, help="of a stream, in MB")
    told = arguments.parse_args()
    # In a child: who has made the hosts does not find back.
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory() as scratch:
        names = Path(scratch, "hosts")
        names.touch()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.write(writer, json.dumps(measure(told.rounds, told.size * 1_000_000, str(names))).encode())
            os._exit(0)
        os.close(writer)
        with open(reader, "rb") as file:
            text = file.read()
        os.waitpid(child, 0)
    if not text:
        sys.exit("the hosts could not be made")
    show(
        f"A wire between two virtual hosts (medians of {told.rounds}, alternating)",
        figures(json.loads(text)),
        json_file=told.json,
    )


if __name__ == "__main__":
    main()
