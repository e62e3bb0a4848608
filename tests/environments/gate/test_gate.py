"""The gate: who arrives waits, who is old is let go, and nonsense costs nobody but its sender."""

from __future__ import annotations

import json
import os
import select
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from chaoskit.environments.environment import Arrived
from chaoskit.environments.gate.doors import UnixDoor
from chaoskit.environments.gate.server import GateServer
from chaoskit.probe.gate import GateClient as ProbeGate
from tests import users


class Client:
    """Speaks the rank's part."""

    def __init__(self, run_dir):
        directory = os.open(run_dir, os.O_PATH)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(5)
        self.socket.connect(f"/proc/self/fd/{directory}/gate.sock")
        os.close(directory)
        self.lines = self.socket.makefile("rb")

    def hello(self, rank=0, launch=0, restart=0, pid=None):
        return self.say(hello=1, pid=pid or os.getpid(), rank=rank, launch=launch, restart=restart)

    def say(self, **words):
        self.socket.sendall(json.dumps(words).encode() + b"\n")
        return self

    def answer(self):
        return json.loads(self.lines.readline() or "null")

    def close(self):
        self.lines.close()
        self.socket.close()


@pytest.fixture
def gate(tmp_path):
    made = GateServer(UnixDoor(tmp_path))
    yield made
    made.close()
    assert not (tmp_path / "gate.sock").exists()


@pytest.fixture
def open_place():
    """A directory that every user reaches."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        yield Path(made)


#: A process of another user: it connects, says hello, and prints what it hears.
STRANGER = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
line = socket.socket(socket.AF_UNIX)
try:
    line.connect(sys.argv[1] + "/gate.sock")
    line.sendall(b'{"hello": 1, "pid": %d, "rank": 0, "launch": 0, "restart": 0}\\n' % os.getpid())
    line.sendall(b'{"at": "start", "n": 0}\\n')
    print("answered" if line.recv(100) else "refused")
except OSError:
    print("refused")
"""


@users.as_root_only
@pytest.mark.parametrize(
    ("others", "expected"),
    [((), "refused"), ({4321}, "refused"), ({1234}, "answered"), (None, "answered")],
)
def test_only_those_come_who_have_business_here(open_place, others, expected):
    """The kernel says who knocks: a socket that is open to one user more is open to nobody else."""
    before = os.umask(0)
    gate = GateServer(UnixDoor(open_place, others=others))
    os.umask(before)
    try:
        command = [sys.executable, "-I", "-S", "-c", STRANGER, str(open_place), "1234"]
        stranger = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        came = []
        while stranger.poll() is None:
            select.select([gate], [], [], 0.02)
            came += gate.arrivals()
            gate.release(0, keep_gating=False)
        assert stranger.communicate()[0].strip() == expected
        assert bool(came) is (expected == "answered")
    finally:
        gate.close()


@pytest.mark.parametrize("umask", [0, 0o77])
def test_the_socket_is_ours_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    door = UnixDoor(tmp_path)
    os.umask(before)
    assert stat.S_IMODE((tmp_path / "gate.sock").stat().st_mode) == 0o600
    door.close()


@pytest.fixture
def connect(tmp_path):
    clients = []

    def begin():
        clients.append(Client(tmp_path))
        return clients[-1]

    yield begin
    for client in clients:
        client.close()


def _news(gate):
    """What a harness gets that waits for the gate's descriptor."""
    found = []
    while select.select([gate], [], [], 0.02)[0]:
        found += gate.arrivals()
    return found


def test_arrive_and_go(gate, connect):
    client = connect().hello(rank=3, launch=1, restart=2).say(at="step", n=7, call=1, record={"n": 8})
    assert _news(gate) == [Arrived(3, 1, 2, os.getpid(), "step", 7, 1, {"n": 8})]
    assert gate.arrivals() == []
    gate.release(3, keep_gating=True)
    assert client.answer() == {"do": "go", "gate": True}
    client.say(at="saved", n=8, record=None)
    assert [arrived.at for arrived in _news(gate)] == ["saved"]
    gate.release(3, keep_gating=False)
    gate.release(3, keep_gating=False)  # nobody waits any more
    gate.release(9, keep_gating=False)  # nor ever did
    assert client.answer() == {"do": "go", "gate": False}


def test_a_message_may_come_in_pieces(gate, connect):
    client = connect().hello()
    for piece in (b'{"at": "st', b'art", "n"', b": 0}\n"):
        assert _news(gate) == []
        client.socket.sendall(piece)
    assert [arrived.at for arrived in _news(gate)] == ["start"]


