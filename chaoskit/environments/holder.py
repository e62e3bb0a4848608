"""The holder: the process that makes the virtual hosts of a run, keeps them, and is the operator of their network.

A script (`python -I -S holder.py RUN_ID`, standard library only). Namespaces live as long as somebody is in them or
holds them open: the holder does, so that when it goes, which it does with the harness, nothing of them is left. It
answers JSON lines on its standard input, a socket, one request after the other: `{"do": name, ...}` with
`{"done": result}` or `{"failed": message}`.
"""

from __future__ import annotations

import os
import socket
import sys

if __name__ == "__main__":
    _own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _own]
    _path = os.path.join(os.path.dirname(_own), "importable.py")
    with open(_path) as _file:
        exec(_file.read(), {"__file__": _path})

from chaoskit.environments.hosts import Hosts
from chaoskit.environments.network import NetworkError
from chaoskit.environments.service import REFUSALS, serve

if __name__ == "__main__":
    serve(socket.socket(fileno=0), Hosts(), refusals=(NetworkError, *REFUSALS))
