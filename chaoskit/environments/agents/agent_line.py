"""`AgentDoor` and `AgentLine`: where the agents of the nodes reach the harness, and how it asks one of them."""

from __future__ import annotations

import hmac
import json
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from chaoskit.environments.gate.doors import ADDRESS, Door, notice_death
from chaoskit.environments.launch.lines import LineChannel
from chaoskit.errors import CannotWarm, ChaoskitError, UsageError

NAME = "agents.sock"
#: Seconds for a request, which takes milliseconds; and for one whose answer waits for imports (see `Parent`).
_LIMIT, START_LIMIT = 60.0, 400.0
_LONGEST_HELLO = 400


class AgentGone(ChaoskitError):
    """A node has ended, and its agent with it."""


class AgentRefused(ChaoskitError):
    """The agent could not do it."""


class AgentDoor:
    """The door at which agents and keepers of the nodes connect. Where it asks for a token, each hello must have it."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._waiting: list[tuple[dict[str, Any], socket.socket]] = []

    @property
    def address(self) -> str:
        """Where agents connect, in the form of `doors`."""
        return self._door.environment[ADDRESS]

    @property
    def token(self) -> str:
        """What each hello must have; "" if nothing."""
        return self._door.token

    def take(
        self,
        expected: dict[str, Any],
        *,
        limit: float,
        alive: Callable[[], None],
        why: Callable[[], str] = lambda: "",
    ) -> socket.socket:
        """The connection whose first line has these fields. `alive` is asked from time to time, and raises if it cannot
        come any more; raises AgentGone after `limit` seconds, with what `why` then says."""
        deadline = time.monotonic() + limit
        while True:
            for at, (hello, line) in enumerate(self._waiting):
                if expected.items() <= hello.items():
                    del self._waiting[at]
                    return line
            if time.monotonic() > deadline:
                said = why() or f"it was expected to say {expected}"
                raise AgentGone(f"no agent has come within {limit:g} s: {said}")
            if select.select([self._door.listener], [], [], 0.2)[0]:
                self._accept()
            else:
                alive()

    def take_all(self, word: str) -> list[tuple[dict[str, Any], socket.socket]]:
        """The hellos that have this word, and their connections, as far as they have come."""
        while select.select([self._door.listener], [], [], 0)[0]:
            self._accept()
        found = [each for each in self._waiting if word in each[0]]
        self._waiting = [each for each in self._waiting if word not in each[0]]
        return found

    def _accept(self) -> None:
        try:
            line = self._door.accept()
        except OSError:
            return  # it has disconnected again, or it was another user
        line.settimeout(5.0)
        said = b""
        try:
            # One byte at a time: what follows the first line is for whoever gets the connection.
            while not said.endswith(b"\n") and len(said) < _LONGEST_HELLO and (more := line.recv(1)):
                said += more
            hello = dict(json.loads(said))
            if not hmac.compare_digest(str(hello.pop("token", "")).encode(), self._door.token.encode()):
                raise ValueError("a hello without the token of this run")
            if line.family != socket.AF_UNIX:
                notice_death(line)
            self._waiting.append((hello, line))
        except (OSError, ValueError, TypeError):
            line.close()

    def close(self) -> None:
        """Stop listening; may be called again."""
        for _, line in self._waiting:
            line.close()
        self._waiting.clear()
        self._door.close()


class AgentLine:
    """The connection to the agent of a node. `gone` says for people that it has ended, and what to do."""

    def __init__(self, line: socket.socket, *, gone: str) -> None:
        self._said_gone = gone
        self._line = line
        self._lines = LineChannel(line)
        #: Held from a request until its answer: metadata services ask from threads of their own.
        self._turn = threading.RLock()

    @property
    def is_gone(self) -> bool:
        """Whether the node has ended."""
        if self._line.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._line, select.POLLRDHUP)
        return bool(poll.poll(0))

    def send(self, request: str, **given: Any) -> None:
        """Send a request whose answer this thread reads later; until then others wait. Raises AgentGone."""
        self._turn.acquire()
        try:
            self._lines.say({"do": request, **given}, limit=_LIMIT)
        except BaseException as error:
            self._turn.release()
            if isinstance(error, OSError):
                raise self._gone() from error
            raise

    def answer(self, limit: float = _LIMIT) -> Any:
        """The answer to the request that was sent. Raises AgentGone, AgentRefused, CannotWarm and UsageError."""
        try:
            said = self._lines.hear(limit)
        except OSError as error:
            self.close()  # a late answer must not be taken for that to another request
            raise self._gone() from error
        finally:
            self._turn.release()
        if "failed" not in said:
            return said["done"]
        kinds: dict[str, type[ChaoskitError]] = {
            "CannotWarm": CannotWarm,
            "ParentLost": CannotWarm,
            "UsageError": UsageError,
        }
        raise kinds.get(said["kind"], AgentRefused)(said["why"])

    def ask(self, request: str, **given: Any) -> Any:
        """Call a method of `chaoskit.environments.agents.agent.Agent`; returns its result. Raises as `answer` does."""
        self.send(request, **given)
        return self.answer()

    def close(self) -> None:
        """Let go of the agent, which then ends with everything on its node."""
        self._line.close()

    def _gone(self) -> AgentGone:
        return AgentGone(self._said_gone)
