"""`KeptAnswers`: the answers of the gallery's exam on disk, so that it goes on where it was interrupted."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from gallery_sittings import Sitting

Answers = dict[str, dict[str, Any]]
ROOT = Path(__file__).parent.parent


class KeptAnswers:
    """One JSON object a line: a sitting, its answers, and the sources that it rests on. Without a path nothing is kept.

    An answer counts as long as chaoskit, the experiments and that trainer are as they were.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._found: dict[str, Answers] = {}
        if path is not None and path.exists():
            whole, _, cut_short = path.read_text().rpartition("\n")
            if cut_short:
                path.write_text(f"{whole}\n" if whole else "")
            self._found = {told["key"]: told["answers"] for told in map(json.loads, whole.splitlines())}

    def of(self, one: Sitting) -> Answers | None:
        """The answers of a sitting, if they are kept and still count."""
        return self._found.get(_key(one))

    def add(self, one: Sitting, answers: Answers) -> None:
        """Keep them."""
        if self._path is not None:
            with self._lock, self._path.open("a") as file:
                told = {"key": _key(one), "sitting": asdict(one), "answers": answers}
                file.write(json.dumps(told) + "\n")


def _key(one: Sitting) -> str:
    words = json.dumps([asdict(one), _digest_of_all(), _digest([_source(one.module)])], sort_keys=True)
    return hashlib.sha256(words.encode()).hexdigest()


def _source(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.py"


@cache
def _digest_of_all() -> str:
    """Of chaoskit, the experiments, and what all trainers share."""
    trainers = [path for path in (ROOT / "tinymodels").rglob("*.py") if "gallery" not in path.parts]
    return _digest([*(ROOT / "chaoskit").rglob("*.py"), *(ROOT / "experiments").glob("*.py"), *trainers])


def _digest(paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()
