"""The gate behind a TCP port: the token admits ranks, nobody else is heard, and clocks are compared."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time

import pytest

from chaoskit.capabilities import ProcessRef
from chaoskit.environments.gate.doors import TcpDoor, UnixDoor
from chaoskit.environments.gate.server import GateServer, Identity
from chaoskit.probe import gate as probe_gate
from chaoskit.probe.gate import GateClient


def identify(hello):
    """A process of another machine, as its own words describe it."""
    return Identity(ProcessRef(hello["pid"], f"{hello['node']}/{hello['start']}"), began=time.monotonic())


@pytest.fixture
def door():
    return TcpDoor()


@pytest.fixture
def gate(door):
    made = GateServer(door, identify=identify)
    yield made
    made.close()
    made.close()


@pytest.fixture
def knock(door, gate):
    """Connect a rank's client while the gate is served; what it got."""
    made = []

    def come(*, token=None, rank=0, **more):
        found = []
        given = {"rank": rank, "launch": 0, "restart": 0, "start": 5, "token": door.token if token is None else token}
        thread = threading.Thread(
            target=lambda: found.append(GateClient(door.environment["CHAOSKIT_GATE"], **{**given, **more}))
        )
        thread.start()
        while thread.is_alive():
            select.select([gate], [], [], 0.01)
            gate.arrivals()
        made.extend(found)
        return found[0]

    yield come
    for client in made:
        client._close()


def test_what_a_rank_is_given(door, tmp_path):
    assert door.environment["CHAOSKIT_GATE"].startswith("tcp://127.0.0.1:")
    assert door.environment["CHAOSKIT_GATE_TOKEN"] == door.token and len(door.token) >= 32
    other = TcpDoor(known_as="harness.example")
    assert other.token != door.token
    assert other.environment["CHAOSKIT_GATE"].startswith("tcp://harness.example:")
    other.close()
    unix = UnixDoor(tmp_path)
    assert unix.environment == {"CHAOSKIT_GATE": f"unix:{tmp_path}/gate.sock"} and unix.token == ""
    unix.close()


def test_a_rank_with_the_token_stops_and_goes_on(gate, knock, monkeypatch):
    monkeypatch.setenv("CHAOSKIT_NODE", "far")
    client = knock(rank=3)
    assert client.open and client.refused == ""
    assert gate.newest(3)[1] == ProcessRef(os.getpid(), "far/5")
    said = []
    thread = threading.Thread(target=lambda: said.append(client.arrive("step", 4, record={"n": 5})))
    thread.start()
    while not (arrived := gate.arrivals()):
        select.select([gate], [], [], 0.01)
    assert (arrived[0].rank, arrived[0].n) == (3, 4)
    gate.release(3, keep_gating=True)
    thread.join(10)
    assert said == [None] and client.open


@pytest.mark.parametrize("token", ["", "wrong", "ä"])
def test_a_wrong_token_is_refused_and_the_rank_knows_why(gate, knock, token):
    client = knock(token=token)
    assert not client.open and "token" in client.refused
    assert client.arrive("step", 0) is None, "it goes on alone"
    assert gate.newest(0) is None and gate.arrivals() == []


def test_the_token_of_another_run_is_a_wrong_one(gate, knock):
    other = TcpDoor()
    try:
        assert "token" in knock(token=other.token).refused
    finally:
        other.close()


def test_who_says_nothing_of_a_token_is_closed(door, gate):
    with socket.create_connection(door.listener.getsockname()) as line:
        line.sendall(json.dumps({"hello": 1, "pid": 1, "rank": 0, "launch": 0, "restart": 0}).encode() + b"\n")
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and not select.select([line], [], [], 0.01)[0]:
            gate.arrivals()
        assert b"refused" in line.makefile("rb").readline()
    assert gate.newest(0) is None


def test_a_harness_that_is_gone_is_said(door):
    address = door.environment["CHAOSKIT_GATE"]
    door.close()
    client = GateClient(address, rank=0, launch=0, restart=0, token="x")
    assert not client.open and "Refused" in client.refused


def test_the_same_clock_needs_no_offset(knock):
    assert knock().clock is None


@pytest.mark.parametrize("off", [-5.0, 5.0, 86_400.0])
def test_another_clock_is_measured(knock, monkeypatch, off):
    class Clock:
        """The clock of the rank's machine."""

        @staticmethod
        def monotonic():
            return time.monotonic() + off

    monkeypatch.setattr(probe_gate, "time", Clock)
    offset, error = knock().clock
    assert 0 <= error < 1 and abs(offset + off) <= error + 1e-9
