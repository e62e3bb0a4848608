"""`Archive`: the suites of a store. Each suite is a file; a line is appended when an experiment ends.

    .chaoskit/suites/
        <id>.jsonl             lines `suite` (the facts known at the start), `result` for each experiment, `end`, and
                               `proof` for each run in which lost state was put back
        baselines/<digest>.json
        conditions/<digest>.json

A killed session leaves the results so far; an incomplete line is ignored.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from chaoskit import __version__
from chaoskit.engine import reference_store
from chaoskit.engine.result import Result
from chaoskit.engine.run_store import FORMAT, Store, new_name
from chaoskit.errors import StoreError
from chaoskit.job import Job
from chaoskit.protocol import json_lines
from chaoskit.protocol.json_lines import LineWriter
from chaoskit.studies.nights.baseline import Baseline
from chaoskit.studies.nights.conditions import Conditions
from chaoskit.studies.nights.suite import Suite, key_of, result_of
from chaoskit.studies.problems.problem import Proof

DIRECTORY = "suites"
CONDITIONS = "conditions"


class Archive:
    """The suites of `store`. Raises StoreError, with the file and the remedy, for a suite that cannot be read."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def directory(self) -> Path:
        """The directory of the suites."""
        return self.store.root / DIRECTORY

    def begin(self, command: Sequence[str], *, since: float | None = None) -> Writer:
        """Begin a suite for the typed `command`; `since` is its start by the monotonic clock (default: now)."""
        self.store.prepare()
        since = time.monotonic() if since is None else since
        begun = datetime.now(UTC) - timedelta(seconds=time.monotonic() - since)
        return Writer(self, replace(unkept(command), created=_text(begun), status="running"), since=since)

    def add_proofs(self, suite: Suite, proofs: Sequence[Proof]) -> None:
        """Append what was proved of a suite after its end."""
        with self.store.writing():
            lines = LineWriter(self.directory / f"{suite.id}.jsonl")
            try:
                for proof in proofs:
                    lines.write({"e": "proof", **asdict(proof)})
            finally:
                lines.close()

    def all(self) -> list[Path]:
        """Return the files of all suites, oldest first."""
        return sorted(self.directory.glob("*.jsonl")) if self.directory.is_dir() else []

    def last(self) -> Path:
        """Return the file of the newest suite; raises StoreError if there is none."""
        found = self.all()
        if not found:
            remedy = "run 'chaoskit run' or pytest first, or name another directory with --dir"
            raise StoreError(f"{self.directory} contains no suite: {remedy}", path=str(self.directory))
        return found[-1]

    def resolve(self, text: str) -> Path:
        """Return the file of a suite, given its path, its id, a unique prefix of its id, or `last`."""
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
                f"{text} is ambiguous, {len(found)} suites begin with it ({names}): give a longer prefix",
                path=text,
            )
        raise StoreError(f"there is no suite {text} in {self.directory}: check the id and --dir", path=text)

    def read(self, path: Path) -> Suite:
        """Read a suite from a file of the archive or from a file written by `--json`."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise StoreError(
                f"{path} cannot be read ({error}): name the file of a suite", path=str(path)
            ) from error
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            document = None
        # A suite that was killed before its first result has one line, which is valid JSON too.
        if isinstance(document, dict) and "e" not in document:
            return self._of_document(document, path)
        return self._of_lines(content, path)

    def _of_lines(self, content: bytes, path: Path) -> Suite:
        lines = [line.value for line in json_lines.decode(content) if isinstance(line.value, dict)]
        if not lines or lines[0].get("e") != "suite":
            message = (
                f"{path} is not a suite of chaoskit: name one of {DIRECTORY}/*.jsonl or a file written by --json"
            )
            raise StoreError(message, path=str(path))
        head = lines[0]
        if head.get("format") != FORMAT:
            what = f"has format {head.get('format')!r}, but this chaoskit reads format {FORMAT}"
            raise StoreError(f"{path} {what}: use the version of chaoskit that wrote it", path=str(path))
        try:
            results = [told for told in lines if told.get("e") == "result"]
            found = [result_of(told) for told in results]
            conditions = [self._conditions(str(told.get("conditions") or ""), path) for told in results]
            ends = [told for told in lines if told.get("e") == "end"]
            suite = replace(_suite(head, found), proofs=_proofs(lines))
            suite = replace(
                suite, conditions={key_of(r): c for r, c in zip(found, conditions, strict=True) if c is not None}
            )
            if not ends:
                return replace(suite, status="running")
            end = ends[-1]
            baselines = {name: self._baseline(digest, path) for name, digest in end["baselines"].items()}
            known = {name: one for name, one in baselines.items() if one is not None}
            return replace(suite, status=str(end["status"]), seconds=float(end["seconds"]), baselines=known)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(
                f"{path} is damaged ({error!r}): delete it or restore it from a copy", path=str(path)
            ) from error

    def _of_document(self, document: Mapping[str, Any], path: Path) -> Suite:
        if document.get("schema") != 1 or not isinstance(document.get("experiments"), list):
            schema = document.get("schema")
            foreign = (
                "not from chaoskit" if schema is None else f"of schema {schema!r}; this chaoskit reads schema 1"
            )
            what = "without a list of experiments" if schema == 1 else foreign
            message = f"{path} is JSON, but {what}: name a suite or a file written by --json"
            raise StoreError(message, path=str(path))
        try:
            head = {"id": path.stem, "created": "", "command": (), "chaoskit": "", "machine": {}}
            told = document.get("suite", {})
            baselines = {str(n): Baseline.from_json(one) for n, one in document.get("baselines", {}).items()}
            suite = _suite({**head, **told}, [result_of(each) for each in document["experiments"]])
            seconds = told.get("seconds")
            proofs = _proofs(document.get("proofs", ()))
            status = told.get("status", "finished")
            rests = {str(n): Conditions.from_json(one) for n, one in document.get("conditions", {}).items()}
            conditions = {str(name): rests[digest] for name, digest in document.get("rests_on", {}).items()}
            return replace(
                suite, baselines=baselines, seconds=seconds, status=status, proofs=proofs, conditions=conditions
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(
                f"{path} is damaged ({error!r}): write it again with --json", path=str(path)
            ) from error

    def _conditions(self, digest: str, path: Path) -> Conditions | None:
        """Read the conditions of an experiment; None if they are not stored."""
        file = path.parent / CONDITIONS / f"{digest}.json"
        try:
            about = file.stat() if digest else None
            return _stored_conditions(file, about.st_mtime_ns, about.st_size) if about is not None else None
        except FileNotFoundError:
            return None
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(f"{file} is damaged ({error!r}): delete it", path=str(file)) from error

    def _baseline(self, digest: str, path: Path) -> Baseline | None:
        """Read a baseline stored with a suite; None if it is missing, for example because it was not copied."""
        file = path.parent / "baselines" / f"{digest}.json"
        try:
            about = file.stat()
            return _stored(file, about.st_mtime_ns, about.st_size)
        except FileNotFoundError:
            return None
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(f"{file} is damaged ({error!r}): delete it", path=str(file)) from error


@lru_cache(maxsize=4)
def _stored(file: Path, changed: int, size: int) -> Baseline:
    """Read a baseline, cached: consecutive suites often share one, and it may be large."""
    return Baseline.from_json(json.loads(file.read_text()))


@lru_cache(maxsize=4096)
def _stored_conditions(file: Path, changed: int, size: int) -> Conditions:
    """Read conditions, cached: most suites share them."""
    return Conditions.from_json(json.loads(file.read_text()))


class Writer:
    """Appends to the file of one suite. `suite` has the results so far."""

    def __init__(self, archive: Archive, suite: Suite, *, since: float) -> None:
        self.suite = suite
        self._archive = archive
        self._begun = since
        self.path = archive.directory / f"{suite.id}.jsonl"
        with archive.store.writing():
            for name in ("baselines", CONDITIONS):
                (archive.directory / name).mkdir(parents=True, exist_ok=True)
            self._add("suite", format=FORMAT, **suite.head())

    def add(self, result: Result, conditions: Conditions | None = None) -> None:
        """Append the result of an experiment, and what it rests on (default: by its stored runs)."""
        conditions = conditions or Conditions.of_runs(self._archive.store, result.runs)
        known = {} if conditions is None else {key_of(result): conditions}
        results = (*self.suite.results, result)
        self.suite = replace(self.suite, results=results, conditions={**self.suite.conditions, **known})
        with self._archive.store.writing():
            if conditions is not None:
                self._keep(CONDITIONS, conditions.digest, conditions.to_json())
            named = {"conditions": conditions.digest} if conditions is not None else {}
            self._add("result", **result.to_json(), **named)

    def end(self, status: str = "finished") -> Suite:
        """End the suite, and store the uninterrupted runs of its experiments."""
        baselines = {
            name: one for name in self._names() if (one := _baseline(self._archive.store, name, self.suite))
        }
        seconds = round(time.monotonic() - self._begun, 3)
        self.suite = replace(self.suite, baselines=baselines, status=status, seconds=seconds)
        with self._archive.store.writing():
            for one in baselines.values():
                self._keep("baselines", one.digest, one.to_json())
            digests = {name: one.digest for name, one in baselines.items()}
            self._add("end", status=status, seconds=seconds, baselines=digests)
        return self.suite

    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for result in self.suite.results for name in result.references))

    def _keep(self, directory: str, digest: str, content: Mapping[str, Any]) -> None:
        """Store something under its digest, so that equal ones are stored once."""
        path = self._archive.directory / directory / f"{digest}.json"
        if not path.exists():
            draft = path.with_name(f".{path.name}.{os.getpid()}")
            draft.write_text(json.dumps(content) + "\n")
            os.replace(draft, path)

    def _add(self, kind: str, **fields: Any) -> None:
        lines = LineWriter(self.path)
        try:
            lines.write({"e": kind, **fields})
        finally:
            lines.close()


def unkept(command: Sequence[str], results: Sequence[Result] = ()) -> Suite:
    """Make a suite that is not in the archive, for experiments that have just ended or for stored runs."""
    now = datetime.now(UTC)
    return Suite(
        new_name(now), _text(now), tuple(command), tuple(results), chaoskit=__version__, machine=machine()
    )


def typed() -> list[str]:
    """Return the command that started this process, as typed."""
    program = Path(sys.argv[0])
    return [program.parent.name if program.name == "__main__.py" else program.name, *sys.argv[1:]]


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def machine() -> dict[str, str]:
    """Describe the machine that this process runs on."""
    return {
        "host": platform.node(), "platform": platform.platform(), "processor": platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))), "python": sys.version.split()[0],
    }  # fmt: skip


def _baseline(store: Store, name: str, suite: Suite) -> Baseline | None:
    """Find the reference of experiments of the suite in the directory of one of their runs."""
    for result in suite.results:
        for text in result.runs if name in result.references else ():
            try:
                told = store.read(Path(text))
                reference = reference_store.attached(Path(text), name) if told["reference"] == name else None
                if reference is not None:
                    return Baseline.of(reference, job=Job.from_json(told["job"]).words())
            except (StoreError, OSError, TypeError, ValueError):
                continue
    return None


def _proofs(told: Iterable[Mapping[str, Any]]) -> tuple[Proof, ...]:
    known = [{name: value for name, value in each.items() if name != "e"} for each in told if each.get("e") == "proof"]
    return tuple(map(Proof.from_json, known))


def _suite(head: Mapping[str, Any], found: Sequence[Result]) -> Suite:
    told = {str(name): str(value) for name, value in head["machine"].items()}
    return Suite(
        str(head["id"]), str(head["created"]), tuple(map(str, head["command"])), tuple(found),
        chaoskit=str(head["chaoskit"]), machine=told,
    )  # fmt: skip
