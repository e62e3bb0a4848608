"""Connections that are carried by files: two sides, several connections, and sides that fall silent."""

from __future__ import annotations

import json
import select
import selectors
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.capabilities import ProcessRef
from chaoskit.environments.gate.doors import ADDRESS, TcpDoor
from chaoskit.environments.gate.server import GateServer, Identity
from chaoskit.environments.volume_channel import harness_end
from chaoskit.environments.volume_channel.carrier import AGENTS, GATE, Carrier
from chaoskit.environments.volume_channel.frames import ChannelFrame, FrameReader, FrameWriter, make_file
from chaoskit.environments.volume_channel.harness_end import HarnessEnd
from chaoskit.probe.gate import GateClient


class TwoSides:
    """Both sides in this process, with files in `directory`. What is written moves when `turn` is called."""

    def __init__(self, directory: Path) -> None:
        up, down = directory / "n.up", directory / "n.down"
        for path in (up, down):
            make_file(path)
        self.selector = selectors.DefaultSelector()
        self.door = socket.create_server(("127.0.0.1", 0))
        self.dialled: list[int] = []
        self.node = Carrier(up, down, self.selector)
        self.harness = Carrier(down, up, self.selector, dial=self._dial)

    def _dial(self, door: int) -> socket.socket:
        self.dialled.append(door)
        return socket.create_connection(self.door.getsockname())

    def connect(self, door: int) -> socket.socket:
        """The end of a process of the node."""
        mine, theirs = socket.create_server(("127.0.0.1", 0)), socket.socket()
        theirs.connect(mine.getsockname())
        self.node.take(mine.accept()[0], door)
        mine.close()
        return theirs

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            for key, _ in self.selector.select(0.001):
                key.data()
            self.node.exchange()
            self.harness.exchange()

    def accept(self) -> socket.socket:
        """The end of chaoskit of the next connection."""
        while not select.select([self.door], [], [], 0)[0]:
            self.turn()
        return self.door.accept()[0]

    def received(self, line: socket.socket, size: int) -> bytes:
        """What comes there: fewer bytes if it ends."""
        found, deadline = b"", time.monotonic() + 10
        line.setblocking(False)
        while len(found) < size and time.monotonic() < deadline:
            self.turn()
            with suppress(BlockingIOError):
                if not (more := line.recv(size - len(found))):
                    break
                found += more
        line.setblocking(True)
        return found

    def close(self) -> None:
        for side in (self.node, self.harness):
            side.close()
        self.door.close()
        self.selector.close()


@pytest.fixture
def sides(tmp_path):
    made = TwoSides(tmp_path)
    yield made
    made.close()


@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.binary(min_size=1, max_size=300)), max_size=12))
def test_two_connections_do_not_mix(said):
    with TemporaryDirectory() as directory:
        sides = TwoSides(Path(directory))
        try:
            nodes, harness = [], []
            for door in (GATE, AGENTS):
                nodes.append(sides.connect(door))
                nodes[-1].sendall(b"!")
                harness.append(sides.accept())
            assert sides.dialled == [GATE, AGENTS]
            told = {(which, up): b"!" * up for which in (0, 1) for up in (False, True)}
            for which, up, data in said:
                (nodes if up else harness)[which].sendall(data)
                told[which, up] += data
                sides.turn(len(data) % 3)
            for which in (0, 1):
                assert sides.received(harness[which], len(told[which, True])) == told[which, True]
                assert sides.received(nodes[which], len(told[which, False])) == told[which, False]
            nodes[0].close()
            assert sides.received(harness[0], 1) == b""
            harness[1].sendall(b"still there")
            assert sides.received(nodes[1], 11) == b"still there"
            for line in (nodes[1], *harness):
                line.close()
        finally:
            sides.close()


def test_the_last_words_come_before_the_end_also_to_one_who_reads_late(sides):
    line = sides.connect(AGENTS)
    words = bytes(range(256)) * 10_000  # many frames
    sender = threading.Thread(target=lambda: (line.sendall(words), line.close()))
    sender.start()
    while sender.is_alive():
        sides.turn()
    sides.turn(3)
    taken = sides.accept()
    assert sides.received(taken, len(words) + 1) == words
    taken.close()


def test_a_volume_that_does_not_answer_for_a_while_loses_nothing(sides, tmp_path):
    line = sides.connect(GATE)
    line.sendall(b"one,")
    taken = sides.accept()
    away = tmp_path.with_name("away")
    tmp_path.rename(away)
    line.sendall(b"two,")
    taken.sendall(b"back")
    sides.turn(5)
    assert sides.received(taken, 4) == b"one,"
    away.rename(tmp_path)
    line.sendall(b"three")
    assert sides.received(taken, 9) == b"two,three" and sides.received(line, 4) == b"back"
    line.close(), taken.close()


def test_a_door_that_is_closed_ends_the_connection(sides):
    sides.door.close()
    line = sides.connect(AGENTS)
    line.sendall(b"hello")
    assert sides.received(line, 1) == b""
    line.close()


def test_what_is_said_on_a_connection_that_has_ended_makes_no_new_one(sides):
    line = sides.connect(AGENTS)
    line.sendall(b"hello")
    sides.accept().close()
    assert sides.received(line, 1) == b""
    line.close()
    sides.node._writer.add(ChannelFrame(AGENTS, 1, b"more"))
    sides.turn(3)
    assert sides.dialled == [AGENTS]


