"""The agent of a pod of the tests, in a network namespace of its own, and a job there that talks over TCP.

A script: `HelperProcess` starts it.
"""

from __future__ import annotations

import select
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0:0] = [str(Path(__file__).resolve().parents[4])]

from chaoskit.environments.launch.host import KINDS, call
from chaoskit.environments.machine import tcp_retransmissions
from chaoskit.environments.machine.serve import serve


class PodAgent:
    """What the environment asks, and what the job does (`job_`)."""

    def __init__(self) -> None:
        self._ear: socket.socket | None = None
        self._line: socket.socket | None = None

    def network_felt(self) -> dict[str, Any]:
        return tcp_retransmissions.felt()

    def round_trips(self, **given: Any) -> list[float]:
        return tcp_retransmissions.round_trips(**given)

    def listen(self, port: int) -> None:
        if self._ear is None:
            self._ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._ear.bind(("0.0.0.0", port))

    def ping(self, address: str, port: int) -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth:
            try:
                mouth.sendto(b"chaoskit", (address, port))
            except OSError:
                return False
        return True

    def heard(self, address: str, seconds: float) -> bool:
        assert self._ear is not None
        found = False
        while select.select([self._ear], [], [], 0 if found else seconds)[0]:
            found |= self._ear.recvfrom(64)[1][0] == address
        return found

    def job_listens(self, port: int) -> None:
        ear = socket.create_server(("0.0.0.0", port))

        def hear() -> None:
            line, _ = ear.accept()
            with suppress(OSError):
                while line.recv(1 << 16):
                    pass

        threading.Thread(target=hear, daemon=True).start()

    def job_connects(self, address: str, port: int) -> None:
        self._line = socket.create_connection((address, port), timeout=10)
        self._line.setblocking(False)

    def job_sends(self, size: int) -> int:
        """As much as the kernel takes now."""
        assert self._line is not None
        with suppress(BlockingIOError):
            return self._line.send(b"x" * size)
        return 0


def main() -> None:
    call("unshare", KINDS["net"])
    serve(socket.socket(fileno=0), PodAgent())


if __name__ == "__main__":
    main()
