"""`Interpreter`: one side of an upgrade: a Python, what it has installed, and what a command is when it runs it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaoskit.errors import UsageError
from chaoskit.fingerprint import LENT, library

_SCRIPT = Path(__file__).with_name("examine.py")
_IMPORTABLE = Path(__file__).parent.parent / "importable.py"
#: Seconds in which an interpreter must have imported torch: on a busy machine, from a cold disk.
LIMIT = 300.0
#: What is told of an interpreter first, in this order.
FIRST = ("python", "torch", "cuda", "cudnn", "nccl", "hip")
_PYTHON = re.compile(r"python[0-9.]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)


@dataclass(frozen=True)
class Interpreter:
    """`path` is the program, as it was named (in a venv, a link). `versions` are those of python, torch and what torch
    was built with, `packages` those of all that is installed, `algorithm` is how the probe makes fingerprints there."""

    path: str
    versions: Mapping[str, str]
    packages: Mapping[str, str] = field(default_factory=dict)
    algorithm: str = ""

    @classmethod
    def examine(cls, path: str, *, option: str) -> Interpreter:
        """Ask it; `option` is how it was named on the command line.

        Raises UsageError, with the remedy, for what is no Python, is too old for the probe, or has no torch.
        """
        program = shutil.which(path)
        if program is None:
            what = "is a directory" if os.path.isdir(path) else "is no program"
            hint = f": did you mean {os.path.join(path, 'bin', 'python')}?" if os.path.isdir(path) else ""
            raise UsageError(
                f"{option}: {path!r} {what}{hint or ': name a Python interpreter, such as venv/bin/python'}"
            )
        program = os.path.abspath(program)
        told = _asked(program, option)
        major, minor = told["version"]
        if told["implementation"] != "cpython" or (major, minor) < (3, 11):
            what = f"{told['implementation']} {major}.{minor}"
            raise UsageError(
                f"{option}: {program} is {what}: the probe, which runs in the ranks, needs CPython 3.11"
            )
        if "missing" in told:
            message = f"{option}: {program} has no torch that can be imported ({told['missing']})"
            raise UsageError(f"{message}: {program} -m pip install torch")
        return cls(program, told["versions"], told["packages"], told["algorithm"])

    @property
    def title(self) -> str:
        """'torch 2.14.1+cu130', for sentences."""
        return f"torch {self.versions['torch']}"

    def command(self, words: Sequence[str]) -> list[str]:
        """A command as this interpreter runs it: torchrun and python become the interpreter itself, another program the
        one of that name beside it, all behind `env` and its variables.

        Raises UsageError where there is no such program.
        """
        if not words:
            return []
        if os.path.basename(words[0]) == "env":
            count = next((at for at, word in enumerate(words[1:], 1) if not _VARIABLE.fullmatch(word)), len(words))
            if count < len(words) and words[count].startswith("-"):
                raise UsageError(
                    f"env is given {words[count]}, so the program that it starts cannot be told: leave it out"
                )
            return [*words[:count], *self.command(words[count:])]
        name = os.path.basename(words[0])
        if name == "torchrun":
            return [self.path, "-m", "torch.distributed.run", *words[1:]]
        if _PYTHON.fullmatch(name):
            return [self.path, *words[1:]]
        beside = os.path.join(os.path.dirname(self.path), name)
        if not os.access(beside, os.X_OK) or os.path.isdir(beside):
            raise UsageError(
                f"there is no program {name!r} beside {self.path}: install it there ({self.path} -m pip install ...), "
                "or give a command that begins with torchrun or python"
            )
        return [beside, *words[1:]]

    def is_run_by(self, word: str) -> bool:
        """Whether a process whose command line begins with this word is one of this interpreter's."""
        here, there = os.path.dirname(os.path.abspath(word)), os.path.dirname(self.path)
        return _PYTHON.fullmatch(os.path.basename(word)) is not None and os.path.realpath(
            here
        ) == os.path.realpath(there)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, every field."""
        return {**self.__dict__, "versions": dict(self.versions), "packages": dict(self.packages)}


def differences(old: Interpreter, new: Interpreter) -> dict[str, tuple[str | None, str | None]]:
    """By name the versions that are not the same; None for what only one has. The first names first."""
    one, other = ({**own.packages, **own.versions} for own in (old, new))
    names = [*FIRST, *sorted({*one, *other} - {*FIRST}, key=str.lower)]
    return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}


def must_compare(old: Interpreter, new: Interpreter) -> None:
    """Raises UsageError where fingerprints of the two sides could not be compared."""
    if old.algorithm == new.algorithm:
        return
    lacks = old if new.algorithm.startswith("xxh3") else new
    raise UsageError(
        f"{lacks.path} lacks xxhash, and the one that chaoskit brings along is for another Python, so fingerprints of "
        f"the two sides ({old.algorithm}, {new.algorithm}) would not compare: {lacks.path} -m pip install xxhash"
    )


def _asked(program: str, option: str) -> dict[str, Any]:
    env = {**os.environ, LENT: library()}
    asked = [program, str(_SCRIPT), str(_IMPORTABLE)]
    try:
        said = subprocess.run(asked, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        told: dict[str, Any] = json.loads(said.stdout.decode().splitlines()[-1])
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{option}: {program} did not import torch within {LIMIT:g} seconds") from error
    except (OSError, ValueError, IndexError) as error:
        raise UsageError(
            f"{option}: {program} is no Python interpreter: name one, such as venv/bin/python"
        ) from error
    return told
