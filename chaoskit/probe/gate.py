"""`GateClient`: the rank's side of the gate. The rank reports where it is, waits, and carries out its order."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from chaoskit.protocol.descriptors import OwnDescriptor
from chaoskit.protocol.json_lines import encode

#: What a rank reads to find the gate: `unix:PATH` or `tcp://HOST:PORT`, and the token that TCP asks for.
ADDRESS, TOKEN = "CHAOSKIT_GATE", "CHAOSKIT_GATE_TOKEN"
#: Seconds in which the harness must admit a rank.
_LIMIT = 60.0
#: How often the harness is asked for its clock; the fastest answer counts.
_ROUNDS = 8


class GateClient:
    """A connection to the harness at `address`. If the harness is gone, the rank goes on alone and stops no more.

    `open`: the rank stops here. `until`: at steps it need not, before this one. `names`: of so many steps to come the
    tensors are wanted one by one. `handlers`: what is done with an order, by its word. `refused`: why a gate that asks
    for a token did not admit the rank, "" where it did. `clock`: what has to be added to the times of this machine to
    get those of the harness, in seconds, and by how much that may be wrong; None where both are the same clock.
    """

    def __init__(
        self, address: str, *, rank: int, launch: int, restart: int, start: int = 0, token: str = ""
    ) -> None:
        self.open = False
        self.until = 0
        self.names = 0
        self.handlers: dict[str, Callable[[Mapping[str, Any]], None]] = {}
        self.refused = ""
        self.clock: tuple[float, float] | None = None
        self._under_way: set[int] = set()
        self._lock = threading.Lock()
        # What is told comes from the middle of a step, also from threads of autograd's.
        self._sending = threading.RLock()
        self._waiting: int | None = None
        kind, _, self._where = address.partition(":")
        self._tcp = kind == "tcp"
        self._pid = os.getpid()
        #: None until the first connection.
        self._descriptor: OwnDescriptor | None = None
        me = {"pid": self._pid, "start": start, "node": os.environ.get("CHAOSKIT_NODE", "")}
        # A Unix socket needs no token: file permissions protect it.
        shown = {"token": token} if self._tcp else {}
        self._hello = {"hello": 1, **me, "rank": rank, "launch": launch, "restart": restart, **shown}
        self._connect()

    def _connect(self) -> None:
        self.open = False
        try:
            self._socket = _connect_tcp(self._where.strip("/")) if self._tcp else _connect_unix(self._where)
            self._descriptor = OwnDescriptor(self._socket.fileno())
        except OSError as error:
            self.refused = f"{type(error).__name__}: {error}" if self._tcp else ""
            return
        self._lines = self._socket.makefile("rb")
        self.open = True
        self._send(self._hello)
        if self._tcp:
            self._be_admitted()

    def _be_admitted(self) -> None:
        answer = self._receive()
        if "welcome" not in answer:
            self.refused = str(answer.get("refused", "the harness did not answer"))
            self._close()
            return
        rounds = []
        for _ in range(_ROUNDS):
            begun = time.monotonic()
            self._send({"clock": 1})
            told, ended = self._receive().get("t"), time.monotonic()
            if isinstance(told, float):
                rounds.append(((ended - begun) / 2, told - (begun + ended) / 2))
        if rounds:
            error, offset = min(rounds)
            self.clock = (offset, error) if abs(offset) > error else None
        if self.open:
            self._socket.settimeout(None)

    def stops(self, n: int, *, at_once: bool) -> bool:
        """Whether the rank stops before its step `n` + 1; with `at_once`, whether it ever stops again."""
        return self.open and (at_once or n >= self.until)

    def wants_names(self) -> bool:
        """Whether the next step must record its tensors one by one."""
        wanted = self.names > 0
        self.names -= wanted
        return wanted

    def arrive(
        self, at: str, n: int, *, call: int = 1, record: Mapping[str, Any] | None = None
    ) -> BaseException | None:
        """Report the arrival, wait, and return the exception that the rank must raise, if any. May end the process."""
        # A signal handler of the job may run in the thread that waits here: it must not wait for itself.
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
        """Send a message that has no answer; also after the last stop. It may be lost."""
        self._send(message)

    def begin(self, order: int) -> None:
        """Keep the connection open for the order with this number, until its `end`."""
        self._under_way.add(order)

    def end(self, order: int) -> None:
        """The order is finished and reported."""
        self._under_way.discard(order)
        self._close_if_idle()

    def _send(self, message: Mapping[str, Any]) -> bool:
        if self._descriptor is None:
            return False
        if os.getpid() != self._pid:
            self._close()  # a child that was forked by other means than os.fork
            return False
        try:
            with self._sending:
                if not self._descriptor.is_ours:
                    # The job has closed it. Its number may be that of a file of the job's.
                    self._socket.detach()
                    if self.open:
                        self._connect()
                self._socket.sendall(encode(message))
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
        if self._descriptor is None:
            return
        if not self._descriptor.is_ours:
            self._socket.detach()
        self._socket.close()


def _connect_unix(path: str) -> socket.socket:
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Through the descriptor: the path of a socket is limited to 107 bytes.
        made.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
        return made
    except BaseException:
        made.close()
        raise
    finally:
        os.close(directory)


def _connect_tcp(where: str) -> socket.socket:
    host, _, port = where.rpartition(":")
    made = socket.create_connection((host.strip("[]"), int(port)), timeout=_LIMIT)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


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
