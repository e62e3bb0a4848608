"""The holder: the process that makes the virtual hosts of a run, keeps them, and is the operator of their network.

A script (`python -I -S holder.py RUN_ID`, standard library only). Namespaces live as long as somebody is in them or
holds them open: the holder does, so that when it goes, which it does with the harness, nothing of them is left. It
answers JSON lines on its standard input, a socket, one request after the other: `{"do": name, ...}` with
`{"done": result}` or `{"failed": message}`.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from typing import Any

if __name__ == "__main__":
    _own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _own]
    _path = os.path.join(os.path.dirname(_own), "importable.py")
    with open(_path) as _file:
        exec(_file.read(), {"__file__": _path})

from chaoskit.environments.hosts import Hosts
from chaoskit.environments.network import NetworkError


def serve(line: socket.socket, hosts: Hosts) -> None:
    """Until the harness has gone."""
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
            line.sendall(json.dumps(_answer(hosts, json.loads(request))).encode() + b"\n")


def _answer(hosts: Hosts, request: dict[str, Any]) -> dict[str, Any]:
    name = request.pop("do")
    try:
        return {"done": getattr(hosts, name)(**request)}
    except (NetworkError, OSError, LookupError, ValueError) as error:  # for one wrong word nobody loses his hosts
        return {"failed": f"{name}: {error}", "errno": getattr(error, "errno", None)}


if __name__ == "__main__":
    serve(socket.socket(fileno=0), Hosts())
