"""`GateServer`: where ranks report and wait to be let go, whatever door they come through (`doors`).

JSON lines. A rank says once `{"hello": 1, "pid", "start", "rank", "launch", "restart", "node", "token"}`. Where the
door asks for a token, it is answered `{"welcome": 1, "t": seconds of our clock}`, or `{"refused": why}` and nothing
more. It may ask for our clock, `{"clock": 1}`, and is answered `{"t": seconds}`. Then, whenever it has arrived, it says
`{"at": "start" | "step" | "save" | "saved", "n", "call", "record"}`, and reads one line:
`{"do": "go"}`, `{"do": "exit", "code"}`, `{"do": "raise", "type", "message"}` or
`{"do": "corrupt", "id", "into", "how", "elements", "steps", "seed"}`, each with `"gate"`: whether it is to stop again.
There may be `"until"`: at steps with a smaller `n` it need not stop; and `"names"`: so many steps from the next one on
are to be recorded tensor by tensor.

What has no answer: before it raises it says `{"raised": type}`; where it has made a number wrong, `{"corrupted": {"id",
...}}`, and where it could not, `{"refused": {"id", "why"}}`. A connection that says anything else is closed; a rank
whose connection breaks is simply gone.
"""

from __future__ import annotations

import hmac
import itertools
import json
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from chaoskit.capabilities import ProcessRef
from chaoskit.environments.environment import Arrived
from chaoskit.environments.gate.doors import Door
from chaoskit.environments.machine import processes
from chaoskit.environments.records.ranks import Incarnation
from chaoskit.protocol.json_lines import LineBuffer, encode

_LONGEST_LINE = 16 << 20
#: The same for one who has not greeted yet.
_LONGEST_GREETING = 64 << 10
_PLACES: tuple[Literal["start", "step", "save", "saved"], ...] = ("start", "step", "save", "saved")


@dataclass(frozen=True)
class Identity:
    """Who a rank is: its process, and when that `began`, which orders the incarnations of a rank."""

    process: ProcessRef
    began: float


#: Tells who has said this hello; None for a process that is not there.
Identify = Callable[[Mapping[str, Any]], Identity | None]


def on_this_machine(hello: Mapping[str, Any]) -> Identity | None:
    """A process of this machine, as the kernel describes it."""
    process = processes.identify(_whole(hello["pid"]))
    return Identity(process.ref, process.started) if process is not None else None


