"""Virtual hosts and their network, without any job: what each has of its own, how they are cut off and come back."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaoskit.environments.launch.host import enter
from chaoskit.environments.netns.client import HelperRefused, NetnsClient
from chaoskit.errors import ChaoskitError
from tests.users import as_root_only, repeat

PYTHON = [sys.executable, "-I", "-S", "-c"]
#: Makes a socket and hands it over: it belongs to the network in which it was made.
SOCKET = """
import socket, sys
line, made = socket.socket(fileno=int(sys.argv[1])), eval(sys.argv[2])
socket.send_fds(line, [b"x"], [made.fileno()])
"""
LIMIT = 10.0
EVERYWHERE = {"0>1", "1>0", "0>2", "2>0", "1>2", "2>1"}


@dataclass(frozen=True)
class Network:
    """The hosts of a run: their switchboard, the file of their names, and their namespaces by name."""

    client: NetnsClient
    names: Path
    hosts: dict[str, Mapping[str, str]]

    def add(self, number: int) -> None:
        """Make a host."""
        told = self.client.ask("add", name=f"node{number}", number=number, names=str(self.names))
        self.hosts[f"node{number}"] = told["host"]

    def remove(self, number: int) -> None:
        """Let go of a host."""
        self.client.ask("remove", name=f"node{number}")
        del self.hosts[f"node{number}"]

    def tell(self, node: str, code: str, *args: object) -> str:
        """What a Python program says that runs on a host."""
        done = subprocess.run(
            [*PYTHON, code, *map(str, args)],
            preexec_fn=lambda: enter(self.hosts[node], "/"), capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def socket(self, node: str, made: str) -> socket.socket:
        """A socket that was made on a host."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            subprocess.run(
                [*PYTHON, SOCKET, str(theirs.fileno()), made],
                pass_fds=[theirs.fileno()], preexec_fn=lambda: enter(self.hosts[node], "/"), check=True, timeout=30,
            )  # fmt: skip
            _, (fd,), *_ = socket.recv_fds(ours, 1, 1)
        found = socket.socket(fileno=fd)
        found.settimeout(LIMIT)
        return found

    def reached(self) -> set[str]:
        """The ways that are open."""
        return {
            f"{a[4:]}>{b[4:]}"
            for a in self.hosts
            for b in self.hosts
            if a != b and self.client.ask("reaches", source=a, target=b)
        }

    def cut(self, *ways: str, how: str = "drop", percent: float = 100) -> int:
        """Cut ways such as `0>1`."""
        named = [[f"node{number}" for number in way.split(">")] for way in ways]
        return self.client.ask("cut", ways=named, how=how, percent=percent)


@pytest.fixture(scope="module")
def build(tmp_path_factory, hosts_here):
    """Make the hosts node0, node1 ... of a run; their names stand in the file `names`. They go with the last test."""
    with ExitStack() as undo:

        def begin(count, run="test"):
            names = tmp_path_factory.mktemp(run) / "hosts"
            names.write_text("127.0.0.1 localhost\n" + "".join(f"10.77.0.{n + 1} node{n}\n" for n in range(count)))
            client = NetnsClient(run)
            undo.callback(client.close)
            network = Network(client, names, {})
            for number in range(count):
                network.add(number)
            return network

        yield begin


@pytest.fixture(scope="module")
def three(build):
    return build(3)


@pytest.fixture
def network(three):
    """Three hosts, which the tests share: each leaves them as it found them."""
    assert three.reached() == EVERYWHERE
    return three


