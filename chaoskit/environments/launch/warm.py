"""`WarmLauncher`: starts the command by forking a process that has imported torch, and its ranks likewise.

Only the way in which a Python process comes into being changes; the launcher is torch's own, with the user's flags.
Two parents take turns, one for even launches and one for odd: a fresh interpreter orders sets of strings
differently each time, and a job that depends on that must be found out. With a fixed PYTHONHASHSEED there is one
parent.
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

from chaoskit.environments.launch import surroundings
from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.launch.kept import KeptLaunch, launch_with
from chaoskit.environments.launch.launcher import WaitingKeeper
from chaoskit.environments.launch.order import Order
from chaoskit.environments.launch.parent import Parent
from chaoskit.environments.launch.program import Program, interpreter_of, read
from chaoskit.environments.launch.rank_modules import PACKAGE, rank_modules
from chaoskit.errors import CannotWarm, ParentLost

#: Environment variables that take effect when an interpreter starts, and what for.
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
    "tqdm", "colorama",  # torch.hub imports the first where it is installed, and the first imports the second
))  # fmt: skip

_parents: dict[tuple[object, ...], Parent] = {}
#: One thread at a time speaks to a parent.
_turn = threading.Lock()


@dataclass(frozen=True)
class WarmLauncher:
    """Launches warm. `modules`: what the ranks import of installed packages. `threads`: the OMP_NUM_THREADS that
    they see, None if unset. `grace`: as for `ColdLauncher`. If the command needs fresh processes, `start` raises
    CannotWarm with `demanded`, and launches cold without.
    """

    modules: tuple[str, ...] = ()
    threads: str | None = None
    demanded: bool = False
    grace: float = field(default=ColdLauncher.grace)

    def start(self, order: Order) -> KeptLaunch:
        """See `Launcher.start`."""
        try:
            return launch_with(lambda line: self.keep(order, line))
        except CannotWarm as error:
            if self.demanded:
                raise
            afresh = ColdLauncher(self.grace).start(order)
            afresh.how = f"cold: {error}"
            return afresh

    def keep(self, order: Order, line: socket.socket) -> WaitingKeeper:
        """See `Launcher.keep`; raises CannotWarm if the command needs fresh processes, demanded or not."""
        interpreter, program = program_of(order.command, env=order.env, cwd=order.cwd)
        told = {**order.to_json(grace=self.grace), "program": program.to_json()}
        with _turn:
            parent = self._parent(order, interpreter)
            return WaitingKeeper(parent.keep(line, order.run_id), told, how="warm")

    def wait_for_imports(self, order: Order) -> None:
        """Return once `keep` can fork for this order at once; raises CannotWarm if it never can."""
        interpreter, _ = program_of(order.command, env=order.env, cwd=order.cwd)
        with _turn:
            self._parent(order, interpreter)

    def prepare(self, env: Mapping[str, str], cwd: str) -> None:
        """Start the parents, if there are none yet, and let them import what they must; does not wait."""
        for slot in range(_twins(env)):
            with suppress(ParentLost):  # whoever needs it will learn why
                self.ask(env, cwd, slot)

    def ask(self, env: Mapping[str, str], cwd: str, slot: int, *, interpreter: str = sys.executable) -> Parent:
        """The parent of that slot, with its imports requested. Raises ParentLost if there can be none."""
        given = {name: value for name, value in surroundings.early(env, cwd).items() if name != "OMP_NUM_THREADS"}
        if self.threads is not None:
            given["OMP_NUM_THREADS"] = self.threads
        parent = _find(interpreter, given, slot, _foreign(self.modules))
        parent.ask((*_ALWAYS, *_probe(), *self.modules))
        return parent

    def _parent(self, order: Order, interpreter: str) -> Parent:
        """The parent whose turn it is, ready to be forked. The other one gets ready in the meantime."""
        env, cwd, twins = order.env, str(order.cwd.absolute()), _twins(order.env)
        launch = int(env.get("CHAOSKIT_LAUNCH", "0"))
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
    """The interpreter of a command, which may be another one than ours, and the program that it runs. Raises
    CannotWarm if it must be started in a fresh process.
    """
    interpreter = interpreter_of(command, env=env, cwd=str(cwd), own=sys.executable)
    refuse(env, str(cwd), interpreter)
    return interpreter, read(command, interpreter=interpreter, env=env, cwd=str(cwd))


def refuse(env: Mapping[str, str], cwd: str, interpreter: str = sys.executable) -> None:
    """Raises CannotWarm if the environment asks for fresh interpreters, whatever the command."""
    if not sys.platform.startswith("linux"):
        raise CannotWarm(f"it needs Linux, and this is {sys.platform}")
    for name, why in _DEMANDS.items():
        if env.get(name):
            raise CannotWarm(f"{name} is set: {why}")
    if (site := _customized(env, cwd, interpreter)) is not None:
        raise CannotWarm(f"{site} must run when an interpreter starts")


def trial(env: Mapping[str, str], cwd: str) -> str | None:
    """Why this machine cannot launch warm, None if it can: starts a parent and asks it. Raises CannotWarm if the
    environment forbids it.
    """
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
    """Close every connection. A parent that nobody else needs ends."""
    while _parents:
        key, parent = _parents.popitem()
        if key[0] == os.getpid():  # a fork of the harness has no business with them
            parent.close()


def _foreign(modules: Sequence[str]) -> tuple[str, ...]:
    """The packages among these that are not harmless. Parents differ by them: some change torch when imported."""
    return tuple(sorted({name.partition(".")[0] for name in modules} - _HARMLESS))


@cache
def _probe() -> tuple[str, ...]:
    """The modules of the probe that ranks import, but for those that only an injection needs."""
    probe = [path.stem for path in rank_modules() if path.parent == PACKAGE / "probe" and path.stem != "__init__"]
    return tuple(f"chaoskit.probe.{name}" for name in probe)


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
        raise CannotWarm(f"{interpreter} does not tell its version ({type(error).__name__})") from error
    if kind != "cpython" or version < [3, 11]:
        raise CannotWarm(f"{interpreter} is {kind} {version[0]}.{version[1]}, and it needs CPython 3.11 or newer")
    return tuple(place for place in places if os.path.isdir(place))
