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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from chaoskit import __version__
from chaoskit.analysis.checkpoints.cost import CheckpointCost, checkpoint_cost
from chaoskit.engine import reference_store
from chaoskit.engine.result import Result, overall
from chaoskit.engine.run_store import FORMAT, Store, new_name
from chaoskit.errors import StoreError
from chaoskit.files.private import make_directories
from chaoskit.files.whole_files import replace_file
from chaoskit.job import Job
from chaoskit.protocol import json_lines
from chaoskit.protocol.json_lines import JsonLine, LineWriter
from chaoskit.protocol.secret_words import redact_words
from chaoskit.protocol.stored_files import read_stored, why_unread
from chaoskit.schema import SchemaError, conform
from chaoskit.studies.nights.baseline import Baseline
from chaoskit.studies.nights.conditions import Conditions
from chaoskit.studies.nights.stored_suite import EndLine, SuiteDocument, SuiteHead, SuiteLine
from chaoskit.studies.nights.suite import Suite, key_of
from chaoskit.studies.problems.problem import Proof

DIRECTORY = "suites"
CONDITIONS = "conditions"
T = TypeVar("T")


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
        if path.exists() and not path.is_dir():
            return path.resolve()  # a link that the user has named is followed
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
            content = read_stored(path)
        except OSError as error:
            raise StoreError(f"{path} {why_unread(error)}: name the file of a suite", path=str(path)) from error
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            document = None
        # A suite that was killed before its first result has one line, which is valid JSON too.
        if isinstance(document, dict) and "e" not in document:
            return self._of_document(document, path)
        return self._of_lines(content, path)

    def _of_lines(self, content: bytes, path: Path) -> Suite:
        lines = list(json_lines.decode(content))
        head = lines[0].value if lines else None
        if not isinstance(head, dict) or head.get("e") != "suite":
            message = (
                f"{path} is not a suite of chaoskit: name one of {DIRECTORY}/*.jsonl or a file written by --json"
            )
            raise StoreError(message, path=str(path))
        if head.get("format") != FORMAT:
            what = f"has format {head.get('format')!r}, but this chaoskit reads format {FORMAT}"
            raise StoreError(f"{path} {what}: use the version of chaoskit that wrote it", path=str(path))
        if path.parent == self.directory and head.get("id") != path.stem:
            raise _damaged(f"{path}, line 1", f"it is the file of another suite, {head.get('id')!r}", path)
        conditions: dict[str, Conditions] = {}
        results: list[Result] = []
        proofs: list[Proof] = []
        end: EndLine | None = None
        for at, line in enumerate(lines):
            if line.error is not None and end is None and all(map(_is_proof, lines[at + 1 :])):
                continue  # chaoskit was killed here, and proofs were added later
            try:
                told = conform(SuiteLine, line.value)
                match told["e"]:
                    case "result":
                        results.append(Result.from_json(told))
                        if (one := self._conditions(told.get("conditions", ""), path)) is not None:
                            conditions[key_of(results[-1])] = one
                    case "proof":
                        proofs.append(Proof.from_json(told))
                    case "end":
                        end = conform(EndLine, told)
            except SchemaError as error:
                what = "is no JSON" if line.error is not None else str(error)
                raise _damaged(f"{path}, line {line.number}", what, path) from error
        if end is not None and end.get("results", len(results)) != len(results):
            raise _damaged(str(path), f"it has {len(results)} results, and had {end['results']}", path)
        try:
            suite = replace(_suite(conform(SuiteHead, head), results), proofs=tuple(proofs), conditions=conditions)
        except SchemaError as error:
            raise _damaged(f"{path}, line 1", str(error), path) from error
        if end is None:
            return replace(suite, status="running")
        baselines = {name: self._baseline(digest, path) for name, digest in end["baselines"].items()}
        known = {name: one for name, one in baselines.items() if one is not None}
        costs = end.get("checkpoint_costs", {})
        return replace(
            suite, status=end["status"], seconds=end["seconds"], baselines=known, checkpoint_costs=costs
        )

    def _of_document(self, document: dict[str, Any], path: Path) -> Suite:
        if document.get("schema") != 1 or not isinstance(document.get("experiments"), list):
            schema = document.get("schema")
            foreign = (
                "not from chaoskit" if schema is None else f"of schema {schema!r}; this chaoskit reads schema 1"
            )
            what = "without a list of experiments" if schema == 1 else foreign
            message = f"{path} is JSON, but {what}: name a suite or a file written by --json"
            raise StoreError(message, path=str(path))
        try:
            told = conform(SuiteDocument, document)
            found = told["experiments"]
            if found and told["verdict"] != overall(found):
                raise SchemaError(f"says {told['verdict']} of experiments that come to {overall(found)}")
            rests = told.get("conditions", {})
            named = told.get("rests_on", {})
            if missing := {*named.values()} - rests.keys():
                raise SchemaError(f"lacks conditions.{min(missing)}")
            known: dict[str, Any] = {
                "baselines": dict(_baselines(told.get("baselines", {}))),
                "checkpoint_costs": told.get("checkpoint_costs", {}),
                "proofs": told.get("proofs", ()),
                "conditions": {name: rests[digest] for name, digest in named.items()},
            }
            about = told.get("suite")
            if about is None:
                return Suite(path.stem, "", (), tuple(found), **known)
            known["status"] = about.get("status", "finished")
            return replace(_suite(about, found), seconds=about.get("seconds"), **known)
        except ValueError as error:
            raise _damaged(str(path), str(error), path, remedy="write it again with --json") from error

    def _conditions(self, digest: str, path: Path) -> Conditions | None:
        """Read the conditions of an experiment; None if they are not stored."""
        return _beside(_stored_conditions, path.parent / CONDITIONS / f"{digest}.json") if digest else None

    def _baseline(self, digest: str, path: Path) -> Baseline | None:
        """Read a baseline stored with a suite; None if it is missing, for example because it was not copied."""
        return _beside(_stored, path.parent / "baselines" / f"{digest}.json")


