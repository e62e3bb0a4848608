"""The rank's side of the gate: it says where it is, waits, and does as it is told."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Gate:
    """A connection to the harness. If the harness is gone, the rank goes on alone and stops no more.

    `open`: the rank stops here. `poison`: it was ordered to make the output of its next training forward NaN, and has
    not told yet that it did.
    """

    def __init__(self, run: Path, *, rank: int, launch: int, restart: int) -> None:
        self.open = False
        self.poison = False
        self._lock = threading.Lock()
        self._waiting: int | None = None
        directory = os.open(run, os.O_RDONLY | os.O_DIRECTORY)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Through the descriptor: the path of a socket is limited to 107 bytes.
            self._socket.connect(f"/proc/self/fd/{directory}/gate.sock")
        except OSError:
            self._socket.close()
            return
        finally:
            os.close(directory)
        self._lines = self._socket.makefile("rb")
        self.open = True
        self._send({"hello": 1, "pid": os.getpid(), "rank": rank, "launch": launch, "restart": restart})

    def arrive(
        self, at: str, n: int, *, call: int = 1, record: Mapping[str, Any] | None = None
    ) -> BaseException | None:
        """Report, wait, and return the exception that the rank was ordered to raise, if any. May not return."""
        # A signal handler of the job's runs in the thread that waits here: it must not wait for itself.
        if self._waiting == threading.get_ident():
            return None
        with self._lock:
            if not self.open:
                return None
            self._waiting = threading.get_ident()
            try:
                if not self._send({"at": at, "n": n, "call": call, "record": record}):
                    return None
                order = self._receive()
            finally:
                self._waiting = None
            raised = None
            match order.get("do"):
                case "exit":
                    os._exit(int(order["code"]))
                case "raise":
                    self._send({"raised": order["type"]})
                    raised = _exception(order["type"], order["message"])
                case "nan":
                    self.poison = True
            self.open = bool(order.get("gate"))
            if not (self.open or self.poison):
                self._close()
            return raised

    def poisoned(self) -> None:
        """Tell that NaN has been injected. It may be the last thing to be told, where no more stops are wanted."""
        self.poison = False
        self._send({"raised": "NaN"})
        if not self.open:
            self._close()

    def _send(self, message: Mapping[str, Any]) -> bool:
        try:
            self._socket.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        except OSError:
            self._close()
            return False
        return True

    def _receive(self) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json.loads(self._lines.readline() or b"{}")
        except (OSError, ValueError):
            return {}
        return answer

    def _close(self) -> None:
        self.open = False
        self._socket.close()


def _exception(name: str, message: str) -> BaseException:
    if name == "OutOfMemoryError":
        made: BaseException = sys.modules["torch"].OutOfMemoryError(message)
        return made
    kinds: dict[str, type[BaseException]] = {
        "MemoryError": MemoryError,
        "OSError": OSError,
        "ConnectionError": ConnectionError,
        "KeyboardInterrupt": KeyboardInterrupt,
    }
    return kinds.get(name, RuntimeError)(message)
