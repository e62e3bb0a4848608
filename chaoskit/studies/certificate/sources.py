"""`Basis`: the job's own files, its packages and its launcher, and what of them is not the same any more."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaoskit import __version__
from chaoskit.engine.run_store import Store
from chaoskit.errors import StoreError
from chaoskit.job import Job
from chaoskit.probe.sources import identify
from chaoskit.schema import conform
from chaoskit.studies.certificate.reading import find
from chaoskit.studies.nights.archive import machine
from chaoskit.studies.nights.conditions import SITE, files_read, version_of
from chaoskit.studies.nights.suite import Suite


@dataclass(frozen=True)
class Basis:
    """What the evidence rests on. `files` are the files that the ranks imported or read, by path: a digest of the
    content (large ones: the size). `packages` are the installed packages that they imported, `sites` the directories
    that have them. `launcher` is the program of the command and its identity. `versions` are those of chaoskit, Python
    and the job's libraries. `machine` is as in a suite."""

    files: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    sites: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Identifies the sources: files and packages."""
        content = [sorted(self.files.items()), sorted(self.packages.items())]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, every field."""
        return {
            "files": dict(self.files), "packages": dict(self.packages), "sites": list(self.sites),
            "launcher": list(self.launcher), "versions": dict(self.versions), "machine": dict(self.machine),
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Basis:
        """The inverse of `to_json`; raises ValueError, naming the field."""
        return conform(cls, data)


def mixed(suites: Sequence[Suite]) -> Iterator[str]:
    """Yield a sentence for each file or package that was not the same in all experiments."""
    seen: dict[str, tuple[str, str]] = {}
    told: set[str] = set()
    for suite in suites:
        for experiment, conditions in suite.conditions.items():
            for name, value in {**conditions.sources, **conditions.further}.items():
                known, first = seen.setdefault(name, (value, experiment))
                if known != value and name not in told:
                    told.add(name)
                    yield f"{name} was {known} in {first} and {value} in {experiment}"


def basis(suites: Sequence[Suite], store: Store) -> tuple[Basis, list[str]]:
    """What the suites rest on, as it is here, and a sentence for each thing that has changed since they ran."""
    every = [one for suite in suites for one in suite.conditions.values()]
    sites, cwd, words = _places(suites, store)
    known = {name: value for one in every for name, value in {**one.further, **one.sources}.items()}
    files, packages, changed = {}, {}, []
    for name, value in sorted(known.items()):
        if _is_package(name, cwd):
            packages[name] = value
            if (now := _package(name, sites)) != value:
                changed.append(f"the package {name} is {now or 'gone'} here, and was {value}")
            continue
        path = os.path.join(cwd, name)
        if (now_there := _identity(path)) is None:
            changed.append(f"{name} is gone")
        elif value not in (now_there[:8], now_there):
            changed.append(f"{name} has changed")
        else:
            files[path] = now_there
    settings = {k: v for suite in suites for one in suite.baselines.values() for k, v in one.settings.items()}
    versions = {**settings, "chaoskit": suites[-1].chaoskit, "python": suites[-1].machine.get("python", "")}
    changed += _versions(versions)
    return Basis(files, packages, sites, _launcher(words), versions, suites[-1].machine), changed


def differences(old: Basis) -> Iterator[str]:
    """Yield a sentence for each thing that is not here and now as it was. The machine's host, kernel, processor and
    cores count, and so do the versions of chaoskit and its Python."""
    for path, value in old.files.items():
        there = _identity(path)
        if there != value:
            yield f"{path} {'is gone' if there is None else 'has changed'}"
    for name, value in old.packages.items():
        if (now := _package(name, old.sites)) != value:
            yield f"the package {name} is {now or 'gone'}, and was {value}"
    if old.launcher and (program := _launcher(old.launcher[:1])) != old.launcher:
        yield f"the launcher {old.launcher[0]} is {'another program' if program[1] else 'gone'}"
    yield from _versions(old.versions)
    here = machine()
    for name in ("host", "platform", "processor", "cores"):
        if old.machine.get(name) != here[name]:
            yield f"the machine's {name} is {here[name]}, and was {old.machine.get(name, 'unknown')}"


def _versions(old: Mapping[str, str]) -> Iterator[str]:
    for name, value in {"chaoskit": __version__, "python": platform.python_version()}.items():
        if old.get(name) != value:
            yield f"{name} is {value} here, and was {old.get(name) or 'unknown'}"


def _places(suites: Sequence[Suite], store: Store) -> tuple[tuple[str, ...], str, Sequence[str]]:
    """Where packages are installed, where the job starts, and its words, by the first run that can be read."""
    for result in (result for suite in suites for result in suite.results):
        for run_dir in filter(None, (find(text, store) for text in result.runs)):
            try:
                job = Job.from_json(store.read(run_dir)["job"])
            except (StoreError, TypeError, ValueError):
                continue
            controls = sorted((run_dir / "reference").glob("control-*"))
            paths = [str(file["path"]) for each in (*controls, run_dir) for file in files_read(each)]
            found = dict.fromkeys(site[1] for path in paths if (site := SITE.match(path)))
            return tuple(found), str(job.cwd or Path.cwd()), job.words()
    return (), str(Path.cwd()), ()


def _is_package(name: str, cwd: str) -> bool:
    """Whether a name is that of a package. A file has a directory or a suffix, or lies where the job starts."""
    return "/" not in name and "." not in name and not os.path.isfile(os.path.join(cwd, name))


def _package(name: str, sites: Sequence[str]) -> str:
    """The version of an installed package, or the size of its first file if its metadata has another name."""
    for site in sites:
        if found := version_of(site, name):
            return found
        modules = sorted(Path(site).glob(f"{name}.*so"))
        for path in (Path(site, name, "__init__.py"), Path(site, f"{name}.py"), *modules):
            if path.is_file():
                return f"{path.stat().st_size} bytes"
    return ""


def _identity(path: str) -> str | None:
    found = identify(path)
    return None if found is None else str(found.get("hash", f"{found['size']} bytes"))


def _launcher(words: Sequence[str]) -> tuple[str, ...]:
    """The first word, the program that it stands for here, and the identity of that; both empty if it stands for none,
    such as in the image of a container alone."""
    program = shutil.which(words[0]) if words else None
    if program is None:
        return (words[0], "", "") if words else ()
    real = os.path.realpath(program)
    return (words[0], real, _identity(real) or "")