def _baselines(told: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Baseline]]:
    for name, one in told.items():
        try:
            yield name, Baseline.from_json(one)
        except SchemaError as error:
            raise error.below(f".baselines.{name}") from None


def _beside(read: Callable[[Path, int, int], T], file: Path) -> T | None:
    """Read what is stored beside suites; None if it is missing."""
    try:
        about = file.lstat()
        return read(file, about.st_mtime_ns, about.st_size)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{file} {why_unread(error)}: delete it", path=str(file)) from error
    except (ValueError, RecursionError) as error:
        what = "it is no JSON" if not isinstance(error, SchemaError) else str(error)
        raise _damaged(str(file), what, file, remedy="delete it") from error


@lru_cache(maxsize=4)
def _stored(file: Path, changed: int, size: int) -> Baseline:
    """Read a baseline, cached: consecutive suites often share one, and it may be large."""
    return Baseline.from_json(json.loads(read_stored(file)))


@lru_cache(maxsize=4096)
def _stored_conditions(file: Path, changed: int, size: int) -> Conditions:
    """Read conditions, cached: most suites share them."""
    return Conditions.from_json(json.loads(read_stored(file)))


def _damaged(where: str, what: str, path: Path, *, remedy: str = "delete it or restore it from a copy") -> StoreError:
    return StoreError(f"{where} is damaged ({what}): {remedy}", path=str(path))


class Writer:
    """Appends to the file of one suite. `suite` has the results so far."""

    def __init__(self, archive: Archive, suite: Suite, *, since: float) -> None:
        self.suite = suite
        self._archive = archive
        self._begun = since
        self.path = archive.directory / f"{suite.id}.jsonl"
        with archive.store.writing():
            for name in ("baselines", CONDITIONS):
                make_directories(archive.directory / name)
            before = [path.stem for path in archive.all()]
            self._add("suite", format=FORMAT, **suite.head(), after=before[-1] if before else "")

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
        found = [
            (name, *kept)
            for name in self._names()
            if (kept := _uninterrupted(self._archive.store, name, self.suite)) is not None
        ]
        baselines = {name: one for name, one, _ in found}
        costs = {name: cost for name, _, cost in found}
        seconds = round(time.monotonic() - self._begun, 3)
        self.suite = replace(
            self.suite, baselines=baselines, checkpoint_costs=costs, status=status, seconds=seconds
        )
        with self._archive.store.writing():
            for one in baselines.values():
                self._keep("baselines", one.digest, one.to_json())
            digests = {name: one.digest for name, one in baselines.items()}
            count = len(self.suite.results)
            told = {name: asdict(cost) for name, cost in costs.items()}
            self._add(
                "end", status=status, seconds=seconds, results=count, baselines=digests, checkpoint_costs=told
            )
        return self.suite

    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for result in self.suite.results for name in result.references))

    def _keep(self, directory: str, digest: str, content: Mapping[str, Any]) -> None:
        """Store something under its digest, so that equal ones are stored once."""
        path = self._archive.directory / directory / f"{digest}.json"
        if not path.exists():
            replace_file(path, (json.dumps(content) + "\n").encode())

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
    """Return the command that started this process, as typed, its secrets redacted."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    return redact_words([name, *sys.argv[1:]])


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def machine() -> dict[str, str]:
    """Describe the machine that this process runs on."""
    return {
        "host": platform.node(), "platform": platform.platform(), "processor": platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))), "python": sys.version.split()[0],
    }  # fmt: skip


def _uninterrupted(store: Store, name: str, suite: Suite) -> tuple[Baseline, CheckpointCost] | None:
    """Find the reference of experiments of the suite in the directory of one of their runs; returns its baseline, and
    what its checkpoints cost."""
    for result in suite.results:
        for text in result.runs if name in result.references else ():
            try:
                told = store.read(Path(text))
                reference = reference_store.attached(Path(text), name) if told["reference"] == name else None
                if reference is not None:
                    baseline = Baseline.of(reference, job=Job.from_json(told["job"]).words())
                    return baseline, checkpoint_cost(reference.controls[0])
            except (StoreError, OSError, TypeError, ValueError):
                continue
    return None


def _is_proof(line: JsonLine) -> bool:
    return isinstance(line.value, dict) and line.value.get("e") == "proof"


def _suite(head: SuiteHead, found: Sequence[Result]) -> Suite:
    return Suite(
        head["id"],
        head["created"],
        head["command"],
        tuple(found),
        chaoskit=head["chaoskit"],
        machine=head["machine"],
        after=head.get("after", ""),
    )
