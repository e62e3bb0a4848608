"""`kept_out`: why the probe cannot come into a command, as far as its words show it.

The probe comes in by PYTHONPATH and finds its way by other variables of the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_PYTHON = re.compile(r"python[\d.]*")
_WITH_VALUE = ("W", "X")
_IGNORES = {
    "I": "which ignores PYTHONPATH",
    "E": "which ignores PYTHONPATH",
    "S": "which runs no sitecustomize",
}


@dataclass(frozen=True)
class KeptOut:
    """What in the command keeps the probe out, and what to change."""

    why: str
    remedy: str


def kept_out(words: Sequence[str]) -> KeptOut | None:
    """What in the words of a command keeps the probe out; None if nothing there does."""
    for at, word in enumerate(words):
        name = os.path.basename(word)
        if name == "env" and (found := _by_env(words[at + 1 :])):
            return found
        if _PYTHON.fullmatch(name) and (found := _by_python(words[at + 1 :])):
            return found
    return None


def _by_env(words: Iterable[str]) -> KeptOut | None:
    for word in words:
        if word in ("-", "-i", "--ignore-environment"):
            return KeptOut(
                "'env' starts it without the environment by which the probe comes in",
                f"Leave out {word!r} after 'env': the job needs the variables PYTHONPATH and CHAOSKIT_...",
            )
        if word.startswith("PYTHONPATH="):
            return KeptOut(
                f"its words set {word}, and the probe comes in by PYTHONPATH",
                "Give PYTHONPATH in the environment of chaoskit, or in the variables of the job: chaoskit adds to it",
            )
        if not word.startswith("-") and "=" not in word:
            return None
    return None


def _by_python(words: Sequence[str]) -> KeptOut | None:
    for word in words:
        if not re.fullmatch(r"-[A-Za-z]+", word) or word[1] in _WITH_VALUE:
            return None
        letters = word[1:].partition("c")[0].partition("m")[0]
        for letter, does in _IGNORES.items():
            if letter in letters:
                return KeptOut(
                    f"it starts Python with -{letter}, {does}, and the probe comes in by that",
                    f"Start Python without -{letter}",
                )
        if letters != word[1:]:
            return None
    return None
