"""How a forked process begins its own work: `Become` carries it up to the one loop that all of them run in.

So the stack of a rank does not lie on those of its keeper and its parents, and at its end the interpreter exits as
if it had been started for that rank alone.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from chaoskit.environments.launch import fresh
from chaoskit.environments.launch.program import Program

Role = Callable[[], None]


class Become(BaseException):
    """Raised in a fork: it takes up a role of its own, and nothing that its parent was about to do."""

    def __init__(self, role: Role) -> None:
        super().__init__()
        self.role = role


@dataclass(frozen=True)
class ProcessOrigin:
    """What the parent was started with: `sys.path` without a script, and the environment."""

    path: tuple[str, ...]
    env: dict[str, str]

    def changed(self, env: Mapping[str, str]) -> dict[str, str]:
        """What imports, and the interpreter itself, made of the environment of the parent, whose own `os.environ` is
        still in force here, and would have made of this one. Some packages set variables when they are imported."""
        return {name: value for name, value in os.environ.items() if value != self.env.get(name) == env.get(name)}


def play(role: Role) -> None:
    """Run a role, and in its forks the roles that they take up."""
    while True:
        try:
            role()
            return
        except Become as become:
            role = become.role


def be(program: Program, *, env: dict[str, str], cwd: str, origin: ProcessOrigin) -> None:
    """The role of a process of the job: begin as a fresh interpreter would, the probe first."""
    fresh.put_on(program, env=env, cwd=cwd, path=origin.path, changed=origin.changed(env))
    start_probe()
    fresh.run(program)


def end_after(role: Role) -> NoReturn:
    """Run a role that is torchrun, and end with its exit code as the interpreter would, but for taking apart all that
    was imported: that is a quarter of a second, and nothing of the job's own is among it."""
    code: Any = None
    try:
        role()
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        raise  # the interpreter makes a signal of it
    except BaseException as error:
        if sys.stdout is not None:
            sys.stdout.flush()
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, or nobody reads it
            stream.flush()
    os._exit((code or 0) & 0xFF)


def start_probe() -> None:
    """What the probe's sitecustomize does in a fresh interpreter."""
    if not os.environ.get("CHAOSKIT_RUN"):
        return
    try:
        from chaoskit.probe.session import start

        start(forked=True)
    except Exception as error:  # the user's program must start whatever becomes of the probe
        print(f"chaoskit: the probe did not start: {error!r}", file=sys.stderr)


def leave() -> NoReturn:
    """End a process that has no program of its own to finish."""
    os._exit(0)