class _Rank:
    """One connection, and who is at its other end once they have said so."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.buffer = LineBuffer()
        self.rank: int | None = None
        self.incarnation: Incarnation = (-1, -1, -1)
        self.process = ProcessRef(0, "")
        self.waiting = False
        self.order: Mapping[str, Any] | None = None
        #: The numbers of the corruptions that it was ordered and has not reported on.
        self.owes: set[int] = set()


class GateServer:
    """The harness's end of the gate, behind `door`. `fileno` is readable when ranks have said something."""

    def __init__(self, door: Door, *, identify: Identify = on_this_machine) -> None:
        self.door = door
        self._identify = identify
        self._closed = False
        self._selector = selectors.EpollSelector()
        self._ranks: set[_Rank] = set()
        self._newest: dict[int, _Rank] = {}
        self._arrived: list[tuple[_Rank, Arrived]] = []
        self._raised: set[int] = set()
        self._numbers = itertools.count(1)
        self._corrupted: dict[tuple[int, int], Mapping[str, Any]] = {}
        self._selector.register(door.listener, selectors.EVENT_READ)

    def fileno(self) -> int:
        """A descriptor to wait on, along with others."""
        return self._selector.fileno()

    def arrivals(self) -> list[Arrived]:
        """The ranks that have arrived since the last call and are still waiting; never blocks."""
        self._take_in()
        arrived = [arrival for rank, arrival in self._arrived if rank in self._ranks and rank.waiting]
        self._arrived.clear()
        return arrived

    def release(self, rank: int, *, keep_gating: bool, until: int = 0, names: int = 0) -> None:
        """Let `rank` continue, or carry out its order. No effect if it is not waiting or has gone."""
        more = {name: value for name, value in (("until", until), ("names", names)) if value}
        for each in [each for each in self._ranks if each.rank == rank and each.waiting]:
            order, each.order = each.order or {"do": "go"}, None
            self._answer(each, {**order, "gate": keep_gating, **more})

    def order(self, rank: int, order: Mapping[str, Any]) -> None:
        """Give an order to the newest incarnation of `rank`, carried out at its next release. Raises LookupError if
        it has gone.
        """
        newest = self._connected(rank)
        self._raised.discard(rank)
        self._hand(newest, order)

    def corrupt(self, rank: int, order: Mapping[str, Any]) -> int:
        """The same for an order to corrupt numbers; returns a number for `corrupted`. Raises LookupError also if
        the rank has another kind of order and has not been released yet.
        """
        newest = self._connected(rank)
        if newest.order is not None and "id" not in newest.order:
            raise LookupError(f"rank {rank} already has another order: {newest.order['do']}")
        number = next(self._numbers)
        self._hand(newest, {**order, "id": number})
        newest.owes.add(number)
        return number

    def corrupted(self, rank: int, number: int) -> Mapping[str, Any] | None:
        """See `CanCorruptNumbers`."""
        self._take_in()
        return self._corrupted.get((rank, number))

    def _connected(self, rank: int) -> _Rank:
        """The newest incarnation of `rank`. Raises LookupError if it has gone."""
        self._take_in()
        newest = self._newest.get(rank)
        if newest is None or newest not in self._ranks:
            raise LookupError(f"rank {rank} is not connected")
        return newest

    def _hand(self, rank: _Rank, order: Mapping[str, Any]) -> None:
        """Give the order. It replaces an order that the rank has not got yet."""
        if rank.order is not None and "id" in rank.order:
            self._refuse(rank, rank.order["id"], "another order replaced it")
        rank.order = order

    def _refuse(self, rank: _Rank, number: int, why: str) -> None:
        assert rank.rank is not None
        rank.owes.discard(number)
        self._corrupted.setdefault((rank.rank, number), {"refused": why})

    def raised(self, rank: int) -> bool:
        """Whether `rank` has reported that it raises, since its last order."""
        self._take_in()
        return rank in self._raised

    def newest(self, rank: int) -> tuple[Incarnation, ProcessRef] | None:
        """The incarnation and the process of the newest incarnation of `rank`, connected or not."""
        self._take_in()
        found = self._newest.get(rank)
        return (found.incarnation, found.process) if found is not None else None

    def close(self) -> None:
        """Disconnect everybody and close the door; may be called again."""
        if self._closed:
            return
        self._closed = True
        for rank in list(self._ranks):
            self._drop(rank)
        self._selector.close()
        self.door.close()

    def _take_in(self) -> None:
        for key, _ in self._selector.select(0):
            if key.data is None:
                self._open_door()
            elif key.data in self._ranks:
                self._hear(key.data)

    def _open_door(self) -> None:
        try:
            line = self.door.accept()
        except OSError:
            return  # the rank has disconnected again, or it was another user
        line.setblocking(False)
        rank = _Rank(line)
        self._ranks.add(rank)
        self._selector.register(line, selectors.EVENT_READ, rank)
        self._hear(rank)

    def _hear(self, rank: _Rank) -> None:
        try:
            data = rank.line.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        lines = rank.buffer.feed(data)
        try:
            for line in lines:
                self._understand(rank, json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            data = b""
        if not data or len(rank.buffer.rest) > (_LONGEST_GREETING if rank.rank is None else _LONGEST_LINE):
            self._drop(rank)

    def _understand(self, rank: _Rank, said: Mapping[str, Any]) -> None:
        """Raises one of the exceptions that `_hear` catches if the message does not follow the protocol."""
        if rank.rank is None:
            self._greet(rank, said)
        elif "clock" in said:
            self._send(rank, {"t": time.monotonic()})
        elif "at" in said:
            at = _PLACES[_PLACES.index(said["at"])]
            record = said.get("record")
            if rank.waiting or not (record is None or isinstance(record, dict)):
                raise ValueError("it is waiting already, or its record is not an object")
            launch, _, restart = rank.incarnation
            n, call = _whole(said["n"]), _whole(said.get("call", 1))
            arrived = Arrived(rank.rank, launch, restart, rank.process.pid, at, n, call, record, rank.process.key)
            rank.waiting = True
            if rank.incarnation < self._newest[rank.rank].incarnation:
                self._answer(rank, {"do": "go", "gate": False})
            else:
                self._arrived.append((rank, arrived))
        elif "corrupted" in said:
            told = dict(said["corrupted"])
            number = _whole(told.pop("id"))
            rank.owes.discard(number)
            # An order may apply to several steps, and each is reported: the first report shows that it works.
            self._corrupted.setdefault((rank.rank, number), {**told, "rank": rank.rank})
        elif "refused" in said:
            self._refuse(rank, _whole(said["refused"]["id"]), str(said["refused"]["why"]))
        elif not isinstance(said["raised"], str):
            raise ValueError("what it raises has no name")
        elif rank.incarnation == self._newest[rank.rank].incarnation:
            self._raised.add(rank.rank)

    def _greet(self, rank: _Rank, said: Mapping[str, Any]) -> None:
        if _whole(said["hello"]) != 1:
            raise ValueError("an unknown version of the protocol")
        if not hmac.compare_digest(str(said.get("token", "")).encode(), self.door.token.encode()):
            self._send(rank, {"refused": "its token is wrong"})
            raise ValueError("a wrong token")
        identity = self._identify(said)
        if identity is None:
            raise ValueError("there is no such process")
        incarnation = _whole(said["launch"]), identity.began, _whole(said["restart"])
        number = _whole(said["rank"])
        rank.rank, rank.process, rank.incarnation = number, identity.process, incarnation
        if self.door.token:
            self._send(rank, {"welcome": 1, "t": time.monotonic()})
        older = self._newest.get(number)
        if older is not None and older.incarnation > incarnation:
            return
        self._newest[number] = rank
        for other in list(self._ranks):
            if other.rank == number and other.incarnation < incarnation and other.waiting:
                self._answer(other, {"do": "go", "gate": False})

    def _answer(self, rank: _Rank, answer: Mapping[str, Any]) -> None:
        rank.waiting = False
        self._send(rank, answer)

    def _send(self, rank: _Rank, message: Mapping[str, Any]) -> None:
        line = encode(message)
        try:
            sent = rank.line.send(line)
        except OSError:
            sent = 0
        if sent < len(line):
            self._drop(rank)  # it has gone, or does not read, though it should wait for an answer

    def _drop(self, rank: _Rank) -> None:
        if rank in self._ranks:
            self._ranks.discard(rank)
            self._selector.unregister(rank.line)
            rank.line.close()
            rank.waiting = False
            for number in sorted(rank.owes):
                self._refuse(rank, number, "the rank was gone before it carried that out")


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no whole number")
    return value