def received(line: socket.socket, size: int) -> bytes:
    line.settimeout(5)
    found = b""
    while len(found) < size and (more := line.recv(size - len(found))):
        found += more
    return found


@pytest.fixture
def harness(tmp_path, monkeypatch):
    """A `HarnessEnd` with one door, and the names of nodes that have ended."""
    monkeypatch.setattr(harness_end, "_DOUBT", 0.2)
    monkeypatch.setattr(harness_end, "_ASK", 0.05)
    door, ended = socket.create_server(("127.0.0.1", 0)), set()
    door.settimeout(5)
    address = f"tcp://127.0.0.1:{door.getsockname()[1]}"
    made = HarnessEnd(tmp_path / "channel", doors={AGENTS: address}, is_over=lambda name: name in ended)
    yield made, door, ended
    made.close()
    made.close()
    door.close()
    assert not (tmp_path / "channel").exists()


def come(directory, stem):
    """A node that says one word and is silent from then on; its writer."""
    for side in ("down", "up"):
        make_file(directory / f"{stem}.{side}")
    writer = FrameWriter(directory / f"{stem}.up")
    writer.add(ChannelFrame(AGENTS, 1, b"x"))
    writer.hand_on()
    return writer


def test_a_silent_node_has_ended_only_if_somebody_knows(harness, tmp_path):
    _, door, ended = harness
    come(tmp_path / "channel", "pod.one.aa")
    line, _ = door.accept()
    assert received(line, 1) == b"x"
    line.settimeout(0.6)
    with pytest.raises(TimeoutError):
        line.recv(1)
    ended.add("pod.one")
    assert received(line, 1) == b""


def test_a_node_that_shows_life_is_not_asked_about(harness, tmp_path, monkeypatch):
    monkeypatch.setattr(harness_end, "_DOUBT", 1.0)
    _, door, ended = harness
    ended.add("pod")
    writer = come(tmp_path / "channel", "pod.aa")
    line, _ = door.accept()
    for _ in range(15):
        time.sleep(0.1)
        writer.add(ChannelFrame(AGENTS, 0))
        writer.hand_on()
    line.setblocking(False)
    assert line.recv(1) == b"x"
    with pytest.raises(BlockingIOError):
        line.recv(1)
    assert received(line, 1) == b""


def test_a_container_that_is_started_again_ends_what_was_before(harness, tmp_path):
    _, door, _ = harness
    come(tmp_path / "channel", "pod.aa")
    first, _ = door.accept()
    come(tmp_path / "channel", "pod.bb")
    second, _ = door.accept()
    assert received(first, 2) == b"x" and received(second, 1) == b"x"


def test_a_node_that_is_silent_for_long_has_ended(tmp_path, monkeypatch, harness):
    monkeypatch.setattr(harness_end, "GONE", 0.3)
    _, door, _ = harness
    come(tmp_path / "channel", "pod.aa")
    line, _ = door.accept()
    assert received(line, 2) == b"x"


NODE = """
import json, sys
from pathlib import Path
from chaoskit.environments.volume_channel import node_end
node_end.GONE = float(sys.argv[2])
print(json.dumps(node_end.start(Path(sys.argv[1]), "pod")), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def node(tmp_path):
    """Starts the end of a node beside an agent, which ends when the file is closed; the addresses of the doors."""
    started = []

    def start(gone: float = 45.0) -> dict[int, str]:
        words = [sys.executable, "-c", NODE, str(tmp_path / "channel"), str(gone)]
        started.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return {int(door): address for door, address in json.loads(started[0].stdout.readline()).items()}

    yield start
    for each in started:
        each.stdin.close()
        each.wait(10)
        each.stdout.close()


def test_a_rank_stops_at_the_gate_through_the_files_and_goes_on(tmp_path, node):
    gate = GateServer(TcpDoor(), identify=lambda hello: Identity(ProcessRef(hello["pid"], "n/1"), began=1.0))
    made = HarnessEnd(
        tmp_path / "channel", doors={GATE: gate.door.environment[ADDRESS]}, is_over=lambda name: False
    )
    try:
        address, found = node()[GATE], []
        assert address.startswith("tcp://127.0.0.1:")

        def live():
            client = GateClient(address, rank=3, launch=0, restart=0, token=gate.door.token)
            found.append((client.refused, client.clock))
            for n in range(5):
                found.append(client.arrive("step", n, record={"n": n}))
            client._close()

        rank = threading.Thread(target=live)
        rank.start()
        steps = []
        while rank.is_alive():
            for arrived in gate.arrivals():
                # It waits: nothing more comes before it is released.
                assert gate.arrivals() == []
                steps.append((arrived.rank, arrived.at, arrived.n, arrived.record))
                gate.release(3, keep_gating=True)
            time.sleep(0.001)
        assert steps == [(3, "step", n, {"n": n}) for n in range(5)]
        refused, clock = found[0]
        assert refused == "" and (clock is None or abs(clock[0]) < 0.2)
        assert found[1:] == [None] * 5
    finally:
        made.close()
        gate.close()


def test_a_node_whose_harness_is_gone_ends_its_connections(tmp_path, node):
    (tmp_path / "channel").mkdir()
    host, _, port = node(gone=0.5)[AGENTS].removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port))) as line:
        line.sendall(b"hello")
        assert received(line, 1) == b""
    (up,) = (tmp_path / "channel").glob("*.up")
    assert ChannelFrame(AGENTS, 1, b"hello") in FrameReader(up).frames()