OWN = """
import json, os, socket, sys
def refused(address):
    with socket.socket() as made:
        made.settimeout(5)
        try:
            made.connect(address)
        except ConnectionRefusedError:
            return True
def bound(address):
    with socket.socket() as made:
        try:
            made.bind((address, 0))
        except OSError:
            return False
        return True
before = os.listdir("/dev/shm")
open(f"/dev/shm/{sys.argv[2]}-{socket.gethostname()}", "w").close()
known = {name: socket.gethostbyname(name) for name in ("node0", "node1", "node2", "localhost")}
print(json.dumps({
    "name": socket.gethostname(), "links": sorted(name for _, name in socket.if_nameindex()), "shm": before,
    "known": known, "bound": [name for name in known if bound(known[name])],
    "alone": refused(("127.0.0.1", int(sys.argv[1]))), "uid": os.getuid(),
}))
"""


def test_each_host_has_a_name_an_address_a_loopback_and_a_memory_of_its_own(network):
    name, mark = socket.gethostname(), uuid.uuid4().hex
    names = {f"node{n}": f"10.77.0.{n + 1}" for n in range(3)} | {"localhost": "127.0.0.1"}
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        with network.socket("node1", f"socket.create_server(('127.0.0.1', {port}))"):
            for node in network.hosts:
                told = json.loads(network.tell(node, OWN, port, mark))
                assert told == {
                    "name": node, "links": ["eth0", "lo"], "shm": [], "known": names, "bound": [node, "localhost"],
                    "alone": True if node != "node1" else None, "uid": os.getuid(),
                }  # fmt: skip
                assert network.tell(node, "import os; print(os.listdir('/dev/shm'))") == f"['{mark}-{node}']\n"
    assert socket.gethostname() == name
    assert not [left for left in os.listdir("/dev/shm") if mark in left]
    with pytest.raises(OSError):
        socket.gethostbyname("node2")


def test_a_connection_goes_by_name(network):
    with (
        network.socket("node1", "socket.create_server(('node1', 5000))") as ear,
        network.socket("node2", "socket.create_connection(('node1', 5000))") as mouth,
    ):
        there, (address, _) = ear.accept()
        with there:
            assert address == "10.77.0.3"
            mouth.sendall(b"hello")
            assert there.recv(10) == b"hello"


def test_what_is_cut_is_this_way_and_no_other(network):
    cut = network.cut("0>1")
    assert network.reached() == EVERYWHERE - {"0>1"}
    other = network.cut("0>1", "0>2", "2>0")
    assert network.reached() == {"1>0", "1>2", "2>1"}
    network.client.ask("mend", cut=cut)
    network.client.ask("mend", cut=cut)
    assert network.reached() == {"1>0", "1>2", "2>1"}
    network.client.ask("mend", cut=other)
    assert network.reached() == EVERYWHERE


def _came(ear):
    count = 0
    with suppress(BlockingIOError):
        while ear.recv(100):
            count += 1
    return count


@pytest.mark.parametrize(("percent", "least", "most"), [(100, 400, 400), (30, 60, 180), (1.5, 0, 30)])
def test_a_share_of_the_packets_is_lost_and_counted(network, percent, least, most):
    with (
        network.socket("node1", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)") as ear,
        network.socket("node0", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)") as mouth,
    ):
        ear.bind(("10.77.0.2", 5000))
        ear.setblocking(False)
        mouth.connect(("10.77.0.2", 5000))
        mouth.send(b"hello")  # their addresses are found
        cut = network.cut("0>1", "1>0", percent=percent)
        came = _came(ear)
        for _ in range(400):
            mouth.send(b"x" * 64)
            came += _came(ear)
        time.sleep(0.05)
        came += _came(ear) - 1
        for _ in range(8 if percent < 100 else 1):  # our own packets are not the job's
            network.client.ask("reaches", source="node0", target="node1")
        lost = network.client.ask("lost", cut=cut)
        network.client.ask("mend", cut=cut)
        assert lost == {"node0>node1": 400 - came, "node1>node0": 0}
        assert least <= 400 - came <= most


def _pair(network, ear):
    mouth = network.socket("node0", "socket.socket()")
    mouth.connect(("10.77.0.2", 5000))
    there, _ = ear.accept()
    there.settimeout(LIMIT)
    return mouth, there


