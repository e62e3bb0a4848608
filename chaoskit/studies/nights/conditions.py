"""`Conditions`: what a verdict rests on besides versions and the machine: the files that the ranks read, the options.

Two nights are alike only if they agree in all of it. An uninterrupted run that is equal proves nothing about the code
that resumes: it never ran that code.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import Any

from chaoskit.engine.run_store import Store
from chaoskit.errors import StoreError
from chaoskit.job import Job
from chaoskit.protocol.event_schema import check_event
from chaoskit.protocol.stored_files import open_stored
from chaoskit.schema import conform

#: What a job's JSON has besides options: the command names it, or it is a place.
_COMMAND = ("script", "args", "module", "command", "cwd", "env")
#: A file of an installed package: where packages are installed, and the name of the package.
SITE = re.compile(r"(.*/(?:site|dist)-packages)/([^/.]+)")


@dataclass(frozen=True)
class Conditions:
    """`options` are those of the job that are no defaults. `sources` maps the files that the ranks of the uninterrupted
    runs imported or read to what identifies them (a digest, a version, a size), `further` those that only runs under
    faults did: which ones depends on what happened in them."""

    options: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    further: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Identifies the conditions."""
        return _short(json.dumps(self.to_json(), sort_keys=True).encode(), size=16)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"options": dict(self.options), "sources": dict(self.sources), "further": dict(self.further)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Conditions:
        """Inverse of `to_json`; raises ValueError, naming the field, for invalid data."""
        return conform(cls, data)

    @classmethod
    def of_runs(cls, store: Store, runs: Sequence[str]) -> Conditions | None:
        """The conditions of an experiment, by its stored runs; None if a run cannot be read, or names no file."""
        options: dict[str, str] = {}
        sources: dict[str, str] = {}
        further: dict[str, str] = {}
        for run in map(Path, runs):
            try:
                told = store.read(run)
            except StoreError:
                return None
            names = _Names(str(told["job"].get("cwd", "")), since=_seconds(told.get("created", "")))
            options |= _options(told)
            for control in sorted((run / "reference").glob("control-*")):
                sources |= names.identified(files_read(control))
            further |= names.identified(files_read(run))
        if not sources:
            # A run without a reference is one itself.
            sources, further = further, {}
        # What a file was when the run itself read it counts.
        sources |= {name: value for name, value in further.items() if name in sources}
        further = {name: value for name, value in further.items() if name not in sources}
        return cls(options, sources, further) if sources else None

    @classmethod
    def merged(cls, several: Iterable[Conditions]) -> Conditions:
        """The files of several experiments, without options, which may be those of one experiment."""
        every = list(several)
        sources = {name: value for one in every for name, value in one.sources.items()}
        further = {name: value for one in every for name, value in one.further.items() if name not in sources}
        return cls({}, sources, further)


def differing(old: Conditions, new: Conditions) -> Iterator[tuple[str, str, str]]:
    """Yield what differs: its name and both values, empty for one that is absent.

    A file that only a run under faults reads may be read on one night only: it counts if both nights have it.
    """
    yield from _differing(old.options, new.options)
    before, after = {**old.further, **old.sources}, {**new.further, **new.sources}
    names = {*old.sources, *new.sources} | (before.keys() & after.keys())
    yield from _differing(
        {name: value for name, value in before.items() if name in names},
        {name: value for name, value in after.items() if name in names},
    )


def edited(old: Conditions, new: Conditions) -> tuple[str, ...]:
    """The modules of the job itself that differ, if nothing else does: neither an option nor a package nor a file that
    it reads. Empty otherwise: then it is not known what made the uninterrupted run another one."""
    names = [name for name, *_ in differing(old, new)]
    return tuple(names) if names and all(_is_own(name) for name in names) else ()


def _is_own(name: str) -> bool:
    return name.endswith(".py") and not name.startswith(("/", ".."))


def _differing(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in sorted({*old, *new}):
        if (pair := (old.get(name, ""), new.get(name, "")))[0] != pair[1]:
            yield name, *pair


def _options(told: Mapping[str, Any]) -> dict[str, str]:
    usual = Job("script").to_json()
    job = told["job"]
    found = {
        name: _text(value) for name, value in job.items() if name not in _COMMAND and value != usual.get(name)
    }
    # A variable may be a secret.
    secret = {f"env {name}": _short(str(value).encode()) for name, value in (job.get("env") or {}).items()}
    return {**found, **secret, "environment": str(told.get("environment", ""))}


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def files_read(run: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the files that the ranks of a run reported to have read."""
    for path in sorted((run / "events").glob("rank-*.jsonl")):
        with suppress(OSError), open_stored(path) as lines:
            for line in lines:
                if b'"sources"' in line:
                    with suppress(ValueError, RecursionError):  # it was cut short, or is damaged
                        event = json.loads(line)
                        check_event("sources", event)
                        yield from event["files"] if event.get("e") == "sources" else ()


class _Names:
    """Names the files of a job that starts in `cwd`, and says what identifies each. A file that was written `since`
    then is a product of the job, unless it is a module of its own."""

    def __init__(self, cwd: str, *, since: float) -> None:
        self._cwd, self._since = cwd, since

    def identified(self, files: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        found = {}
        for file in files:
            path = str(file["path"])
            if site := SITE.match(path):
                found[site[2]] = version_of(*site.groups()) or f"{file['size']} bytes"
            elif not self._is_product(path):
                name = os.path.relpath(path, self._cwd) if self._cwd and _below(path, self._cwd) else path
                found[name] = str(file["hash"])[:8] if "hash" in file else f"{file['size']} bytes"
        return found

    def _is_product(self, path: str) -> bool:
        if path.endswith(".py") and self._cwd and _below(path, self._cwd):
            return False
        try:
            return os.stat(path).st_mtime >= self._since
        except OSError:
            return True


def _below(path: str, directory: str) -> bool:
    return PurePath(path).is_relative_to(directory)


@lru_cache(maxsize=1024)
def version_of(site: str, package: str) -> str:
    """The version of an installed package, by the name of its metadata; empty if that is named otherwise."""
    wanted = package.lower().replace("-", "_")
    with suppress(OSError):
        for name in os.listdir(site):
            own, _, rest = name.partition("-")
            if rest.endswith(".dist-info") and own.lower().replace("-", "_") == wanted:
                return rest.removesuffix(".dist-info")
    return ""


def _seconds(created: str) -> float:
    try:
        return datetime.fromisoformat(created).timestamp()
    except ValueError:
        return float("inf")


def _short(content: bytes, *, size: int = 4) -> str:
    return blake2b(content, digest_size=size).hexdigest()
