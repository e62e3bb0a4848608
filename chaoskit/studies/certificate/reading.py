"""`read`: gathers the evidence of suites and their stored runs. Raises UsageError for suites that do not go together.

Nothing is taken from a suite alone: a result counts only with the runs that it names, as they are stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaoskit.engine.result import ACCEPTED, SKIPPED, Result
from chaoskit.engine.run_store import Store
from chaoskit.errors import StoreError, UsageError
from chaoskit.job import Job
from chaoskit.nodes import Nodes
from chaoskit.protocol.stored_files import LONGEST_RECORD, read_stored, read_value
from chaoskit.schema import SchemaError, conform
from chaoskit.studies.certificate.evidence import (
    CrashStudy,
    Demands,
    ReadinessEvidence,
    SdcShare,
    SeenLoad,
    StoredRun,
    TriedExperiment,
)
from chaoskit.studies.certificate.stored_studies import CRASH_STATES, SDC_MAP, StoredCrashes, StoredMap
from chaoskit.studies.nights.conditions import Conditions
from chaoskit.studies.nights.suite import Suite, key_of
from chaoskit.studies.problems.acceptance import Acceptance
from chaoskit.verdict import Outcome, merge

#: The program of a session that runs the user's own tests, which may be called as experiments of the battery are.
_PYTEST = ("pytest", "py.test")


def read(
    suites: Sequence[Suite],
    store: Store,
    *,
    standing: Sequence[Acceptance] = (),
    demands: Demands | None = None,
) -> ReadinessEvidence:
    """Gather what these suites of one job show. Raises UsageError if they are of several jobs, or of none."""
    job = job_of(suites)
    costs = tuple(cost for suite in suites for cost in suite.checkpoint_costs.values())
    trials: dict[str, list[TriedExperiment]] = {}
    nodes = Nodes()
    for suite in suites:
        for result in suite.results:
            one, own = _trial(result, suite, store, job)
            trials.setdefault(_name(result, suite), []).append(one)
            nodes = own if own is not None and own.most > nodes.most else nodes
    found = {name: tuple(several) for name, several in trials.items()}
    references = {name for suite in suites for result in suite.results for name in result.references}
    rests = Conditions.merged(one for suite in suites for one in suite.conditions.values())
    maps, crashes = _studies(store, job, references, rests)
    return ReadinessEvidence(
        job, nodes, found, standing=tuple(standing), costs=costs, maps=maps, crashes=crashes,
        demands=demands or Demands(),
    )  # fmt: skip


def job_of(suites: Sequence[Suite]) -> str:
    """The command that all suites ran. Raises UsageError where there are several, or where nothing ran."""
    jobs = list(dict.fromkeys(result.job for suite in suites for result in suite.results if result.job))
    if not jobs:
        names = ", ".join(suite.id for suite in suites)
        raise UsageError(f"suite {names} has no experiment that ran a job: there is nothing to certify")
    if len(jobs) > 1:
        raise UsageError(
            f"the evidence is of {len(jobs)} jobs ({jobs[0]!r} and {jobs[1]!r}): certify one job at a time"
        )
    return jobs[0]


def _name(result: Result, suite: Suite) -> str:
    """The experiment of the battery that a result is of. A test of the user's own is none, whatever it is called."""
    own = bool(suite.command) and suite.command[0] in _PYTEST
    return f"pytest {key_of(result)}" if own else key_of(result)


def _trial(result: Result, suite: Suite, store: Store, job: str) -> tuple[TriedExperiment, Nodes | None]:
    runs: list[StoredRun] = []
    gap, nodes = "", None
    for text in result.runs:
        run_dir = find(text, store)
        if run_dir is None:
            gap = gap or f"its run {Path(text).name} is no longer stored"
            continue
        try:
            told = store.read(run_dir)
            own = Job.from_json(told["job"])
            runs.append(_stored(run_dir, told["id"], own.text, store))
        except (StoreError, OSError, TypeError, ValueError) as error:
            gap = gap or f"its run {run_dir.name} cannot be read ({error})"
            continue
        if runs[-1].job != job:
            gap = gap or f"its run {run_dir.name} is of another command"
        nodes = own.nodes if nodes is None or own.nodes.most > nodes.most else nodes
    if not runs and result.verdict != SKIPPED:
        gap = gap or "no run of it is stored"
    if key_of(result) not in suite.conditions and result.verdict in (Outcome.PASS, ACCEPTED):
        gap = gap or "the suite does not say which files its runs read"
    gap = gap or _contradiction(result, runs)
    return TriedExperiment(result, suite.id, tuple(runs), gap), nodes


def _contradiction(result: Result, runs: Iterable[StoredRun]) -> str:
    """Whether the suite says something else than the stored verdicts; both are written by the same session."""
    outcomes = [verdict.outcome for run in runs for verdict in run.verdicts]
    worst = merge(outcomes) if outcomes else None
    if result.verdict == Outcome.PASS and worst is not None and worst is not Outcome.PASS:
        return f"the suite says that it passed, and the verdicts of its runs say {worst.value}"
    if result.verdict == ACCEPTED and not result.accepted:
        return "the suite says that it is accepted, and names no code"
    return ""


