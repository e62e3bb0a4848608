"""`examples/handlers/*/handler.toml`: handlers of preemption notices, how each is measured, and what is known of it."""

from __future__ import annotations

import hashlib
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from frameworks_examples import Mistake

ROOT = Path(__file__).parent.parent
HANDLERS = ROOT / "examples" / "handlers"


@dataclass(frozen=True)
class Finding:
    """One experiment of a measurement. `expected` are the codes that were expected before it was run, `codes` those
    that it finds; `why` explains these by the handler's source, at `where`. `notice` is that of the
    measurement, unless it is given."""

    experiment: str
    does: str
    codes: tuple[str, ...]
    expected: tuple[str, ...]
    where: str = ""
    why: str = ""
    notice: str = ""


@dataclass(frozen=True)
class Measurement:
    """A job that is given notice. `command` measures it, from the root of the repository: `chaoskit run`, or pytest
    with an experiment of its own. `needs` says what it must have besides the packages, and `variable` names one of the
    environment without which it is left as it was."""

    name: str
    title: str
    notice: str
    command: tuple[str, ...]
    finding: tuple[Finding, ...]
    needs: str = ""
    variable: str = ""

    def measuring(self, answer: Path, store: Path) -> list[str]:
        """The command, with options that say where to write the answers and the runs."""
        if self.command[0] == "pytest":
            return [*self.command, "--chaos-json", str(answer), "--chaos-dir", str(store)]
        return [*self.command[:2], "--no-proof", "--json", str(answer), "--dir", str(store), *self.command[2:]]

    def shown(self) -> str:
        """The command, to copy."""
        return " ".join(shlex.quote(word).replace("'{out}'", "{out}") for word in self.command)


@dataclass(frozen=True)
class Handler:
    """One handler. `package` is the one whose version the page names; `texts` are those of the files beside
    `handler.toml`."""

    name: str
    title: str
    what: str
    package: str
    requires: tuple[str, ...]
    venv: str
    measurement: tuple[Measurement, ...]
    texts: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Names its files: what was measured of other ones says nothing of these."""
        told = "".join(f"{name}\n{self.texts[name]}" for name in sorted(self.texts))
        return hashlib.sha256(told.encode()).hexdigest()[:12]


def handlers(place: Path = HANDLERS) -> dict[str, Handler]:
    """All of them, by name. Raises Mistake."""
    return {path.parent.name: read(path) for path in sorted(place.glob("*/handler.toml"))}


def read(path: Path) -> Handler:
    """One handler. Raises Mistake."""
    try:
        told = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise Mistake(f"{path}: {error}") from error
    texts = {file.name: file.read_text() for file in path.parent.iterdir() if file.suffix in (".py", ".sh")}
    measured = []
    for each in told.get("measurement", ()):
        found = tuple(_made(path, Finding, one) for one in each.get("finding", ()))
        measured.append(_made(path, Measurement, {**each, "finding": found}))
    return _made(path, Handler, {**told, "name": path.parent.name, "texts": texts, "measurement": tuple(measured)})


def _made(path: Path, kind: Any, told: Mapping[str, Any]) -> Any:
    """A table of the file as an object; lines are joined. Raises Mistake for keys that are missing or not known."""
    known = fields(kind)
    _keys(path, kind, told, [one.name for one in known], [one.name for one in known if one.default is MISSING])
    plain = {key: " ".join(value.split()) if isinstance(value, str) else value for key, value in told.items()}
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()})


def _keys(path: Path, kind: Any, told: Iterable[str], known: Sequence[str], must: Sequence[str]) -> None:
    if unknown := [key for key in told if key not in known]:
        raise Mistake(f"{path}: {kind.__name__}: there is no key {unknown[0]!r}; there are {', '.join(known)}")
    if missing := [key for key in must if key not in told]:
        raise Mistake(f"{path}: {kind.__name__}: {missing[0]!r} is missing")