def test_a_path_longer_than_an_address(tmp_path):
    deep = tmp_path.joinpath(*["a-directory-with-a-long-name"] * 5)
    deep.mkdir(parents=True)
    assert len(str(deep / "gate.sock")) > 107
    gate = GateServer(UnixDoor(deep))
    client = Client(deep).hello().say(at="start", n=0)
    assert [arrived.rank for arrived in _news(gate)] == [0]
    client.close()
    gate.close()
    assert not (deep / "gate.sock").exists()
    gate.close()


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\xff\xfe\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"null\n",
        b"[]\n",
        b'"at"\n',
        b"[" * 100_000 + b"\n",
        b'{"at": "step", "n": 0}\n',
        b'{"hello": 2, "pid": 1, "rank": 0, "launch": 0, "restart": 0}\n',
        b'{"hello": 1, "pid": 99999999, "rank": 0, "launch": 0, "restart": 0}\n',
        b'{"hello": 1, "pid": 1, "rank": "0", "launch": 0, "restart": 0}\n',
        b'{"hello": 1, "pid": 1, "rank": true, "launch": 0, "restart": 0}\n',
        b'OK{"at": "elsewhere", "n": 0}\n',
        b'OK{"at": "step", "n": -1}\n',
        b'OK{"at": "step"}\n',
        b'OK{"at": ["step"], "n": 1}\n',
        b'OK{"at": "step", "n": 0, "record": 5}\n',
        b'OK{"at": "step", "n": 0}\n{"at": "step", "n": 0}\n',
        b'OK{"raised": 5}\n',
        b'OK{"corrupted": 5}\n',
        b'OK{"corrupted": {"n": 5}}\n',
        b'OK{"refused": {"id": 5}}\n',
        b'OK{"refused": {"id": "x", "why": ""}}\n',
        b"OK{}\n",
    ],
)
def test_nonsense_closes_its_own_connection_only(gate, connect, nonsense):
    good = connect().hello(rank=1)
    bad = connect()
    if nonsense.startswith(b"OK"):
        bad.hello(rank=0)
        nonsense = nonsense[2:]
    bad.socket.sendall(nonsense)
    assert _news(gate) == []
    assert bad.lines.read() == b""
    good.say(at="start", n=0)
    assert [arrived.rank for arrived in _news(gate)] == [1]


def test_a_line_without_end_is_cut_off(gate, connect, monkeypatch):
    monkeypatch.setattr("chaoskit.environments.gate.server._LONGEST_GREETING", 1000)
    client = connect()
    client.socket.sendall(b"x" * 5000)
    assert _news(gate) == []
    assert client.socket.recv(1) == b""


def test_who_leaves_is_gone(gate, connect):
    client = connect().hello().say(at="step", n=1)
    client.close()
    _news(gate)  # it may have been told before it left
    gate.release(0, keep_gating=True)
    assert _news(gate) == []
    with pytest.raises(LookupError):
        gate.order(0, {"do": "exit", "code": 1})
    assert gate.newest(0)[1].pid == os.getpid()  # its process may live on
    assert gate.newest(1) is None


def test_an_older_incarnation_is_let_go(gate, connect):
    waiting = connect().hello(launch=0, restart=0).say(at="step", n=4)
    assert len(_news(gate)) == 1
    newer = connect().hello(launch=0, restart=1)
    assert _news(gate) == []
    assert waiting.answer() == {"do": "go", "gate": False}
    waiting.say(at="step", n=5)
    assert _news(gate) == []
    assert waiting.answer() == {"do": "go", "gate": False}
    late = connect().hello(launch=0, restart=0).say(at="start", n=0)
    assert _news(gate) == []
    assert late.answer() == {"do": "go", "gate": False}
    newer.say(at="start", n=0)
    assert [arrived.restart for arrived in _news(gate)] == [1]
    assert gate.newest(0)[0][0::2] == (0, 1)


def test_an_order_is_carried_out_at_the_release(gate, connect):
    client = connect().hello(rank=2).say(at="step", n=1)
    _news(gate)
    order = {"do": "raise", "type": "MemoryError", "message": "ä\n"}
    gate.order(2, order)
    assert not gate.raised(2)
    gate.release(2, keep_gating=True)
    assert client.answer() == {**order, "gate": True}
    client.say(raised="MemoryError")
    assert gate.raised(2)
    client.say(at="step", n=1)
    assert len(_news(gate)) == 1
    gate.release(2, keep_gating=True)
    assert client.answer() == {"do": "go", "gate": True}
    gate.order(2, order)
    assert not gate.raised(2)


def test_a_rank_is_told_where_to_stop_and_what_to_record(gate, connect):
    client = connect().hello(rank=1).say(at="start", n=0)
    _news(gate)
    gate.release(1, keep_gating=True, until=24, names=20)
    assert client.answer() == {"do": "go", "gate": True, "until": 24, "names": 20}


