"""What flows between a client and a pod: exec and port-forward over channels of a WebSocket, and logs."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from tests.kubernetes_server.calls import Call
from tests.kubernetes_server.pod_backend import PodBackend
from tests.kubernetes_server.refusals import Refusal, bad_request
from tests.kubernetes_server.websocket import WebSocket

Json = dict[str, Any]
STDIN, STDOUT, STDERR, ERROR = range(4)
#: Only in the fifth protocol: the channel whose messages close others.
CLOSES = 255
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
LOOK_AROUND = 0.05


def container_of(call: Call, pod: Json) -> str:
    """The container that a call means; raises Refusal where the pod has none of that name, or several."""
    names = [one["name"] for group in ("containers", "initContainers") for one in pod["spec"].get(group) or ()]
    name, pod_name = call.query.get("container", ""), pod["metadata"]["name"]
    if not name and len(pod["spec"]["containers"]) > 1:
        choices = " ".join(one["name"] for one in pod["spec"]["containers"])
        raise bad_request(f"a container name must be specified for pod {pod_name}, choose one of: [{choices}]")
    if name and name not in names:
        raise bad_request(f"container {name} is not valid for pod {pod_name}")
    return name or str(names[0])


def must_run(pod: Json, container: str) -> None:
    """Raise Refusal for a pod that is on no node, or whose container has not begun."""
    name = pod["metadata"]["name"]
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {name} does not have a host assigned")
    status = pod.get("status") or {}
    groups = ("initContainerStatuses", "containerStatuses")
    states = {one["name"]: one.get("state") or {} for group in groups for one in status.get(group) or ()}
    if status.get("phase") == "Pending" and not {"running", "terminated"} & set(states.get(container, ())):
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating')


def execute(web: WebSocket, backend: PodBackend, pod: Json, container: str, call: Call) -> None:
    """Run a command in a container, and tell in the end how it ended."""
    command = call.lists.get("command", [])
    try:
        process = backend.execute(pod, container, command, stdin=call.is_true("stdin"))
    except OSError as error:
        web.send(bytes([ERROR]) + json.dumps(_cannot_start(command, error)).encode())
        web.close()
        return
    outputs = ((process.stdout, STDOUT, "stdout"), (process.stderr, STDERR, "stderr"))
    pumps = [_thread(_pump, output, web, channel, call.is_true(name)) for output, channel, name in outputs]
    feeder = _thread(_feed, web, process)
    for pump in pumps:
        pump.join()
    web.send(bytes([ERROR]) + json.dumps(_ended(process.wait())).encode())
    web.close()
    feeder.join()


def forward(web: WebSocket, backend: PodBackend, pod: Json, ports: Sequence[int]) -> None:
    """Carry bytes between the client and ports of a pod: two channels for each port, for data and for an error."""
    sockets: dict[int, socket.socket] = {}
    pumps = []
    for number, port in enumerate(ports):
        for channel in (2 * number, 2 * number + 1):
            web.send(bytes([channel]) + port.to_bytes(2, "little"))
        try:
            sockets[2 * number] = backend.connect(pod, port)
        except OSError as error:
            why = f"error forwarding port {port} to pod {pod['metadata']['uid']}: {error}"
            web.send(bytes([2 * number + 1]) + why.encode())
            continue
        pumps.append(_thread(_pump, sockets[2 * number].makefile("rb", buffering=0), web, 2 * number, True))
    _thread(_close_after, web, pumps)
    for message in web.messages():
        if message and message[0] in sockets:
            with contextlib.suppress(OSError):
                sockets[message[0]].sendall(message[1:])
    for connected in sockets.values():
        with contextlib.suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)
        connected.close()


def log(
    backend: PodBackend, pod: Json, container: str, call: Call, is_over: Callable[[], bool]
) -> Iterator[bytes | None]:
    """What a container wrote; with `follow`, until the pod is over."""
    previous = call.is_true("previous")
    try:
        path = backend.log(pod, container, previous=previous)
    except OSError:
        which = "previous terminated container" if previous else "container"
        raise bad_request(f'{which} "{container}" in pod "{pod["metadata"]["name"]}" not found') from None
    return _lines(path.open("rb"), call, is_over)


def _lines(file: IO[bytes], call: Call, is_over: Callable[[], bool]) -> Iterator[bytes | None]:
    with file:
        tail = call.number_of("tailLines")
        if tail is not None:
            lines = file.readlines()
            yield from lines[-tail:] if tail else []
        while True:
            over = is_over()
            if part := file.read(65536):
                yield part
            elif over or not call.is_true("follow"):
                return
            else:
                yield None
                time.sleep(LOOK_AROUND)


def _pump(output: IO[bytes], web: WebSocket, channel: int, wanted: bool) -> None:
    with output:
        while part := _read(output):
            if wanted:
                web.send(bytes([channel]) + part)


def _read(output: IO[bytes]) -> bytes:
    """What is there already; nothing at the end, or where the connection is cut."""
    try:
        return getattr(output, "read1", output.read)(65536) or b""
    except (OSError, ValueError):
        return b""


def _feed(web: WebSocket, process: subprocess.Popen[bytes]) -> None:
    """Give a process what the client sends, until the client goes or closes the channel."""
    for message in web.messages():
        closes = web.protocol == PROTOCOLS[0] and message[:2] == bytes([CLOSES, STDIN])
        if process.stdin is None or not message:
            continue
        with contextlib.suppress(OSError, ValueError):
            if closes:
                process.stdin.close()
            elif message[0] == STDIN:
                process.stdin.write(message[1:])
                process.stdin.flush()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _close_after(web: WebSocket, pumps: list[threading.Thread]) -> None:
    for pump in pumps:
        pump.join()
    if pumps:
        web.close()


def _thread(target: Callable[..., None], *args: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, daemon=True, name=f"api-server-{target.__name__}")
    thread.start()
    return thread


def _ended(code: int) -> Json:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    shown = str(128 - code if code < 0 else code)
    why = f"command terminated with non-zero exit code: command terminated with exit code {shown}"
    details = {"causes": [{"reason": "ExitCode", "message": shown}]}
    return {"metadata": {}, "status": "Failure", "message": why, "reason": "NonZeroExitCode", "details": details}


def _cannot_start(command: Sequence[str], error: OSError) -> Json:
    first = command[0] if command else ""
    why = f'error executing command in container: exec: "{first}": {error.strerror or error}: unknown'
    refusal = Refusal(500, "InternalError", f"Internal error occurred: {why}", details={"causes": [{"message": why}]})
    return refusal.status()
