"""`examples/*/example.toml`: what each program is, how it is run, and what is known of it; a mistake in one is told."""

from __future__ import annotations

import hashlib
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"

#: What a script is given besides, by the name of the variant.
VARIANTS = {"plain": (), "augment": ("--augment",), "workers": ("--workers",)}
#: The experiments behind each column, and how `-k` names them.
COLUMNS = {
    "control": ("control",),
    "mid-epoch": ("one_rank_mid_epoch",),
    "boundary": ("epoch_boundary",),
    "twice": ("twice",),
    "sigterm": ("sigterm_one_rank",),
    "torn": ("middle_of_save", "between_writes", "last_writer"),
    "corrupt": ("damaged", "flipped_bit"),
}
#: Where a job resumes besides: what it loses at one resume it may lose at these.
RESUMES = ("twice", "sigterm", "torn", "corrupt")
#: What must pass before a script is called exact.
EXACT = ("control", "mid-epoch", "boundary", "twice")


class Mistake(Exception):
    """In an example, for a person."""


@dataclass(frozen=True)
class Fault:
    """One that was found in `train.py`, and looked up in the source: `where` it is there, and what the source does."""

    variants: tuple[str, ...]
    experiments: tuple[str, ...]
    codes: tuple[str, ...]
    where: str
    why: str

    def covers(self, column: str, code: str, variant: str | None) -> bool:
        """Whether it explains this code in this column, of this variant of `train.py`; None stands for the fixed
        script, of which what it mends explains nothing."""
        if variant is None:
            return column in self.experiments and code in self.codes and (column in EXACT or not self.mended)
        shows = column in self.experiments or (column in RESUMES and self.mended)
        return shows and code in self.codes and variant in self.variants

    @property
    def mended(self) -> bool:
        """Whether it shows where the fixed script is to be exact."""
        return bool(set(EXACT).intersection(self.experiments))


@dataclass(frozen=True)
class Blind:
    """A component that chaoskit does not see."""

    component: str
    why: str
    remedy: str


