"""`Program`: what a command would make a fresh Python interpreter run.

It understands only what a fork can replace: a script or `-m module`, with `-u` at most. Every other switch changes
the interpreter itself, which a running process cannot do.
"""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaoskit.errors import CannotWarm

#: The files that torch's own launchers are run from, by `python -m` or by name, and those of others that have torch's
#: elastic agent start the ranks, in their own process.
LAUNCHERS = (
    "torch.distributed.run", "torch.distributed.launch", "torchrun",
    "accelerate", "accelerate-launch", "accelerate.commands.launch", "accelerate.commands.accelerate_cli",
)  # fmt: skip
#: Flags of torchrun after which its ranks are not started as `python script.py`.
OTHER_RANKS = ("--no-python", "--no_python", "--run-path", "--run_path")


@dataclass(frozen=True)
class Program:
    """`words` is the command line as the interpreter would see it, itself first. `target` is a script's path, or a
    module's name if `module`; `args` follow it. `executed` is the file that the kernel names the process after."""

    words: tuple[str, ...]
    target: str
    module: bool
    args: tuple[str, ...]
    unbuffered: bool
    executed: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, every field."""
        return {**self.__dict__, "words": list(self.words), "args": list(self.args)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Program:
        """The inverse of `to_json`."""
        return cls(**{**data, "words": tuple(data["words"]), "args": tuple(data["args"])})

    @property
    def is_launcher(self) -> bool:
        """Whether it is torchrun, or another that runs torch's elastic agent."""
        return (self.target if self.module else os.path.basename(self.target)) in LAUNCHERS


def read(words: Sequence[str], *, interpreter: str, env: Mapping[str, str], cwd: str) -> Program:
    """The program that `interpreter` would run for this command. Raises CannotWarm, with the reason, if a fork
    cannot replace it.
    """
    found = _found(words[0], env, cwd)
    if not _is(found, interpreter):
        before = _shebang(found)
        if not before:
            raise CannotWarm(f"{words[0]!r} is no Python program")
        if not _is(before[0], interpreter):
            raise CannotWarm(f"{words[0]!r} is run by {before[0]}, which is not the interpreter of chaoskit")
        words = [*before, words[0] if os.sep in words[0] else found, *words[1:]]
    program = _python(words, found)
    script = _beside(program.target, cwd, script=True)
    if not program.module and not os.path.isfile(script):
        raise CannotWarm(f"{program.target!r} is no file")
    if not program.module and (script.endswith(".pyc") or zipfile.is_zipfile(script)):
        raise CannotWarm(f"{program.target!r} is no source, but compiled or an archive")
    if program.is_launcher and (flag := next((word for word in program.args if word in OTHER_RANKS), None)):
        raise CannotWarm(f"torchrun gets {flag}, so its ranks may not be Python programs")
    return program


def interpreter_of(words: Sequence[str], *, env: Mapping[str, str], cwd: str, own: str) -> str:
    """The Python that runs a command, directly or by a script's first line; `own` if that is it, or if none is.
    Raises CannotWarm if there is no such program.
    """
    found = _found(words[0], env, cwd)
    candidate = found if _PYTHON.fullmatch(os.path.basename(found)) else next(iter(_shebang(found)), "")
    if not _PYTHON.fullmatch(os.path.basename(candidate)) or not os.path.isfile(candidate):
        return own
    return own if _is(candidate, own) else os.path.abspath(os.path.join(cwd, candidate))


_PYTHON = re.compile(r"python[0-9.]*")


def _found(program: str, env: Mapping[str, str], cwd: str) -> str:
    """The file of a program; raises CannotWarm where there is none."""
    named = _beside(program, cwd)
    found = named if os.sep in named else shutil.which(named, path=env.get("PATH", os.defpath))
    if found is None or not os.path.isfile(found):
        raise CannotWarm(f"there is no program {program!r}")
    return found


def _python(words: Sequence[str], executed: str) -> Program:
    """The words after the interpreter taken apart."""
    rest = list(words[1:])
    unbuffered = False
    while rest and rest[0] == "-u":
        unbuffered = True
        rest.pop(0)
    if len(rest) > 1 and rest[0] == "-m":
        return Program(tuple(words), rest[1], True, tuple(rest[2:]), unbuffered, executed)
    if not rest or rest[0].startswith("-"):
        switch = rest[0] if rest else "no script"
        raise CannotWarm(f"the interpreter gets {switch}, which only a fresh interpreter can apply")
    return Program(tuple(words), rest[0], False, tuple(rest[1:]), unbuffered, executed)


def _is(program: str, interpreter: str) -> bool:
    """Whether it is that interpreter, in that environment: a venv is told by the directory, not by the file."""
    here, there = os.path.dirname(program), os.path.dirname(interpreter)
    try:
        same = os.path.samefile(here, there) and os.path.samefile(program, interpreter)
    except OSError:
        return False
    return same


def _shebang(path: str) -> list[str]:
    """The words of the first line of a script, as the kernel reads them; none if it has no such line."""
    try:
        with open(path, "rb") as file:
            first = file.readline(256)
    except OSError:
        return []
    if not first.startswith(b"#!"):
        return []
    return first[2:].decode(errors="replace").strip().split(None, 1)


def _beside(path: str, cwd: str, *, script: bool = False) -> str:
    """A relative path is meant from where the command starts; a bare name is looked up on PATH, if no script."""
    return os.path.join(cwd, path) if script or os.sep in path else path
