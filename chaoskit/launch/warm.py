"""`WarmLauncher`: starts the command by forking a process that has imported torch, and its ranks likewise.

What changes is only how a Python process comes into being; the launcher is torch's own, with the user's own flags. Two
parents take turns, one for even launches and one for odd: a fresh interpreter would order sets of strings anew, and a
job that must not depend on that shall not be spared it. Where PYTHONHASHSEED says otherwise, one does.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from chaoskit.errors import CannotWarm, ParentLost
from chaoskit.launch import surroundings
from chaoskit.launch.cold import ColdLauncher
from chaoskit.launch.kept import KeptLaunch
from chaoskit.launch.order import Order
from chaoskit.launch.parent import Parent
from chaoskit.launch.program import Program, interpreter_of, read

#: Environment variables that ask to be heeded when an interpreter starts, and what for.
_DEMANDS = {
    "COVERAGE_PROCESS_START": "coverage measures a process from its start",
    "COV_CORE_SOURCE": "pytest-cov measures a process from its start",
}
#: Modules that every parent imports: torch, what torchrun is made of, and the probe.
_ALWAYS = ("torch", "torch.distributed.run", "torch.distributed.elastic.multiprocessing.api")

#: Packages that torch and the probe bring along, and plain containers of tensors: none changes what others do.
_HARMLESS = frozenset((
    "torch", "functorch", "torchgen", "numpy", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec",
    "filelock", "typing_extensions", "setuptools", "_distutils_hack", "packaging", "safetensors", "xxhash",
))  # fmt: skip

_parents: dict[tuple[object, ...], Parent] = {}
#: A parent is spoken to by one thread at a time.
_turn = threading.Lock()


@dataclass(frozen=True)
class WarmLauncher:
    """Launches warm. `modules` are what the ranks import of installed packages, `threads` is the OMP_NUM_THREADS that
    they see, None where they see none; `grace` is as for `ColdLauncher`. With `demanded`, `start` raises CannotWarm for
    what only fresh processes can do; without, it starts them.
    """

    modules: tuple[str, ...] = ()
    threads: str | None = None
    demanded: bool = False
    grace: float = field(default=ColdLauncher.grace)

    def start(self, order: Order) -> KeptLaunch:
        """See `Launcher.start`."""
        try:
            interpreter, program = program_of(order.command, env=order.env, cwd=order.cwd)
            told = {**order.to_json(grace=self.grace), "program": program.to_json()}
            return self._start(told, order.run_id, interpreter)
        except CannotWarm as error:
            if self.demanded:
                raise
            afresh = ColdLauncher(self.grace).start(order)
            afresh.how = f"cold: {error}"
            return afresh

    def _start(self, order: Mapping[str, Any], run_id: str, interpreter: str) -> KeptLaunch:
        env = order["env"]
        ours, theirs = socket.socketpair()
        try:
            with theirs, _turn:
                turn = int(env.get("CHAOSKIT_LAUNCH", "0"))
                parent = self._parent(env, order["cwd"], launch=turn, interpreter=interpreter)
                keeper = parent.keep(theirs, run_id)
            return KeptLaunch(keeper, ours, order, how="warm")
        except BaseException:
            ours.close()  # the keeper takes it for our death and leaves nothing behind
            raise

    def prepare(self, env: Mapping[str, str], cwd: str) -> None:
        """Have the parents started, if there are none yet, and import what they must; waits for nothing."""
        for slot in range(_twins(env)):
            with suppress(ParentLost):  # whoever needs it will learn why
                self.ask(env, cwd, slot)

    def ask(self, env: Mapping[str, str], cwd: str, slot: int, *, interpreter: str = sys.executable) -> Parent:
        """The parent of that slot, told what to import; raises ParentLost where none can be had."""
        given = {name: value for name, value in surroundings.early(env, cwd).items() if name != "OMP_NUM_THREADS"}
        if self.threads is not None:
            given["OMP_NUM_THREADS"] = self.threads
        parent = _find(interpreter, given, slot, _foreign(self.modules))
        parent.ask((*_ALWAYS, *_probe(), *self.modules))
        return parent

    def _parent(self, env: Mapping[str, str], cwd: str, *, launch: int, interpreter: str) -> Parent:
        """The parent whose turn it is, ready to be forked; its twin is made ready meanwhile."""
        twins = _twins(env)
        parent = self.ask(env, cwd, launch % twins, interpreter=interpreter)
        if twins > 1:
            with suppress(ParentLost):  # whoever needs it will learn why
                self.ask(env, cwd, 1 - launch % twins, interpreter=interpreter)
        if (reason := parent.unfit()) is not None:
            raise CannotWarm(reason)
        return parent


def _twins(env: Mapping[str, str]) -> int:
    """How many parents take turns."""
    return 1 if env.get("PYTHONHASHSEED", "random") != "random" else 2


def program_of(command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> tuple[str, Program]:
    """The interpreter of a command, which need not be this one, and what it comes to; raises CannotWarm where it must
    be started afresh."""
    interpreter = interpreter_of(command, env=env, cwd=str(cwd), own=sys.executable)
    refuse(env, str(cwd), interpreter)
    return interpreter, read(command, interpreter=interpreter, env=env, cwd=str(cwd))


def refuse(env: Mapping[str, str], cwd: str, interpreter: str = sys.executable) -> None:
    """Raises CannotWarm where the surroundings ask for fresh interpreters, whatever the command."""
    if not sys.platform.startswith("linux"):
        raise CannotWarm(f"it needs Linux, and this is {sys.platform}")
    for name, why in _DEMANDS.items():
        if env.get(name):
            raise CannotWarm(f"{name} is set: {why}")
    if (site := _customized(env, cwd, interpreter)) is not None:
        raise CannotWarm(f"{site} is to be run when an interpreter starts")


def trial(env: Mapping[str, str], cwd: str) -> str | None:
    """Why this machine cannot launch warm, None if it can: a parent is started, and asked. Raises CannotWarm for what
    the surroundings themselves forbid."""
    refuse(env, cwd)
    return WarmLauncher().ask(env, cwd, 0).unfit()


def _find(interpreter: str, env: Mapping[str, str], slot: int, packages: tuple[str, ...]) -> Parent:
    """The connection to that parent; a new one where there is none yet, or it is lost."""
    key = (os.getpid(), interpreter, surroundings.digest(dict(env), surroundings.limits()), slot, packages)
    if key not in _parents or _parents[key].is_lost:
        if len(_parents) >= _AT_MOST:
            _parents.pop(next(iter(_parents))).close()
        _parents[key] = Parent(interpreter, env, slot=slot, packages=packages)
    _parents[key] = _parents.pop(key)  # the last to go
    return _parents[key]


#: Connections that a harness keeps: each parent holds some 300 MB.
_AT_MOST = 4


@atexit.register
def let_go() -> None:
    """Close every connection; a parent that nobody else needs goes."""
    while _parents:
        key, parent = _parents.popitem()
        if key[0] == os.getpid():  # a fork of the harness has no business with them
            parent.close()


def _foreign(modules: Sequence[str]) -> tuple[str, ...]:
    """The packages among these that are not harmless. Parents differ by them: some change torch when imported."""
    return tuple(sorted({name.partition(".")[0] for name in modules} - _HARMLESS))


@cache
def _probe() -> tuple[str, ...]:
    place = Path(__file__).parent.parent / "probe"
    return tuple(f"chaoskit.probe.{path.stem}" for path in sorted(place.glob("[a-z]*.py")))


def _customized(env: Mapping[str, str], cwd: str, interpreter: str) -> str | None:
    """The file of a sitecustomize or usercustomize of the user's own; None where there is none."""
    path = surroundings.python_path(env, cwd)
    for name in ("sitecustomize", "usercustomize"):
        spec = PathFinder.find_spec(name, [*path, *_installed(interpreter)])
        if spec is not None and spec.origin is not None:
            return spec.origin
    return None


#: Asked of an interpreter: which it is, and where its packages lie; not the standard library, whose sitecustomize a
#: distribution sets.
_ASKED = """
import json, site, sys
places = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
print(json.dumps([sys.implementation.name, sys.version_info[:2], places]))
"""


@cache
def _installed(interpreter: str) -> tuple[str, ...]:
    """Where the packages of an interpreter lie; raises CannotWarm for one that our own code cannot run in."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    asked = [interpreter, "-c", _ASKED]
    try:
        said = subprocess.run(asked, env=env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        kind, version, places = json.loads(said.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise CannotWarm(f"{interpreter} does not say what it is ({type(error).__name__})") from error
    if kind != "cpython" or version < [3, 11]:
        raise CannotWarm(f"{interpreter} is {kind} {version[0]}.{version[1]}, and it needs CPython 3.11 or newer")
    return tuple(place for place in places if os.path.isdir(place))
