"""`Interpreter`: one side of an upgrade: a Python, its packages, and its form of the job's command."""

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
from chaoskit.protocol.fingerprint import LENT, library

_SCRIPT = Path(__file__).with_name("examine.py")
_BOOTSTRAP = Path(__file__).parents[2] / "protocol" / "bootstrap.py"
#: Time limit in seconds for the import of torch, also on a busy machine with a cold disk.
LIMIT = 300.0
#: The main packages, in this order.
FIRST = ("python", "torch", "cuda", "cudnn", "nccl", "hip")
_PYTHON = re.compile(r"python[0-9.]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)


@dataclass(frozen=True)
class Interpreter:
    """`path` is the program as named (in a venv, a link). `versions` are those of python, torch and the libraries that
    torch was built with, `packages` those of all packages, `algorithm` is the probe's fingerprint algorithm there."""

    path: str
    versions: Mapping[str, str]
    packages: Mapping[str, str] = field(default_factory=dict)
    algorithm: str = ""

    @classmethod
    def examine(cls, path: str, *, option: str) -> Interpreter:
        """Run `examine.py` in the interpreter; `option` is its option on the command line.

        Raises UsageError, with the remedy, if it is no Python, too old for the probe, or lacks torch.
        """
        program = shutil.which(path)
        if program is None:
            what = "is a directory" if os.path.isdir(path) else "is not a program"
            hint = f": did you mean {os.path.join(path, 'bin', 'python')}?" if os.path.isdir(path) else ""
            raise UsageError(
                f"{option}: {path!r} {what}{hint or ': name a Python interpreter, such as venv/bin/python'}"
            )
        program = os.path.abspath(program)
        answer = _asked(program, option)
        major, minor = answer["version"]
        if answer["implementation"] != "cpython" or (major, minor) < (3, 11):
            what = f"{answer['implementation']} {major}.{minor}"
            raise UsageError(
                f"{option}: {program} is {what}, but the probe in the ranks needs CPython 3.11 or newer: "
                "name another interpreter"
            )
        if "missing" in answer:
            message = f"{option}: {program} cannot import torch ({answer['missing']})"
            raise UsageError(f"{message}: run {program} -m pip install torch")
        return cls(program, answer["versions"], answer["packages"], answer["algorithm"])

    @property
    def title(self) -> str:
        """'torch 2.14.1+cu130', for sentences."""
        return f"torch {self.versions['torch']}"

    def command(self, words: Sequence[str]) -> list[str]:
        """Rewrite a command for this interpreter: torchrun and python become the interpreter itself, another program
        becomes the one with that name in the interpreter's directory; `env` and its variables stay.

        Raises UsageError if there is no such program.
        """
        if not words:
            return []
        if os.path.basename(words[0]) == "env":
            count = next((at for at, word in enumerate(words[1:], 1) if not _VARIABLE.fullmatch(word)), len(words))
            if count < len(words) and words[count].startswith("-"):
                raise UsageError(
                    f"env with the option {words[count]} is not supported in the command: remove the option"
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
                f"the directory of {self.path} has no program {name!r}: install it ({self.path} -m pip install ...), "
                "or use a command that begins with torchrun or python"
            )
        return [beside, *words[1:]]

    def is_run_by(self, word: str) -> bool:
        """Whether a process whose command line begins with this word runs this interpreter."""
        here, there = os.path.dirname(os.path.abspath(word)), os.path.dirname(self.path)
        return _PYTHON.fullmatch(os.path.basename(word)) is not None and os.path.realpath(
            here
        ) == os.path.realpath(there)

    def to_json(self) -> dict[str, Any]:
        """Return every field as plain JSON."""
        return {**self.__dict__, "versions": dict(self.versions), "packages": dict(self.packages)}


def differences(old: Interpreter, new: Interpreter) -> dict[str, tuple[str | None, str | None]]:
    """Return the versions that differ by name; None if one side lacks the package. Main packages come first."""
    one, other = ({**own.packages, **own.versions} for own in (old, new))
    names = [*FIRST, *sorted({*one, *other} - {*FIRST}, key=str.lower)]
    return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}


def must_compare(old: Interpreter, new: Interpreter) -> None:
    """Raise UsageError if the fingerprints of the two sides are not comparable."""
    if old.algorithm == new.algorithm:
        return
    lacks = old if new.algorithm.startswith("xxh3") else new
    raise UsageError(
        f"{lacks.path} lacks xxhash, and chaoskit's own copy is for another Python version, so the fingerprints of "
        f"the two sides ({old.algorithm}, {new.algorithm}) are not comparable: run {lacks.path} -m pip install xxhash"
    )


def _asked(program: str, option: str) -> dict[str, Any]:
    env = {**os.environ, LENT: library()}
    asked = [program, str(_SCRIPT), str(_BOOTSTRAP)]
    try:
        done = subprocess.run(asked, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        answer: dict[str, Any] = json.loads(done.stdout.decode().splitlines()[-1])
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"{option}: {program} did not import torch within {LIMIT:g} s: check that 'import torch' works there"
        ) from error
    except (OSError, ValueError, IndexError) as error:
        raise UsageError(
            f"{option}: {program} is not a Python interpreter: name one, such as venv/bin/python"
        ) from error
    return answer
