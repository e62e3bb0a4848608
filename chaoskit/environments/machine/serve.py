"""`serve`: the loop of a helper process: it answers its harness until that has ended. Standard library only.

It answers JSON lines, one request after the other: `{"do": name, ...}`, where `name` is a method of the served
object, with `{"done": result}` or `{"failed": message, "kind": the name of the exception}`.
`chaoskit.environments.machine.helper_process` is the other end.
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
    """Serve until the harness has closed the line or, where it is our parent, has ended. Exceptions in `refusals` are
    reported as failures.
    """
    poll = select.poll()
    poll.register(line, select.POLLIN)
    if (parent := os.getppid()) > 0:  # the first process of a container has none
        poll.register(os.pidfd_open(parent), select.POLLIN)
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
        why = {"failed": f"{name}: {error}", "why": str(error), "kind": type(error).__name__}
        return {**why, "errno": getattr(error, "errno", None)}