def _talk(one, other):
    for source, target in ((one, other), (other, one)):
        source.sendall(b"hello")
        assert target.recv(10) == b"hello"


def test_connections_are_reset_when_something_goes_over_them_and_new_ones_work(network):
    with network.socket("node1", "socket.create_server(('node1', 5000))") as ear, ExitStack() as undo:
        old, silent = _pair(network, ear), _pair(network, ear)
        for pair in (old, silent):
            _talk(*pair)
        cut = network.cut("0>1", "1>0", how="reset")
        new = _pair(network, ear)
        for end in (*old, *silent, *new):
            undo.callback(end.close)
        _talk(*new)
        for end in old:
            end.sendall(b"lost")
            with pytest.raises(ConnectionResetError):
                end.recv(10)
        _talk(*new)
        assert network.client.ask("lost", cut=cut) == {"node0>node1": 1, "node1>node0": 1}
        assert network.reached() == EVERYWHERE
        network.client.ask("mend", cut=cut)
        for pair in (silent, new):
            _talk(*pair)


def test_names_are_what_the_file_says_at_the_time(network):
    def known():
        return [n for n in range(4) if network.client.ask("resolves", node="node0", name=f"node{n}")]

    before = network.names.read_text()
    assert known() == [0, 1, 2]
    network.names.write_text("10.77.0.1 node0\n")
    assert known() == [0]
    assert network.reached() == EVERYWHERE
    network.names.write_text(before)
    assert known() == [0, 1, 2]


def test_what_cannot_be_done_is_refused_and_costs_nothing_else(network):
    with pytest.raises(HelperRefused, match="add:"):
        network.client.ask("add", name="node7", number=1, names="/etc/hosts")
    with pytest.raises(HelperRefused, match="add:"):
        network.client.ask("add", name="node7", number=7, names="/no/such/file")
    for request in ("unplug", "remove"):
        with pytest.raises(HelperRefused, match="node7"):
            network.client.ask(request, name="node7")
    assert network.reached() == EVERYWHERE
    assert network.tell("node0", "import socket; print(socket.gethostname())") == "node0\n"


def test_nobody_hears_of_a_host_that_is_unplugged_and_a_cut_outlasts_it(network):
    cut = network.cut("0>1", "1>2")
    network.client.ask("unplug", name="node1")
    assert network.reached() == {"0>2", "2>0"}
    with network.socket("node1", "socket.socket()"):  # it holds on to the old host
        network.remove(1)
        with pytest.raises(HelperRefused, match="node1"):
            network.client.ask("reaches", source="node0", target="node1")
        network.add(1)
        assert network.tell("node1", "import os; print(os.listdir('/dev/shm'))") == "[]\n"
        assert network.reached() == EVERYWHERE - {"0>1", "1>2"}
        assert network.client.ask("lost", cut=cut) == {"node0>node1": 0, "node1>node2": 0}
        network.client.ask("mend", cut=cut)
        assert network.reached() == EVERYWHERE


def test_a_host_that_was_asked_for_in_vain_is_found_at_once_when_it_is_there_again(network):
    """Whoever asked would by himself ask again after a second."""
    network.add(3)
    network.client.ask("unplug", name="node3")
    assert not network.client.ask("reaches", source="node0", target="node3")
    network.remove(3)
    network.add(3)
    with network.socket("node3", "socket.create_server(('10.77.0.4', 5000))") as ear:
        with network.socket("node0", "socket.socket()") as mouth:
            mouth.settimeout(0.9)
            mouth.connect(("10.77.0.4", 5000))
        ear.accept()[0].close()
    network.remove(3)