def test_what_a_rank_has_made_wrong_is_told_once_it_says_so(gate, connect):
    client = connect().hello(rank=1).say(at="step", n=4)
    _news(gate)
    order = {"do": "corrupt", "into": {"kind": "loss"}, "how": {"kind": "nan"}}
    number = gate.corrupt(1, order)
    gate.release(1, keep_gating=True)
    assert client.answer() == {**order, "id": number, "gate": True} and gate.corrupted(1, number) is None
    client.say(corrupted={"id": number, "rank": 1, "n": 6, "after": ["nan"]})
    client.say(corrupted={"id": number, "rank": 1, "n": 7, "after": ["nan"]}).say(at="step", n=5)
    assert [arrived.n for arrived in _news(gate)] == [5]
    assert gate.corrupted(1, number) == {"rank": 1, "n": 6, "after": ["nan"]}, "the first of several"
    second = gate.corrupt(1, order)
    gate.release(1, keep_gating=False)
    client.say(refused={"id": second, "why": "it is an integer"})
    _news(gate)
    assert gate.corrupted(1, second) == {"refused": "it is an integer"} and second != number
    assert gate.corrupted(0, second) is None and not gate.raised(1)


def test_a_rank_that_leaves_has_refused_what_it_did_not_come_to(gate, connect):
    client = connect().hello(rank=0).say(at="step", n=4)
    _news(gate)
    first, second = gate.corrupt(0, {"do": "corrupt"}), gate.corrupt(0, {"do": "corrupt"})
    assert gate.corrupted(0, first) == {"refused": "another order replaced it"}
    gate.release(0, keep_gating=True)
    assert client.answer()["id"] == second
    client.close()
    _news(gate)
    assert "gone before" in gate.corrupted(0, second)["refused"]
    with pytest.raises(LookupError, match="rank 0 is not connected"):
        gate.corrupt(0, {"do": "corrupt"})
    with pytest.raises(LookupError, match="rank 7 is not connected"):
        gate.corrupt(7, {"do": "corrupt"})


def test_a_rank_has_one_thing_to_do_at_a_time(gate, connect):
    connect().hello(rank=0).say(at="step", n=4)
    _news(gate)
    gate.order(0, {"do": "exit", "code": 3})
    with pytest.raises(LookupError, match="already has another order: exit"):
        gate.corrupt(0, {"do": "corrupt"})


def test_an_order_dies_with_its_incarnation(gate, connect):
    connect().hello(rank=0)
    gate.order(0, {"do": "exit", "code": 1})
    newer = connect().hello(rank=0, restart=1).say(at="start", n=0)
    _news(gate)
    gate.release(0, keep_gating=True)
    assert newer.answer() == {"do": "go", "gate": True}


def test_a_rank_that_died_before_its_greeting_was_read_is_nobody(gate, connect):
    child = subprocess.Popen(["true"])
    child.wait()
    connect().hello(pid=child.pid).say(at="start", n=0)
    assert _news(gate) == []


def test_the_probe_speaks_the_same_language(gate, tmp_path):
    said = []

    def rank():
        probe = ProbeGate(f"unix:{tmp_path}/gate.sock", rank=1, launch=0, restart=0)
        said.append(probe.arrive("step", 1, record={"n": 2}))
        said.append(probe.arrive("save", 1, call=2))

    thread = threading.Thread(target=rank)
    thread.start()
    try:
        for at in ("step", "save"):
            assert select.select([gate], [], [], 5)[0]
            (arrived,) = _news(gate)
            assert (arrived.at, arrived.pid) == (at, os.getpid())
            if at == "save":
                gate.order(1, {"do": "raise", "type": "OSError", "message": "injected"})
            gate.release(1, keep_gating=True)
    finally:
        thread.join(5)
    assert said[0] is None and isinstance(said[1], OSError)
    assert gate.raised(1)


def test_a_rank_whose_descriptors_were_closed_comes_back_and_writes_into_no_file_of_the_job(gate, tmp_path):
    own, said = tmp_path / "own", []

    def rank():
        probe = ProbeGate(f"unix:{tmp_path}/gate.sock", rank=1, launch=0, restart=0)
        said.append(probe.arrive("step", 1))
        for at in ("step", "done"):
            number = probe._socket.fileno()
            os.close(number)
            file = os.open(own, os.O_RDWR | os.O_CREAT)
            if file != number:
                os.dup2(file, number)
            said.append(probe.arrive("step", 2) if at == "step" else probe._close())
            os.fstat(number)
            os.close(number)

    thread = threading.Thread(target=rank)
    thread.start()
    try:
        for n in (1, 2):
            assert select.select([gate], [], [], 5)[0]
            arrived = _news(gate) or _news(gate)
            assert [(one.at, one.n, one.pid) for one in arrived] == [("step", n, os.getpid())]
            gate.order(1, {"do": "raise", "type": "OSError", "message": "injected"})
            gate.release(1, keep_gating=True)
    finally:
        thread.join(5)
    assert [type(one) for one in said] == [OSError, OSError, type(None)]
    assert own.read_text() == ""
