"""Pods know each other by name, reach the test and are reached by it; commands, logs and ports through the API."""

from __future__ import annotations

import contextlib
import socket

import pytest
from kubernetes import stream, watch

from tests.kubernetes_server.control_plane import ControlPlane
from tests.kubernetes_server.expect import refused
from tests.kubernetes_server.names import Names

pytestmark = pytest.mark.launches
FOREVER = "exec sleep 1000"
SERVE = """
import socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.readline().upper())
socketserver.TCPServer(("", 7000), Echo).serve_forever()
"""


def headless(name, **selector):
    about = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
    return {"metadata": {"name": name}, "spec": about}


def lookup(*names):
    words = " ".join(names)
    return f"""for name in {words}; do getent ahostsv4 $name | sed -n 1p | grep -o '^[0-9.]*' || echo none; done"""


def serving(pods, name="one"):
    pods.make(name, "", container={"command": ["python3", "-c", SERVE]})
    address = pods.phase(name, "Running").status.pod_ip

    def listens():
        with contextlib.suppress(OSError), socket.create_connection((address, 7000), timeout=1):
            return True

    pods.until(listens, timeout=60)
    return address


@pytest.fixture
def run(pods):
    def start(*command, stdin=False, **options):
        call = pods.core.connect_get_namespaced_pod_exec
        wants = {"stdin": stdin, "stdout": True, "stderr": True, "tty": False, "_preload_content": False}
        return stream.stream(call, "one", pods.namespace, command=list(command), **wants | options)

    return start


def test_pods_of_a_headless_service_have_names(pods):
    pods.core.create_namespaced_service(pods.namespace, headless("s", run="r1"))
    spec = {"hostname": "rank-0", "subdomain": "s"}
    pods.make("one", FOREVER, spec=spec, labels={"run": "r1"})
    address = pods.phase("one", "Running").status.pod_ip
    domain = f"{pods.namespace}.svc.cluster.local"
    names = ["rank-0.s", f"rank-0.s.{pods.namespace}", f"rank-0.s.{pods.namespace}.svc", f"rank-0.s.{domain}", "s"]
    others = ["rank-2.s", "s.other", "example.invalid"]
    pods.make("two", f"hostname; {lookup(*names, *others)}", spec=spec | {"hostname": "rank-1"})
    pods.phase("two", "Succeeded")
    assert pods.log("two").split() == ["rank-1", *[address] * len(names), *["none"] * len(others)]


def test_a_name_comes_with_the_service_and_goes_with_the_pod(pods, run):
    pods.make("one", FOREVER)
    pods.make("two", FOREVER, spec={"hostname": "rank-0", "subdomain": "late"}, labels={"run": "r1"})
    address = pods.phase("two", "Running").status.pod_ip
    pods.phase("one", "Running")

    def found():
        done = run("sh", "-c", lookup("rank-0.late"))
        done.run_forever(timeout=60)
        return done.read_stdout().strip()

    assert found() == "none"
    pods.core.create_namespaced_service(pods.namespace, headless("late", run="r1"))
    assert found() == address
    pods.core.delete_namespaced_pod("two", pods.namespace, grace_period_seconds=0)
    assert found() == "none"


def test_a_name_without_publication_is_that_of_a_ready_pod(pods, api_server):
    service = headless("s", run="r1")
    del service["spec"]["publishNotReadyAddresses"]
    pods.core.create_namespaced_service(pods.namespace, service)
    names = Names(ControlPlane(api_server.store, api_server.catalogue, api_server.api, component="test"))
    name = f"rank-0.s.{pods.namespace}.svc.cluster.local"
    waits = ["sh", "-c", "until test -e /tmp/go; do sleep 0.1; done"]
    first = [{"name": "first", "image": pods.image, "command": waits}]
    spec = {"hostname": "rank-0", "subdomain": "s", "initContainers": first}
    pods.make("one", FOREVER, spec=spec, labels={"run": "r1"})
    pods.wait("one", lambda pod: pod.status.pod_ip and pod.status.init_container_statuses[0].state.running)
    assert names.addresses(name) == []
    call = pods.core.connect_get_namespaced_pod_exec
    stream.stream(call, "one", pods.namespace, command=["touch", "/tmp/go"], container="first", stdout=True)
    address = pods.phase("one", "Running").status.pod_ip
    assert names.addresses(name) == [address]


def test_an_ordinary_user_has_the_names_of_the_services_that_are_there(monkeypatch, request):
    def refuse(*_):
        raise PermissionError("port 53")

    monkeypatch.setattr("tests.kubernetes_server.kubelet.NameServer", refuse)
    pods = request.getfixturevalue("pods")
    pods.core.create_namespaced_service(pods.namespace, headless("s", run="r1"))
    spec = {"hostname": "rank-0", "subdomain": "s"}
    pods.make("one", FOREVER, spec=spec, labels={"run": "r1"})
    address = pods.phase("one", "Running").status.pod_ip
    pods.make("two", lookup("rank-0.s", f"rank-0.s.{pods.namespace}.svc.cluster.local", "s"))
    pods.phase("two", "Succeeded")
    assert pods.log("two").split() == [address] * 3


