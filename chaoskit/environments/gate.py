"""`Gate`: the Unix socket `<run_dir>/gate.sock` at which ranks report and wait to be let go.

JSON lines. A rank says once `{"hello": 1, "pid", "rank", "launch", "restart"}`, then, whenever it has arrived,
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

import itertools
import json
import os
import selectors
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from chaoskit.capabilities import Process
from chaoskit.environments import processes
from chaoskit.environments.environment import Arrived
from chaoskit.environments.ranks import Incarnation

NAME = "gate.sock"
_LONGEST_LINE = 16 << 20
_PLACES: tuple[Literal["start", "step", "save", "saved"], ...] = ("start", "step", "save", "saved")


class _Rank:
    """One connection, and who is behind it once it has said so."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.heard = b""
        self.rank: int | None = None
        self.incarnation = (-1, -1, -1)
        self.process = Process(0, 0)
        self.waiting = False
        self.order: Mapping[str, Any] | None = None
        #: The numbers of the corruptions that it was ordered and has said nothing of.
        self.owes: set[int] = set()


class Gate:
    """The harness's end of the socket. `fileno` is readable when there is something to take in."""

    def __init__(self, run_dir: Path) -> None:
        self._directory = os.open(run_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._selector = selectors.EpollSelector()
        self._ranks: set[_Rank] = set()
        self._newest: dict[int, _Rank] = {}
        self._arrived: list[tuple[_Rank, Arrived]] = []
        self._raised: set[int] = set()
        self._numbers = itertools.count(1)
        self._corrupted: dict[tuple[int, int], Mapping[str, Any]] = {}
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._unlink()
        # By way of the directory's descriptor, for an address holds 107 bytes and a path may be longer.
        self._door.bind(f"/proc/self/fd/{self._directory}/{NAME}")
        self._door.listen(1024)
        self._selector.register(self._door, selectors.EVENT_READ)

    def fileno(self) -> int:
        """A descriptor to wait on, along with others."""
        return self._selector.fileno()

    def arrivals(self) -> list[Arrived]:
        """The ranks that have arrived since the last call and still wait; never blocks."""
        self._take_in()
        arrived = [arrival for rank, arrival in self._arrived if rank in self._ranks and rank.waiting]
        self._arrived.clear()
        return arrived

    def release(self, rank: int, *, keep_gating: bool, until: int = 0, names: int = 0) -> None:
        """Let `rank` go on, or do what it was ordered. Nothing happens if it does not wait or is gone."""
        more = {name: value for name, value in (("until", until), ("names", names)) if value}
        for each in [each for each in self._ranks if each.rank == rank and each.waiting]:
            order, each.order = each.order or {"do": "go"}, None
            self._answer(each, {**order, "gate": keep_gating, **more})

    def order(self, rank: int, order: Mapping[str, Any]) -> None:
        """Have the newest incarnation of `rank` do this when it is next released; LookupError if it is gone."""
        newest = self._connected(rank)
        self._raised.discard(rank)
        self._hand(newest, order)

    def corrupt(self, rank: int, order: Mapping[str, Any]) -> int:
        """The same of an order to make numbers wrong; what it is asked for by afterwards. LookupError, too, if the rank
        has been given another kind of order and has not been released yet."""
        newest = self._connected(rank)
        if newest.order is not None and "id" not in newest.order:
            raise LookupError(f"rank {rank} has something else to do: {newest.order['do']}")
        number = next(self._numbers)
        self._hand(newest, {**order, "id": number})
        newest.owes.add(number)
        return number

    def corrupted(self, rank: int, number: int) -> Mapping[str, Any] | None:
        """See `CanCorruptNumbers`."""
        self._take_in()
        return self._corrupted.get((rank, number))

    def _connected(self, rank: int) -> _Rank:
        """The newest incarnation of `rank`; raises LookupError if it is gone."""
        self._take_in()
        newest = self._newest.get(rank)
        if newest is None or newest not in self._ranks:
            raise LookupError(f"rank {rank} is not connected")
        return newest

    def _hand(self, rank: _Rank, order: Mapping[str, Any]) -> None:
        """The order takes the place of one that has not been handed over."""
        if rank.order is not None and "id" in rank.order:
            self._refuse(rank, rank.order["id"], "another order took its place")
        rank.order = order

    def _refuse(self, rank: _Rank, number: int, why: str) -> None:
        assert rank.rank is not None
        rank.owes.discard(number)
        self._corrupted.setdefault((rank.rank, number), {"refused": why})

    def raised(self, rank: int) -> bool:
        """Whether `rank` has said that it raises since it was last given an order."""
        self._take_in()
        return rank in self._raised

    def newest(self, rank: int) -> tuple[Incarnation, Process] | None:
        """The order and the process of the newest incarnation of `rank`, connected or not."""
        self._take_in()
        found = self._newest.get(rank)
        return (found.incarnation, found.process) if found is not None else None

    def close(self) -> None:
        """Turn everybody away and remove the socket; may be called again."""
        if self._directory < 0:
            return
        for rank in list(self._ranks):
            self._drop(rank)
        self._selector.close()
        self._door.close()
        self._unlink()
        os.close(self._directory)
        self._directory = -1

    def _unlink(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(NAME, dir_fd=self._directory)

    def _take_in(self) -> None:
        for key, _ in self._selector.select(0):
            if key.data is None:
                self._open_door()
            elif key.data in self._ranks:
                self._hear(key.data)

    def _open_door(self) -> None:
        try:
            line, _ = self._door.accept()
        except OSError:
            return  # it has changed its mind
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
        *lines, rank.heard = (rank.heard + data).split(b"\n")
        try:
            for line in lines:
                self._understand(rank, json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            data = b""
        if not data or len(rank.heard) > _LONGEST_LINE:
            self._drop(rank)

    def _understand(self, rank: _Rank, said: Mapping[str, Any]) -> None:
        """Raises one of the exceptions that `_hear` expects for what does not follow the protocol."""
        if rank.rank is None:
            self._greet(rank, said)
        elif "at" in said:
            at = _PLACES[_PLACES.index(said["at"])]
            record = said.get("record")
            if rank.waiting or not (record is None or isinstance(record, dict)):
                raise ValueError("it waits already, or its record is none")
            launch, _, restart = rank.incarnation
            n, call = _whole(said["n"]), _whole(said.get("call", 1))
            arrived = Arrived(rank.rank, launch, restart, rank.process.pid, at, n, call, record)
            rank.waiting = True
            if rank.incarnation < self._newest[rank.rank].incarnation:
                self._answer(rank, {"do": "go", "gate": False})
            else:
                self._arrived.append((rank, arrived))
        elif "corrupted" in said:
            told = dict(said["corrupted"])
            number = _whole(told.pop("id"))
            rank.owes.discard(number)
            # It may strike in several steps, and tells of each: the first one shows that it does.
            self._corrupted.setdefault((rank.rank, number), {**told, "rank": rank.rank})
        elif "refused" in said:
            self._refuse(rank, _whole(said["refused"]["id"]), str(said["refused"]["why"]))
        elif not isinstance(said["raised"], str):
            raise ValueError("what it raises has no name")
        elif rank.incarnation == self._newest[rank.rank].incarnation:
            self._raised.add(rank.rank)

    def _greet(self, rank: _Rank, said: Mapping[str, Any]) -> None:
        if _whole(said["hello"]) != 1:
            raise ValueError("a version of the protocol that is not ours")
        process = processes.identify(_whole(said["pid"]))
        if process is None:
            raise ValueError("there is no such process")
        incarnation = _whole(said["launch"]), process.started, _whole(said["restart"])  # see `Rank.incarnation`
        number = _whole(said["rank"])
        rank.rank, rank.process, rank.incarnation = number, process, incarnation
        older = self._newest.get(number)
        if older is not None and older.incarnation > incarnation:
            return
        self._newest[number] = rank
        for other in list(self._ranks):
            if other.rank == number and other.incarnation < incarnation and other.waiting:
                self._answer(other, {"do": "go", "gate": False})

    def _answer(self, rank: _Rank, answer: Mapping[str, Any]) -> None:
        rank.waiting = False
        line = json.dumps(answer).encode() + b"\n"
        try:
            sent = rank.line.send(line)
        except OSError:
            sent = 0
        if sent < len(line):
            self._drop(rank)  # it is gone, or it does not read: nobody who waits for an answer does that

    def _drop(self, rank: _Rank) -> None:
        if rank in self._ranks:
            self._ranks.discard(rank)
            self._selector.unregister(rank.line)
            rank.line.close()
            rank.waiting = False
            for number in sorted(rank.owes):
                self._refuse(rank, number, "the rank was gone before it came to that")


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no whole number")
    return value
