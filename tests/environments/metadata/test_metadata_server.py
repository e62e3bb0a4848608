"""The server at which a job asks: over real connections, with a record of who asked what."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace

import pytest

from chaoskit.environments.machine import processes
from chaoskit.environments.metadata.asker import line_of, process_of, rank_of
from chaoskit.environments.metadata.messages import MetadataAnswer
from chaoskit.environments.metadata.metadata_server import MetadataServer
from chaoskit.environments.metadata.run_metadata import RunMetadata
from chaoskit.environments.records.ranks import Rank
from chaoskit.errors import UsageError

TTL = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}


def bound():
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    return made


@dataclass
class Echo:
    """Answers with what it was asked."""

    hops: int | None = None
    asked: list = field(default_factory=list)

    def answer(self, request):
        self.asked.append(request)
        return MetadataAnswer(200, f"{request.method} {request.path}", headers={"ETag": "7"}, hops=self.hops)


@pytest.fixture
def serve():
    """A server for that service, and what was noted of its requests."""
    made = []

    def start(service):
        noted = []
        server = MetadataServer(bound(), service, asker=lambda port: {"port": port}, note=noted.append)
        made.append(server)
        return server, noted

    yield start
    for each in made:
        each.close()


def test_one_connection_serves_several_requests(serve):
    server, noted = serve(service := Echo())
    line = http.client.HTTPConnection(*server.address, timeout=10)
    line.request("GET", "/a/b?c=d&e=", headers={"X-Some": "Thing"})
    answer = line.getresponse()
    assert (answer.status, answer.read(), answer.getheader("ETag")) == (200, b"GET /a/b", "7")
    port = line.sock.getsockname()[1]
    line.request("PUT", "/c", body=b"some")
    assert line.getresponse().read() == b"PUT /c"
    line.request("HEAD", "/d")
    assert line.getresponse().read() == b""
    line.close()
    first, second, _ = service.asked
    assert (first.query, first.headers["x-some"], second.body) == ({"c": "d", "e": ""}, "Thing", b"some")
    assert [(each["method"], each["path"], each["status"], each["port"]) for each in noted] == [
        ("GET", "/a/b?c=d&e=", 200, port), ("PUT", "/c", 200, port), ("HEAD", "/d", 200, port),
    ]  # fmt: skip
    assert all(each["at"] <= each["answered"] for each in noted)


def test_the_hop_limit_is_on_the_answer_with_the_token_alone(serve, monkeypatch):
    """As a client cannot see it: of how many hops each socket is before its answer is sent."""
    server, _ = serve(service := Echo(hops=1))
    seen = []
    whole = service.answer

    def answer(request):
        service.hops = 1 if request.path == "/token" else None
        return whole(request)

    service.answer = answer
    monkeypatch.setattr(
        "chaoskit.environments.metadata.metadata_server._Handler.end_headers",
        lambda self: (
            seen.append(self.connection.getsockopt(socket.IPPROTO_IP, socket.IP_TTL)),
            http.server.BaseHTTPRequestHandler.end_headers(self),
        ),
    )
    line = http.client.HTTPConnection(*server.address, timeout=10)
    for path in ("/token", "/else"):
        line.request("GET", path)
        line.getresponse().read()
    assert seen == [1, 64]


def test_a_request_that_is_too_large_is_refused(serve):
    server, noted = serve(Echo())
    line = http.client.HTTPConnection(*server.address, timeout=10)
    line.putrequest("POST", "/a")
    line.putheader("Content-Length", str(1 << 20))
    line.endheaders()
    assert line.getresponse().status == 400
    assert noted[0]["status"] == 400


def test_the_end_closes_connections_that_are_open(serve):
    server, _ = serve(Echo())
    line = http.client.HTTPConnection(*server.address, timeout=10)
    line.request("GET", "/")
    line.getresponse().read()
    server.close()
    assert line.sock.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(server.address)


ASK = """
import socket, sys
made = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print(made.getsockname()[1], flush=True)
sys.stdin.read()
"""


def test_who_is_at_the_other_end():
    with socket.create_server(("127.0.0.1", 0)) as ear:
        command = [sys.executable, "-I", "-S", "-c", ASK, str(ear.getsockname()[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            port = int(child.stdout.readline())
            among = [processes.identify(os.getpid()), processes.identify(child.pid)]
            assert process_of(port, among) == child.pid
            assert process_of(port, among[:1]) is None
            assert process_of(1, among) is None
            line = line_of(port, among)
            assert line[:2] == [child.pid, os.getpid()] and line_of(1, among) == []
            rank = Rank(3, os.getpid(), 0, 0, 0, 0.0, node="node1")
            assert rank_of(line, [rank], node="node1") == 3
            assert rank_of(line, [rank], node="node0") is None, "containers count their processes alike"
            assert rank_of(line, [replace(rank, node="")], node="node0") == 3
            assert rank_of(line, [], node="node1") is None
            child.stdin.close()


def _own(node, port):
    return line_of(port, [processes.identify(os.getpid())])


@pytest.fixture
def aws():
    made = RunMetadata("aws", line_of=_own, ranks=dict)
    yield made
    made.close()


def get(address, path, **headers):
    line = http.client.HTTPConnection(*address, timeout=10)
    try:
        line.request("GET", path, headers=headers)
        answer = line.getresponse()
        return answer.status, answer.read().decode()
    finally:
        line.close()


def test_each_node_has_a_service_of_its_own(aws):
    one, two = aws.serve("node0", bound()), aws.serve("node1", bound())
    aws.board("node1").post(seconds=60)
    line = http.client.HTTPConnection(*two, timeout=10)
    line.request("PUT", "/latest/api/token", headers=TTL)
    token = line.getresponse().read().decode()
    line.close()
    action = "/latest/meta-data/spot/instance-action"
    assert get(two, action, **{"X-aws-ec2-metadata-token": token})[0] == 200
    assert get(one, action)[0] == 401
    found = [(each.kind, each.data["cloud"], each.data["node"], each.data["status"]) for each in aws.asked()]
    assert found == [("metadata", "aws", "node1", 200)] * 2 + [("metadata", "aws", "node0", 401)]
    assert aws.asked() == []
    with pytest.raises(LookupError, match="node7"):
        aws.board("node7")


def test_the_record_says_which_process_asked(aws):
    address = aws.serve("node0", bound())
    get(address, "/")
    (event,) = aws.asked()
    assert (event.data["pid"], event.data["rank"]) == (os.getpid(), None)


def test_a_node_that_is_made_again_is_answered_again(aws):
    aws.serve("node0", bound())
    address = aws.serve("node0", bound())
    assert get(address, "/")[0] == 401


def test_the_end_lets_go_of_who_waits():
    google = RunMetadata("gcp", line_of=lambda node, port: [], ranks=dict)
    address = google.serve("node0", bound())
    told = []
    path = "/computeMetadata/v1/instance/preempted?wait_for_change=true"
    given = {"Metadata-Flavor": "Google"}
    waiter = threading.Thread(target=lambda: told.append(get(address, path, **given)), daemon=True)
    waiter.start()
    waiter.join(0.2)
    assert waiter.is_alive()
    google.close()
    waiter.join(10)
    assert not waiter.is_alive()


def test_no_such_cloud():
    with pytest.raises(UsageError, match=r"'moon'.*aws, gcp, azure"):
        RunMetadata("moon", line_of=lambda node, port: [], ranks=dict)
