"""Starts small programs, warm and cold, in surroundings that all tests share, and finds the processes around them."""

from __future__ import annotations

import os
import select
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.launch.kept import KeptLaunch
from chaoskit.environments.launch.launcher import LaunchEnd, Launcher
from chaoskit.environments.launch.order import Order
from chaoskit.environments.launch.warm import WarmLauncher
from chaoskit.environments.machine import processes

PYTHON = sys.executable
TORCHRUN = (PYTHON, "-m", "torch.distributed.run", "--nproc-per-node")
#: One seed of `hash`, so that one parent does for all.
SURROUNDINGS = {
    "PATH": os.pathsep.join([os.path.dirname(PYTHON), os.defpath]),
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}
COLD = ColdLauncher()
WARM = WarmLauncher(threads="1", demanded=True)
LIMIT = 120.0


@dataclass(frozen=True)
class Outcome:
    """How a launch came out, and what it printed."""

    how: str
    end: LaunchEnd
    text: str


@dataclass(frozen=True)
class Stage:
    """A directory in which programs run, and the mark that all their processes carry."""

    place: Path
    run_id: str

    def script(self, text: str, *, name: str = "prog.py") -> str:
        """Write a program; its name, which is good for a command line in this directory."""
        (self.place / name).write_text(text)
        return name

    def environ(self, **env: str | None) -> dict[str, str]:
        """What they all share, with these put in; None takes one out."""
        given = {**SURROUNDINGS, "CHAOSKIT_ID": self.run_id, **env}
        return {name: value for name, value in given.items() if value is not None}

    def start(
        self,
        command: Sequence[str],
        *,
        launcher: Launcher = WARM,
        cwd: Path | None = None,
        log: str = "log",
        **env: str | None,
    ) -> KeptLaunch:
        """Start it, here if nothing else is said."""
        order = Order(
            command, env=self.environ(**env), cwd=cwd or self.place, log=self.place / log, run_id=self.run_id
        )
        return launcher.start(order)

    def play(self, command: Sequence[str], *, launcher: Launcher = WARM, **options: object) -> Outcome:
        """Start it and wait until it is over."""
        name = f"log-{uuid.uuid4().hex[:8]}"
        return over(self.start(command, launcher=launcher, log=name, **options), self.place / name)

    def both(self, command: Sequence[str]) -> tuple[Outcome, Outcome]:
        """Start it cold and warm, side by side, and wait for both."""
        for log in ("cold", "warm"):
            (self.place / log).unlink(missing_ok=True)
        cold = self.start(command, launcher=COLD, log="cold")
        warm = self.start(command, log="warm")
        return over(cold, self.place / "cold"), over(warm, self.place / "warm")


def over(launch: KeptLaunch, log: Path) -> Outcome:
    """Wait until a launch is over."""
    try:
        end = ended(launch)
    finally:
        launch.close()
    return Outcome(launch.how, end, log.read_text())


def ended(launch: KeptLaunch) -> LaunchEnd:
    """Wait for the end."""
    while (end := launch.ended()) is None:
        assert select.select([launch], [], [], LIMIT)[0], "it never ended"
    return end


def children(pid: int) -> list[int]:
    """Who has this parent, zombies included."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and parent(int(name)) == pid]


def parent(pid: int) -> int | None:
    """The parent of a process; None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(stat.rpartition(b")")[2].split()[1])


def environ(pid: int) -> Mapping[str, str]:
    """What it shows as its environment; nothing if it is gone."""
    try:
        shown = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    return dict(os.fsdecode(entry).partition("=")[::2] for entry in shown.split(b"\0"))


def runs(pid: int) -> bool:
    """Whether it is there and no zombie."""
    process = processes.identify(pid)
    return process is not None and processes.state(process) != "gone"


def forker(agent: int) -> int:
    """The forker of an agent."""
    return next(pid for pid in children(agent) if environ(pid).get("CHAOSKIT_FORKER") == "1")


def ranks(agent: int) -> list[int]:
    """The ranks of an agent."""
    return [pid for pid in children(agent) if "RANK" in environ(pid)]


def sockets(pid: int | None = None) -> set[str]:
    """The abstract addresses of Unix sockets, with their inodes: all of them, or those that a process has open."""
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    named = {f"socket:[{line[6]}]": f"{line[7]} {line[6]}" for line in lines if len(line) > 7}
    if pid is None:
        return set(named.values())
    return {named[link] for link in map(os.readlink, Path(f"/proc/{pid}/fd").iterdir()) if link in named}
