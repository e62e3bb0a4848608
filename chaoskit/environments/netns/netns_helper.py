"""The netns helper: a process that makes the virtual hosts of a run, keeps them, and changes their network.

A script (`python -I -S netns_helper.py RUN_ID`, standard library only). A namespace exists as long as a process is
in it or holds it open. The helper holds the namespaces of all hosts and ends with the harness, so nothing of them
is left. It answers JSON lines on its standard input, a socket, one request after the other: `{"do": name, ...}`
with `{"done": result}` or `{"failed": message}`.
"""

from __future__ import annotations

import os
import socket
import sys

if __name__ == "__main__":
    _own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _own]
    _path = os.path.join(os.path.dirname(os.path.dirname(_own)), "protocol", "bootstrap.py")
    with open(_path) as _file:
        exec(_file.read(), {"__file__": _path})

from chaoskit.environments.machine.serve import REFUSALS, serve
from chaoskit.environments.netns.hosts import Hosts
from chaoskit.environments.netns.network import NetworkError

if __name__ == "__main__":
    serve(socket.socket(fileno=0), Hosts(), refusals=(NetworkError, *REFUSALS))
