"""`Archive`: the suites of a store. Each is one file, to which lines are added as its experiments end.

    .chaoskit/suites/
        <id>.jsonl             `suite` (what is known at the start), `result` for each experiment, `end`
        baselines/<digest>.json

A session that is killed leaves what it had come to; a line that was cut short is left out.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from chaoskit import __version__, references
from chaoskit.errors import StoreError
from chaoskit.job import Job
from chaoskit.results import Result
from chaoskit.store import FORMAT, Store, new_name
from chaoskit.suites.baseline import Baseline
from chaoskit.suites.suite import Suite, result_of

DIRECTORY = "suites"


class Archive:
    """The suites of `store`. Raises StoreError, naming the file and the remedy, for what cannot be read."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def directory(self) -> Path:
        """Where they lie."""
        return self.store.root / DIRECTORY

    def begin(self, command: Sequence[str], *, since: float | None = None) -> Writer:
        """A new suite, of what was typed; `since` is when it began, by the monotonic clock (default: now)."""
        self.store.prepare()
        since = time.monotonic() if since is None else since
        begun = datetime.now(UTC) - timedelta(seconds=time.monotonic() - since)
        return Writer(self, replace(unkept(command), created=_text(begun), status="running"), since=since)

    def all(self) -> list[Path]:
        """The files of all suites, the oldest first."""
        return sorted(self.directory.glob("*.jsonl")) if self.directory.is_dir() else []

    def last(self) -> Path:
        """The file of the newest suite; raises StoreError where there is none."""
        found = self.all()
        if not found:
            remedy = "'chaoskit run' and pytest make one (see --dir)"
            raise StoreError(f"{self.directory} holds no suite: {remedy}", path=str(self.directory))
        return found[-1]

    def resolve(self, text: str) -> Path:
        """The file that a path, an id, the unique beginning of one, or `last` names."""
        path = Path(text)
        if path.is_file():
            return path.absolute()
        if text == "last":
            return self.last()
        found = [one for one in self.all() if one.name.startswith(text)] if text and "/" not in text else []
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(one.stem for one in found[:4]) + (", ..." if len(found) > 4 else "")
            raise StoreError(
                f"{text} is the beginning of {len(found)} suites ({names}): give more of it", path=text
            )
        raise StoreError(f"{text} names no suite: they are in {self.directory} (see --dir)", path=text)

    def read(self, path: Path) -> Suite:
        """The suite that a file holds: one of ours, or what `--json` wrote."""
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}): give the file of a suite", path=str(path)
            ) from error
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        # A suite of one line, which died before its first experiment, is JSON too.
        if isinstance(document, dict) and "e" not in document:
            return self._of_document(document, path)
        return self._of_lines(text, path)

    def _of_lines(self, text: str, path: Path) -> Suite:
        lines = [told for line in text.splitlines() if isinstance(told := _parsed(line), dict)]
        if not lines or lines[0].get("e") != "suite":
            message = f"{path} is no suite of chaoskit: give one of {DIRECTORY}/*.jsonl, or what --json wrote"
            raise StoreError(message, path=str(path))
        head = lines[0]
        if head.get("format") != FORMAT:
            what = f"is of format {head.get('format')!r}, this chaoskit reads {FORMAT}"
            raise StoreError(f"{path} {what}: read it with the chaoskit that wrote it", path=str(path))
        try:
            found = [result_of(told) for told in lines if told.get("e") == "result"]
            ends = [told for told in lines if told.get("e") == "end"]
            suite = _suite(head, found)
            if not ends:
                return replace(suite, status="running")
            end = ends[-1]
            baselines = {name: self._baseline(digest, path) for name, digest in end["baselines"].items()}
            known = {name: one for name, one in baselines.items() if one is not None}
            return replace(suite, status=str(end["status"]), seconds=float(end["seconds"]), baselines=known)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(
                f"{path} is damaged ({error!r}): it is not what chaoskit wrote", path=str(path)
            ) from error

    def _of_document(self, document: Mapping[str, Any], path: Path) -> Suite:
        if document.get("schema") != 1 or not isinstance(document.get("experiments"), list):
            schema = document.get("schema")
            strange = "not of chaoskit" if schema is None else f"of schema {schema!r}, this chaoskit reads 1"
            what = "without a list of experiments" if schema == 1 else strange
            raise StoreError(f"{path} is JSON, but {what}: give what --json wrote, or a suite", path=str(path))
        try:
            head = {"id": path.stem, "created": "", "command": (), "chaoskit": "", "machine": {}}
            told = document.get("suite", {})
            baselines = {str(n): Baseline.from_json(one) for n, one in document.get("baselines", {}).items()}
            suite = _suite({**head, **told}, [result_of(each) for each in document["experiments"]])
            seconds = told.get("seconds")
            return replace(suite, baselines=baselines, seconds=seconds, status=told.get("status", "finished"))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(
                f"{path} is damaged ({error!r}): it is not what --json wrote", path=str(path)
            ) from error

    def _baseline(self, digest: str, path: Path) -> Baseline | None:
        """A baseline that lies beside a suite; None where it was not copied along."""
        file = path.parent / "baselines" / f"{digest}.json"
        try:
            about = file.stat()
            return _stored(file, about.st_mtime_ns, about.st_size)
        except FileNotFoundError:
            return None
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(f"{file} is damaged ({error!r}): remove it", path=str(file)) from error