def find(text: str, store: Store) -> Path | None:
    """The directory of a run: at its recorded path, or by its name in the store."""
    path = Path(text)
    for candidate in (path, store.runs / path.name):
        if (candidate / "run.json").is_file():
            return candidate
    return None


def _stored(run_dir: Path, ident: str, job: str, store: Store) -> StoredRun:
    digest, trained, loads, ranks = _record(run_dir)
    verdicts = store.read_verdicts(run_dir).verdicts if store.is_judged(run_dir) else ()
    return StoredRun(ident, job, digest, tuple(verdicts), trained, loads, ranks)


def digest_of(run_dir: Path) -> str:
    """A digest over the job, the faults, the record and the verdicts of a stored run, and of what it was compared with.
    What retention may remove of a run (files of the job, long logs) is no part of it. Raises OSError."""
    return _record(run_dir)[0]


def _record(run_dir: Path) -> tuple[str, frozenset[int], frozenset[SeenLoad], int]:
    whole = hashlib.sha256()
    trained, loads, ranks = set(), set(), set()
    files = [run_dir / "run.json", run_dir / "verdicts.json", *sorted((run_dir / "events").glob("*.jsonl"))]
    files += sorted((run_dir / "reference").glob("control-*/events/*.jsonl"))
    for path in files:
        if not path.exists():
            continue
        content = read_stored(path, longest=LONGEST_RECORD)
        whole.update(f"{path.relative_to(run_dir)}\0{hashlib.sha256(content).hexdigest()}\n".encode())
        if path.parent.parent == run_dir and path.name.startswith("rank-"):
            launch, _, rank = path.stem.split("-")[1:4]
            ranks.add(rank)
            if b'"e":"step"' in content:
                trained.add(int(launch))
            loads |= set(_loads(content))
    return whole.hexdigest(), frozenset(trained), frozenset(loads), len(ranks)


def _loads(content: bytes) -> Iterator[SeenLoad]:
    for line in content.splitlines():
        if b'"load.begin"' in line:
            with suppress(ValueError, RecursionError, KeyError):
                event = json.loads(line)
                if event["e"] == "load.begin":
                    restricted = event.get("weights_only")
                    name = Path(str(event["path"])).name
                    yield SeenLoad(str(event["api"]), name, restricted if isinstance(restricted, bool) else None)


def _studies(
    store: Store, job: str, references: set[str], rests: Conditions
) -> tuple[tuple[SdcShare, ...], tuple[CrashStudy, ...]]:
    """The newest map of silent corruption and study of crash states of this job that were compared with one of these
    references, and whose runs read the same files as those of the suites (`rests`)."""
    maps: list[SdcShare] = []
    crashes: list[CrashStudy] = []
    for run_dir in reversed(store.all_runs()):
        for name, found in ((SDC_MAP, maps), (CRASH_STATES, crashes)):
            if found or not (run_dir / name).is_file():
                continue
            try:
                told = store.read(run_dir)
                same = Job.from_json(told["job"]).text == job and told["reference"] in references
                same = same and _rests_on(rests, run_dir, store)
                value = read_value(run_dir / name)
                digest = file_digest(run_dir / name)
                if same and name == SDC_MAP:
                    maps.append(_share(told["id"], digest, conform(StoredMap, value)))
                elif same:
                    study = conform(StoredCrashes, value)
                    codes = tuple(study["codes"])
                    crashes.append(CrashStudy(told["id"], digest, study["verdict"], study["states"], codes))
            except (StoreError, OSError, SchemaError, TypeError, ValueError):
                continue
    return tuple(maps), tuple(crashes)


def _rests_on(rests: Conditions, run_dir: Path, store: Store) -> bool:
    own = Conditions.of_runs(store, [str(run_dir)])
    known = {**rests.further, **rests.sources}
    read_ = {**own.further, **own.sources} if own is not None else {}
    return bool(read_) and all(known.get(name, value) == value for name, value in read_.items())


def _share(ident: str, digest: str, told: StoredMap) -> SdcShare:
    silent = told["outcomes"]["silent"]
    return SdcShare(
        ident, digest, told["injections"], silent["hits"], silent["share"], silent["low"], silent["high"]
    )


def file_digest(path: Path) -> str:
    """The SHA-256 of a regular file. Raises OSError."""
    return hashlib.sha256(read_stored(path)).hexdigest()


def digests(evidence: ReadinessEvidence) -> Mapping[str, str]:
    """The digest of everything that the rows rest on, by the id of the run."""
    studies: Sequence[Any] = (*evidence.maps, *evidence.crashes)
    return {
        **{name: run.digest for name, run in sorted(evidence.runs.items())},
        **{one.run: one.digest for one in studies},
    }
