"""The rank's side of the gate: it says where it is, waits, and does as it is told."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class Gate:
    """A connection to the harness. If the harness is gone, the rank goes on alone and stops no more.

    `open`: the rank stops here. `until`: at steps it need not, before this one. `names`: of so many steps to come the
    tensors are wanted one by one. `handlers`: what is done with an order, by its word.
    """

    def __init__(self, run: Path, *, rank: int, launch: int, restart: int) -> None:
        self.open = False
        self.until = 0
        self.names = 0
        self.handlers: dict[str, Callable[[Mapping[str, Any]], None]] = {}
        self._under_way: set[int] = set()
        self._lock = threading.Lock()
        # What is told comes from the middle of a step, also from threads of autograd's.
        self._sending = threading.RLock()
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

    def stops(self, n: int, *, at_once: bool) -> bool:
        """Whether the rank is to stop at the step after its first `n`; `at_once`: if it is ever to stop again."""
        return self.open and (at_once or n >= self.until)

    def wants_names(self) -> bool:
        """Whether the tensors of the next step are wanted one by one."""
        wanted = self.names > 0
        self.names -= wanted
        return wanted

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
            self.open = bool(order.get("gate"))
            self.until = int(order.get("until", 0))
            self.names = max(self.names, int(order.get("names", 0)))
        raised = self._obey(order)
        self._close_if_idle()
        return raised

    def _obey(self, order: Mapping[str, Any]) -> BaseException | None:
        word = order.get("do")
        match word:
            case "exit":
                os._exit(int(order["code"]))
            case "raise":
                self.tell({"raised": order["type"]})
                return _exception(order["type"], order["message"])
        if word in self.handlers:
            self.handlers[word](order)
        return None

    def tell(self, message: Mapping[str, Any]) -> None:
        """Say something that has no answer. It may be said where no more stops are wanted; nobody need hear it."""
        self._send(message)

    def begin(self, order: int) -> None:
        """An order with this number is under way: until its `end` there is something to tell."""
        self._under_way.add(order)

    def end(self, order: int) -> None:
        """All is told of an order."""
        self._under_way.discard(order)
        self._close_if_idle()

    def _send(self, message: Mapping[str, Any]) -> bool:
        try:
            with self._sending:
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

    def _close_if_idle(self) -> None:
        if not (self.open or self._under_way):
            self._close()

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