@lru_cache(maxsize=4)
def _stored(file: Path, changed: int, size: int) -> Baseline:
    """Many suites in a row have the same baseline, which may be large."""
    return Baseline.from_json(json.loads(file.read_text()))


class Writer:
    """Adds to the file of one suite. `suite` is what it came to so far."""

    def __init__(self, archive: Archive, suite: Suite, *, since: float) -> None:
        self.suite = suite
        self._archive = archive
        self._begun = since
        self.path = archive.directory / f"{suite.id}.jsonl"
        with archive.store.writing():
            (archive.directory / "baselines").mkdir(parents=True, exist_ok=True)
            self._add("suite", format=FORMAT, **suite.head())

    def add(self, result: Result) -> None:
        """An experiment has ended."""
        self.suite = replace(self.suite, results=(*self.suite.results, result))
        with self._archive.store.writing():
            self._add("result", **result.to_json())

    def end(self, status: str = "finished") -> Suite:
        """The session is over; the uninterrupted runs of its experiments are kept."""
        baselines = {
            name: one for name in self._names() if (one := _baseline(self._archive.store, name, self.suite))
        }
        seconds = round(time.monotonic() - self._begun, 3)
        self.suite = replace(self.suite, baselines=baselines, status=status, seconds=seconds)
        with self._archive.store.writing():
            for one in baselines.values():
                self._keep(one)
            digests = {name: one.digest for name, one in baselines.items()}
            self._add("end", status=status, seconds=seconds, baselines=digests)
        return self.suite

    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for result in self.suite.results for name in result.references))

    def _keep(self, baseline: Baseline) -> None:
        """Under its digest, so that the same one of many nights is kept once."""
        path = self._archive.directory / "baselines" / f"{baseline.digest}.json"
        if not path.exists():
            draft = path.with_name(f".{path.name}.{os.getpid()}")
            draft.write_text(json.dumps(baseline.to_json()) + "\n")
            os.replace(draft, path)

    def _add(self, kind: str, **fields: Any) -> None:
        line = json.dumps({"e": kind, **fields}) + "\n"
        with self.path.open("a") as file:
            file.write(line)


def unkept(command: Sequence[str], results: Sequence[Result] = ()) -> Suite:
    """A suite of now, in no archive: of experiments that have just ended, or of stored runs looked at together."""
    now = datetime.now(UTC)
    return Suite(
        new_name(now), _text(now), tuple(command), tuple(results), chaoskit=__version__, machine=machine()
    )


def typed() -> list[str]:
    """The command that this process was started by, as it was typed."""
    program = Path(sys.argv[0])
    return [program.parent.name if program.name == "__main__.py" else program.name, *sys.argv[1:]]


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def machine() -> dict[str, str]:
    """What is known of where this process runs."""
    return {
        "host": platform.node(), "platform": platform.platform(), "processor": platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))), "python": sys.version.split()[0],
    }  # fmt: skip


def _baseline(store: Store, name: str, suite: Suite) -> Baseline | None:
    """A reference that experiments of the suite were held to, as it lies beside one of their runs."""
    for result in suite.results:
        for text in result.runs if name in result.references else ():
            try:
                told = store.read(Path(text))
                reference = references.attached(Path(text), name) if told["reference"] == name else None
                if reference is not None:
                    return Baseline.of(reference, job=Job.from_json(told["job"]).words())
            except (StoreError, OSError, TypeError, ValueError):
                continue
    return None


def _suite(head: Mapping[str, Any], found: Sequence[Result]) -> Suite:
    told = {str(name): str(value) for name, value in head["machine"].items()}
    return Suite(
        str(head["id"]), str(head["created"]), tuple(map(str, head["command"])), tuple(found),
        chaoskit=str(head["chaoskit"]), machine=told,
    )  # fmt: skip


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None
