"""Exec, port-forward and logs, as the official client speaks them. The pod's processes are those of this machine."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading

import pytest
from kubernetes import client, config, stream, watch
from websocket import ABNF

from tests.kubernetes_server.expect import refused
from tests.kubernetes_server.objects import pod
from tests.kubernetes_server.pod_backend import LocalProcesses
from tests.kubernetes_server.websocket import BINARY, CONTINUED, WebSocket, accept_key


@pytest.fixture
def files(api_server, tmp_path):
    directory = tmp_path / "pods"
    directory.mkdir()
    api_server.api.backend = LocalProcesses(directory)
    return directory


@pytest.fixture
def running(api_server, files, namespace):
    """A pod that a kubelet of a real cluster would run; gives its uid."""
    body = pod("one") | {"status": {"phase": "Running"}}
    body["spec"]["nodeName"] = "node-1"
    return api_server.put("pods", body, namespace=namespace)["metadata"]["uid"]


@pytest.fixture
def run(core, running, namespace):
    def start(*command, stdin=False, **options):
        call = core.connect_get_namespaced_pod_exec
        wants = {"stdin": stdin, "stdout": True, "stderr": True, "tty": False, "_preload_content": False}
        return stream.stream(call, "one", namespace, command=list(command), **wants | options)

    return start


def test_a_command_says_what_it_says_and_how_it_ended(run):
    done = run("sh", "-c", "echo out; echo err >&2; exit 3")
    done.run_forever(timeout=60)
    assert (done.read_stdout(), done.read_stderr(), done.returncode) == ("out\n", "err\n", 3)
    done = run("true")
    done.run_forever(timeout=60)
    assert done.returncode == 0


def test_all_at_once_is_what_a_simple_call_gives(run):
    assert run("echo", "a b", "c", _preload_content=True) == "a b c\n"


def test_much_comes_whole(run):
    done = run(sys.executable, "-c", "print('x' * 300_000)")
    done.run_forever(timeout=60)
    assert len(done.read_stdout()) == 300_001


def test_a_command_reads_what_the_client_writes_until_it_closes_the_channel(run):
    done = run("cat", stdin=True)
    done.write_stdin("hello\n")
    assert done.readline_stdout(timeout=60) == "hello"
    done.write_stdin("y" * 70_000)
    done.close_channel(0)
    done.run_forever(timeout=60)
    assert (len(done.read_stdout()), done.returncode) == (70_000, 0)


def test_a_killed_command_has_the_code_of_its_signal(run):
    done = run("sh", "-c", "kill -9 $$")
    done.run_forever(timeout=60)
    assert done.returncode == 137


def test_a_command_that_is_not_there_is_an_error_of_the_server(run):
    done = run("no-such-command")
    done.run_forever(timeout=60)
    status = done.read_channel(3)
    assert "InternalError" in status and 'exec: \\"no-such-command\\"' in status


def test_a_pod_that_does_not_run_takes_no_command(core, namespace):
    body = pod("waiting")
    body["spec"]["schedulingGates"] = [{"name": "example.invalid/never"}]
    core.create_namespaced_pod(namespace, body)
    with pytest.raises(client.ApiException, match="400"):
        stream.stream(core.connect_get_namespaced_pod_exec, "waiting", namespace, command=["true"], stdout=True)
    with pytest.raises(client.ApiException, match="404"):
        stream.stream(core.connect_get_namespaced_pod_exec, "not-there", namespace, command=["true"], stdout=True)


def test_a_stream_needs_the_right_to_create(api, api_server, running, namespace, tmp_path):
    api_server.add_user("reader")
    rbac = client.RbacAuthorizationV1Api(api)
    rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}
    rbac.create_namespaced_role(namespace, {"metadata": {"name": "reader"}, "rules": [rule]})
    group = "rbac.authorization.k8s.io"
    body = {"metadata": {"name": "reader"}, "subjects": [{"kind": "User", "name": "reader", "apiGroup": group}],
            "roleRef": {"kind": "Role", "name": "reader", "apiGroup": group}}  # fmt: skip
    rbac.create_namespaced_role_binding(namespace, body)
    with config.new_client_from_config(str(api_server.kubeconfig(tmp_path, token="reader"))) as reader:
        call = client.CoreV1Api(reader).connect_get_namespaced_pod_exec
        with pytest.raises(client.ApiException, match="403"):
            stream.stream(call, "one", namespace, command=["true"], stdout=True)


def test_a_port_is_forwarded(core, running, namespace):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        port = listener.getsockname()[1]

        def echo():
            served, _ = listener.accept()
            with served:
                served.sendall(served.recv(100).upper())

        served = threading.Thread(target=echo)
        served.start()
        call = core.connect_get_namespaced_pod_portforward
        forwarded = stream.portforward(call, "one", namespace, ports=str(port))
        with contextlib.closing(forwarded.socket(port)) as connected:
            connected.settimeout(60)
            connected.sendall(b"hello")
            assert connected.recv(100) == b"HELLO"
            assert connected.recv(100) == b""
        served.join()
        assert forwarded.error(port) is None


def test_a_port_where_nobody_listens_is_an_error_of_that_port(core, running, namespace, until):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    call = core.connect_get_namespaced_pod_portforward
    forwarded = stream.portforward(call, "one", namespace, ports=str(port))
    until(lambda: forwarded.error(port), timeout=60)
    assert "Connection refused" in forwarded.error(port)
    forwarded.close()


def test_a_log_is_read_and_its_end_alone(core, running, files, namespace):
    (files / f"{running}.main.log").write_text("one\ntwo\nthree\n")
    assert core.read_namespaced_pod_log("one", namespace) == "one\ntwo\nthree\n"
    assert core.read_namespaced_pod_log("one", namespace, tail_lines=2) == "two\nthree\n"
    with refused(400, "BadRequest", 'previous terminated container "main" in pod "one" not found'):
        core.read_namespaced_pod_log("one", namespace, previous=True)
    with refused(400, "BadRequest", "container other is not valid for pod one"):
        core.read_namespaced_pod_log("one", namespace, container="other")


def test_a_log_is_followed_until_the_pod_is_over(core, running, files, namespace):
    path = files / f"{running}.main.log"
    path.write_text("one\n")
    lines = watch.Watch().stream(core.read_namespaced_pod_log, "one", namespace, _request_timeout=30)
    assert next(lines) == "one"
    with path.open("a") as file:
        file.write("two\n")
    assert next(lines) == "two"
    core.patch_namespaced_pod_status("one", namespace, {"status": {"phase": "Succeeded"}})
    assert list(lines) == []


def test_a_followed_log_ends_with_its_pod(core, running, files, namespace):
    (files / f"{running}.main.log").write_text("one\n")
    lines = watch.Watch().stream(core.read_namespaced_pod_log, "one", namespace, _request_timeout=30)
    assert next(lines) == "one"
    core.delete_namespaced_pod("one", namespace, grace_period_seconds=0)
    assert list(lines) == []


def test_nothing_that_was_started_outlives_the_server(api_server, run, until):
    running = run("sleep", "1000")
    until(lambda: api_server.api.backend.started)
    (started,) = api_server.api.backend.started
    assert started.poll() is None
    api_server.api.backend.close()
    assert started.poll() is not None
    running.run_forever(timeout=60)
    assert running.returncode == 137


def test_a_message_may_come_in_parts():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for part, opcode, final in ((b"one ", BINARY, 0), (b"message", CONTINUED, 1), (b"another", BINARY, 1)):
            theirs.sendall(ABNF.create_frame(part, opcode, fin=final).format())
        theirs.shutdown(socket.SHUT_WR)
        with ours.makefile("rb") as reader:
            assert list(WebSocket(ours, reader, "v5").messages()) == [b"one message", b"another"]


def test_the_handshake_is_that_of_the_standard():
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
