"""`serve`: what a servant does all day: it answers its harness, until that has gone. Standard library only.

It answers JSON lines, one request after the other: `{"do": name, ...}`, where the name is that of a method of what it
serves, with `{"done": result}` or `{"failed": message}`. See `chaoskit.environments.servant` for the other end.
"""

from __future__ import annotations

import json
import os
import select
import socket
from typing import Any

#: For one wrong word nobody loses what he has.
REFUSALS: tuple[type[Exception], ...] = (OSError, LookupError, ValueError)


def serve(line: socket.socket, what: object, *, refusals: tuple[type[Exception], ...] = REFUSALS) -> None:
    """Until the harness, our parent, has gone or hung up. What is in `refusals` is told and does no harm."""
    harness = os.pidfd_open(os.getppid())
    poll = select.poll()
    for fd in (line.fileno(), harness):
        poll.register(fd, select.POLLIN)
    heard = b""
    while True:
        ready = [fd for fd, _ in poll.poll()]
        data = line.recv(1 << 16) if line.fileno() in ready else b""
        if not data:
            return
        *requests, heard = (heard + data).split(b"\n")
        for request in requests:
            line.sendall(json.dumps(_answer(what, json.loads(request), refusals)).encode() + b"\n")


def _answer(what: object, request: dict[str, Any], refusals: tuple[type[Exception], ...]) -> dict[str, Any]:
    name = request.pop("do")
    try:
        return {"done": getattr(what, name)(**request)}
    except refusals as error:
        return {"failed": f"{name}: {error}", "errno": getattr(error, "errno", None)}