def test_two_runs_side_by_side_do_not_meet(build):
    one, other = build(2, "one"), build(2, "other")
    with one.socket("node0", "socket.create_server(('node0', 5000))") as ear:
        with other.socket("node1", "socket.socket()") as stranger, pytest.raises(ConnectionRefusedError):
            stranger.connect(("10.77.0.1", 5000))
        with one.socket("node1", "socket.create_connection(('node0', 5000))"):
            ear.accept()[0].close()
        with other.socket("node0", "socket.create_server(('node0', 5000))"):
            one.cut("0>1")
            assert (one.reached(), other.reached()) == ({"1>0"}, {"0>1", "1>0"})
    one.client.close()
    assert other.reached() == {"0>1", "1>0"}


# What is left.


#: The links and the mounts of containers, which come and go beside this test.
CONTAINERS = re.compile(
    r"^\d+: (docker0|br-[0-9a-f]{12}|veth[0-9a-f]{7})[@:]| - (overlay|nsfs|fuse\S*) |/volumes/\S+/_data "
)


def surroundings():
    """What a run must leave as it was, of the machine as we see it."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    lines = [*links.splitlines(), *Path("/proc/self/mountinfo").read_text().splitlines()]
    own = [line for line in lines if not CONTAINERS.search(line)]
    return own, socket.gethostname(), Path("/etc/hosts").read_text()


def inside(hosts):
    """The namespaces of these hosts, as their links read."""
    return {os.readlink(path) for host in hosts.values() for path in host.values()}


def holding(namespaces):
    """The processes that are in one of these namespaces, or hold one open."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            links = [*process.glob("ns/*"), *process.glob("fd/*")]
            found |= {process.name for link in links if os.path.lexists(link) and _target(link) in namespaces}
    return found


def _target(link):
    try:
        return os.readlink(link)
    except OSError:
        return ""


def test_nothing_is_left_when_it_is_closed_and_nobody_is_there(build, until):
    before = surroundings()
    network = build(2)
    namespaces = inside(network.hosts)
    assert len(namespaces - inside({"here": {"net": "/proc/self/ns/net", "uts": "/proc/self/ns/uts"}})) >= 6
    guest = subprocess.Popen(["sleep", "1000"], preexec_fn=lambda: enter(network.hosts["node0"], "/"))
    try:
        assert {str(guest.pid), str(network.client._process.pid)} <= holding(namespaces)
        network.client.close()
        network.client.close()
        assert holding(namespaces) == {str(guest.pid)}
    finally:
        guest.kill()
        guest.wait()
    assert holding(namespaces) == set()
    assert surroundings() == before
    with pytest.raises(ChaoskitError):
        network.client.ask("begin")


HARNESS = """
import json, os, signal, sys
from chaoskit.environments.netns.client import NetnsClient
client = NetnsClient("test")
hosts = {name: client.ask("add", name=name, number=n, names="/etc/hosts")["host"] for n, name in enumerate("ab")}
bystander = os.fork()  # it has all that the harness has open
if bystander == 0:
    signal.pause()
print(json.dumps([hosts, client._process.pid, bystander]), flush=True)
signal.pause()
"""


def test_nothing_is_left_when_the_harness_is_killed(hosts_here, until):
    before = surroundings()
    harness = subprocess.Popen([sys.executable, "-c", HARNESS], stdout=subprocess.PIPE, text=True)
    hosts, holder, bystander = json.loads(harness.stdout.readline())
    try:
        namespaces = inside(hosts)
        assert holding(namespaces) == {str(holder)}
        harness.kill()
        harness.wait()
        until(lambda: not holding(namespaces))
        until(lambda: not Path(f"/proc/{holder}").exists())
        assert surroundings() == before
    finally:
        os.kill(bystander, signal.SIGKILL)
        harness.kill()
        harness.communicate()


def test_a_holder_that_is_killed_is_missed(build):
    network = build(1)
    os.kill(network.client._process.pid, signal.SIGKILL)
    with pytest.raises(ChaoskitError, match=r"the netns helper has ended.*exit code -9"):
        network.client.ask("reaches", source="node0", target="node0")


@as_root_only
@pytest.mark.slow
def test_all_of_it_as_an_ordinary_user(request):
    repeat(request, __file__, "-m", "not slow")
