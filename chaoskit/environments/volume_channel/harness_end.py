"""`HarnessEnd`: chaoskit's end of the channel, which makes the connections of all nodes to chaoskit's own doors."""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from chaoskit.environments.volume_channel.carrier import GONE, Carrier, Pace, files
from chaoskit.errors import ChaoskitError
from chaoskit.files.removal import remove

#: Seconds between two looks for nodes that have come.
_LOOK = 0.2
#: A node that has been silent for so many seconds may have ended: whoever knows is asked, and again after a while.
_DOUBT, _ASK = 3.0, 0.5


class HarnessEnd:
    """Carries connections until it is closed. `directory` is made, and removed at the end; `for_all` lets nodes write
    to it that have another user. `doors` are the addresses of chaoskit's own, by their numbers. `is_over`
    tells whether the node of that name has ended for sure: nothing there says so by itself. Raises OSError."""

    def __init__(
        self, directory: Path, *, doors: Mapping[int, str], is_over: Callable[[str], bool], for_all: bool = False
    ) -> None:
        self._directory, self._doors, self._is_over = directory, doors, is_over
        directory.mkdir(mode=0o700)
        if for_all:
            directory.chmod(0o777)
        self._selector = selectors.DefaultSelector()
        #: By the stem of their files.
        self._carriers: dict[str, Carrier] = {}
        self._known: set[str] = set()
        self._over: set[str] = set()
        self._closed = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._carry, self._doubt)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End every connection, and remove the files; may be called again."""
        self._closed.set()
        for thread in self._threads:
            thread.join(GONE)  # longer only where the volume does not answer
        remove(self._directory, within=self._directory.parent)

    def _carry(self) -> None:
        pace, due = Pace(), 0.0
        while not self._closed.is_set():
            for key, _ in self._selector.select(pace.wait):
                key.data()
            if time.monotonic() >= due:
                self._admit()
                due = time.monotonic() + _LOOK
            moved = [carrier.exchange() for carrier in self._carriers.values()]
            pace.went(moved=any(moved))
            for stem, carrier in list(self._carriers.items()):
                if stem in self._over or carrier.silent > GONE:
                    carrier.close()
                    del self._carriers[stem]
        for carrier in self._carriers.values():
            carrier.close()
            carrier.exchange()
        self._selector.close()

    def _admit(self) -> None:
        """Look for nodes that have come. A machine remembers which files a directory has, until it changes that."""
        with suppress(OSError):
            os.utime(self._directory)
            for name in os.listdir(self._directory):
                stem, _, side = name.rpartition(".")
                if side == "up" and stem not in self._known:
                    self._known.add(stem)
                    # Of two agents of the same name, the earlier has ended: a container was started again.
                    self._over |= {each for each in self._carriers if _node(each) == _node(stem)}
                    their, own = files(self._directory, stem)
                    self._carriers[stem] = Carrier(own, their, self._selector, dial=self._dial)

    def _dial(self, door: int) -> socket.socket:
        host, _, port = self._doors[door].removeprefix("tcp://").rpartition(":")
        return socket.create_connection((host, int(port)))

    def _doubt(self) -> None:
        """Find out whether nodes that are silent have ended."""
        while not self._closed.wait(_ASK):
            for stem, carrier in list(self._carriers.items()):
                if carrier.silent > _DOUBT:
                    with suppress(ChaoskitError):  # it is asked again
                        if self._is_over(_node(stem)):
                            self._over.add(stem)


def _node(stem: str) -> str:
    return stem.rpartition(".")[0]
