"""`serve`: the loop of a helper process: it answers its harness until that has ended. Standard library only.

It answers JSON lines, one request after the other: `{"do": name, ...}`, where `name` is a method of the served
object, with `{"done": result}` or `{"failed": message}`. `chaoskit.environments.machine.helper_process` is the
other end.
"""

from __future__ import annotations

import json
import os
import select
import socket
from typing import Any

from chaoskit.protocol.json_lines import LineBuffer, encode

#: For one wrong word nobody loses what he has.
REFUSALS: tuple[type[Exception], ...] = (OSError, LookupError, ValueError)


def serve(line: socket.socket, what: object, *, refusals: tuple[type[Exception], ...] = REFUSALS) -> None:
    """Serve until the harness, our parent, has ended or closed the line. Exceptions in `refusals` are reported as
    failures.
    """
    harness = os.pidfd_open(os.getppid())
    poll = select.poll()
    for fd in (line.fileno(), harness):
        poll.register(fd, select.POLLIN)
    buffer = LineBuffer()
    while True:
        ready = [fd for fd, _ in poll.poll()]
        data = line.recv(1 << 16) if line.fileno() in ready else b""
        if not data:
            return
        for request in buffer.feed(data):
            line.sendall(encode(_answer(what, json.loads(request), refusals)))


def _answer(what: object, request: dict[str, Any], refusals: tuple[type[Exception], ...]) -> dict[str, Any]:
    name = request.pop("do")
    try:
        return {"done": getattr(what, name)(**request)}
    except refusals as error:
        return {"failed": f"{name}: {error}", "errno": getattr(error, "errno", None)}