def test_a_pod_without_a_hostname_has_its_own_name(pods):
    spec = {"hostAliases": [{"ip": "10.1.2.3", "hostnames": ["a"]}]}
    pods.make("some-name", "hostname; cat /etc/hosts; env", spec=spec)
    pod = pods.phase("some-name", "Succeeded")
    log = pods.log("some-name")
    assert log.startswith("some-name\n") and "10.1.2.3\ta\n" in log and "HOSTNAME=some-name\n" in log
    assert f"{pod.status.pod_ip}\tsome-name\n" in log


def test_a_pod_reaches_the_test(pods, real_cluster):
    host = real_cluster.kubelet.host_address
    with socket.create_server((host, 0)) as listener:
        listener.settimeout(60)
        code = f"import socket; socket.create_connection({listener.getsockname()}).send(b'hello')"
        pods.make("one", "", container={"command": ["python3", "-c", code]})
        served, (address, _) = listener.accept()
        with served:
            assert served.recv(100) == b"hello"
    assert pods.phase("one", "Succeeded").status.pod_ip == address


def test_the_test_reaches_a_pod_and_pods_reach_each_other(pods):
    address = serving(pods)
    with socket.create_connection((address, 7000), timeout=60) as connected:
        connected.sendall(b"hello\n")
        assert connected.recv(100) == b"HELLO\n"
    code = f"import socket; s = socket.create_connection(('{address}', 7000)); s.send(b'x\\n'); print(s.recv(9))"
    pods.make("two", "", container={"command": ["python3", "-c", code]})
    pods.phase("two", "Succeeded")
    assert pods.log("two") == "b'X\\n'\n"


def test_the_address_of_a_pod_with_a_long_name_is_looked_up_at_once(pods):
    """torch looks up the address of each peer, and waits for the answer."""
    pods.make("a" * 60, "sleep 600")
    address = pods.phase("a" * 60, "Running").status.pod_ip
    code = f"import socket; print(socket.gethostbyaddr('{address}')[2])"
    pods.make("asks", f'python3 -c "{code}"')
    pods.phase("asks", "Succeeded")
    assert pods.log("asks") == f"['{address}']\n"


def test_a_port_is_forwarded_to_a_pod(pods):
    serving(pods)
    call = pods.core.connect_get_namespaced_pod_portforward
    forwarded = stream.portforward(call, "one", pods.namespace, ports="7000")
    with contextlib.closing(forwarded.socket(7000)) as connected:
        connected.settimeout(60)
        connected.sendall(b"hello\n")
        assert connected.recv(100) == b"HELLO\n"


def test_a_command_runs_in_a_container(pods, run):
    pods.make("one", FOREVER, container={"env": [{"name": "A", "value": "1"}]}, spec={"hostname": "inside"})
    pods.phase("one", "Running")
    done = run("sh", "-c", "echo $A $(hostname); echo err >&2; exit 3")
    done.run_forever(timeout=60)
    assert (done.read_stdout(), done.read_stderr(), done.returncode) == ("1 inside\n", "err\n", 3)
    done = run("cat", stdin=True)
    done.write_stdin("y" * 70_000)
    done.close_channel(0)
    done.run_forever(timeout=60)
    assert (len(done.read_stdout()), done.returncode) == (70_000, 0)


def test_a_command_ends_with_its_container(pods, run, real_cluster):
    uid = pods.make("one", FOREVER).metadata.uid
    pods.phase("one", "Running")
    running = run("sh", "-c", "echo begun; exec sleep 1000")
    assert running.readline_stdout(timeout=60) == "begun"
    real_cluster.kubelet.kill_container(uid)
    running.run_forever(timeout=60)
    assert running.returncode == 137


def test_a_container_that_has_ended_takes_no_command(pods, run):
    pods.make("one", "true")
    pods.phase("one", "Succeeded")
    done = run("true")
    done.run_forever(timeout=60)
    assert 'container not found (\\"main\\")' in done.read_channel(3)


def test_a_log_is_followed_to_its_end(pods):
    pods.make("one", "echo one; until test -e /tmp/go; do sleep 0.1; done; echo two; echo three")
    pods.phase("one", "Running")
    lines = watch.Watch().stream(pods.core.read_namespaced_pod_log, "one", pods.namespace, _request_timeout=60)
    assert next(lines) == "one"
    call = pods.core.connect_get_namespaced_pod_exec
    stream.stream(call, "one", pods.namespace, command=["touch", "/tmp/go"], stdout=True)
    assert list(lines) == ["two", "three"]
    assert pods.log("one") == "one\ntwo\nthree\n"
    with refused(400, "BadRequest", 'previous terminated container "main" in pod "one" not found'):
        pods.log("one", previous=True)


def test_a_long_log_is_whole(pods):
    pods.make("one", "", container={"command": ["python3", "-c", "print('x' * 300_000); print('end')"]})
    pods.phase("one", "Succeeded")
    assert len(pods.log("one")) == 300_005


def test_a_pod_that_waits_has_no_log(pods):
    pods.make("one", "true", container={"image": "example.invalid/absent:1"})
    pods.waits("one", "ErrImagePull")
    with refused(400, "BadRequest", 'container "main" in pod "one" is waiting to start'):
        pods.log("one")


def test_many_pods_say_all_they_have_to_say(pods):
    """Those that end while others begin, on a daemon that has much to do."""
    names = [f"p-{number}" for number in range(6)]
    for name in names:
        pods.make(name, f"echo {name}")
    for name in names:
        pods.phase(name, "Succeeded")
        assert pods.log(name) == f"{name}\n"