@dataclass(frozen=True)
class Example:
    """One program. `command` holds `{script}` and `{out}`; `experiments_skipped` says, by column, why not; `timeout` is
    the deadline of one run, in seconds, where it is known to hang. `texts` are those of its scripts, `beside` is that
    of other programs in its directory."""

    name: str
    title: str
    package: str
    requires: tuple[str, ...]
    venv: str
    command: tuple[str, ...]
    resume_args: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    launch: str = ""
    timeout: int = 0
    experiments_skipped: Mapping[str, str] = field(default_factory=dict)
    change: str = ""
    unfixable: str = ""
    note: str = ""
    fault: tuple[Fault, ...] = ()
    blind: tuple[Blind, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    beside: str = ""

    @property
    def scripts(self) -> tuple[str, ...]:
        """`train.py`, and `exact.py` where there is one."""
        return tuple(self.texts)

    @property
    def fixed(self) -> str:
        """The script that is to be exact."""
        return self.scripts[-1]

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that are measured."""
        return tuple(name for name in COLUMNS if name not in self.experiments_skipped)

    def job(self, script: str, variant: str) -> list[str]:
        """What a user would type, from the root of the repository."""
        words = [word.replace("{script}", f"examples/{self.name}/{script}") for word in self.command]
        return [*words, *VARIANTS[variant]]

    def digest(self, script: str) -> str:
        """Names its text, and what lies beside it: what was measured of another one says nothing of this."""
        return hashlib.sha256((self.texts[script] + self.beside).encode()).hexdigest()[:12]

    def options(self) -> list[str]:
        """Of `chaoskit run`, that it needs."""
        resume = [f"--resume-args={self.resume_args}"] if self.resume_args else []
        launch = ["--launch", self.launch] if self.launch else []
        return [*resume, *launch, *(["--timeout", str(self.timeout)] if self.timeout else [])]

    def shown(self, script: str, variant: str, columns: Sequence[str]) -> str:
        """The command that measures these columns, to copy."""
        before = [f"{name}={shlex.quote(value)}" for name, value in self.env.items()]
        own = [*before, "chaoskit run -k", shlex.quote(expression(columns)), *map(shlex.quote, self.options())]
        job = (shlex.quote(word).replace("'{out}'", "{out}") for word in self.job(script, variant))
        return " ".join([*own, "--", *job])


def expression(columns: Sequence[str]) -> str:
    """What `-k` is given for them."""
    return " or ".join(name for column in columns for name in COLUMNS[column])


def examples(place: Path = EXAMPLES, *, only: Sequence[str] = ()) -> dict[str, Example]:
    """All of them, by name; raises Mistake. Where `only` some are asked for, mistakes in the others do not matter."""
    found = {}
    for path in sorted(place.glob("*/example.toml")):
        try:
            found[path.parent.name] = read(path)
        except Mistake:
            if not only or path.parent.name in only:
                raise
    asked: dict[tuple[str, str], tuple[str, str]] = {}
    for one in found.values():
        for wish in one.requires:
            package = wish.partition("==")[0]
            other = asked.setdefault((one.venv, package), (wish, one.name))
            if other[0] != wish:
                raise Mistake(f"{one.name} wants {wish}, {other[1]} {other[0]}, both in build/{one.venv}")
    return found


def left_out(place: Path = EXAMPLES) -> list[dict[str, str]]:
    """Programs that are not there, and why."""
    path = place / "left-out.toml"
    told = tomllib.loads(path.read_text()).get("left_out", []) if path.exists() else []
    for one in told:
        _keys(path, one, must=("title", "why"), may=())
    return told


def read(path: Path) -> Example:
    """One example; raises Mistake."""
    try:
        told = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise Mistake(f"{path}: {error}") from error
    must = ("title", "package", "requires", "venv", "command")
    _keys(
        path, told, must=must, may=[f.name for f in fields(Example) if f.name not in ("name", "texts", "beside")]
    )
    for key in ("requires", "command"):
        if not isinstance(told[key], list):
            raise Mistake(f"{path}: {key} is a list of words")
    for part in ("{script}", "{out}"):
        if part not in " ".join(told["command"]):
            raise Mistake(f"{path}: command has no {part}")
    if unknown := set(told.get("experiments_skipped", {})) - set(COLUMNS):
        raise Mistake(
            f"{path}: experiments_skipped: there is no {unknown.pop()!r}; there are {', '.join(COLUMNS)}"
        )
    if told.get("launch", "cold") not in ("cold", "warm"):
        raise Mistake(f"{path}: launch is 'cold' or 'warm'")
    if not isinstance(told.get("timeout", 0), int):
        raise Mistake(f"{path}: timeout is a whole number of seconds")
    texts = {p.name: p.read_text() for p in (path.with_name("train.py"), path.with_name("exact.py")) if p.exists()}
    beside = "".join(p.read_text() for p in sorted(path.parent.glob("*.py")) if p.name not in texts)
    if "train.py" not in texts:
        raise Mistake(f"{path.parent} has no train.py")
    for key in ("requires", "command"):
        told[key] = tuple(told[key])
    told.update({key: _line(told[key]) for key in ("change", "unfixable", "note") if key in told})
    told["env"] = {name: str(value) for name, value in told.get("env", {}).items()}
    told["fault"] = tuple(_fault(path, one) for one in told.get("fault", ()))
    told["blind"] = tuple(_blind(path, one) for one in told.get("blind", ()))
    return Example(path.parent.name, **told, texts=texts, beside=beside)


def _fault(path: Path, told: dict[str, Any]) -> Fault:
    _keys(path, told, must=("variants", "experiments", "codes", "where", "why"), may=(), what="[[fault]]: ")
    for key, known in (("variants", VARIANTS), ("experiments", COLUMNS)):
        if unknown := set(told[key]) - set(known):
            raise Mistake(f"{path}: [[fault]]: {key}: there is no {unknown.pop()!r}; there are {', '.join(known)}")
    lists = {key: tuple(told[key]) for key in ("variants", "experiments", "codes")}
    return Fault(**lists, where=_line(told["where"]), why=_line(told["why"]))


def _blind(path: Path, told: dict[str, Any]) -> Blind:
    _keys(path, told, must=("component", "why", "remedy"), may=(), what="[[blind]]: ")
    return Blind(**{key: _line(text) for key, text in told.items()})


def _line(text: str) -> str:
    """Without the line breaks of the file."""
    return " ".join(text.split())


def _keys(path: Path, told: Mapping[str, Any], *, must: Sequence[str], may: Sequence[str], what: str = "") -> None:
    if missing := [key for key in must if not told.get(key)]:
        raise Mistake(f"{path}: {what}{missing[0]!r} is missing")
    if unknown := [key for key in told if key not in (*must, *may)]:
        raise Mistake(f"{path}: {what}there is no key {unknown[0]!r}; there are {', '.join([*must, *may])}")
