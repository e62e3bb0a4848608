"""References on disk: the uninterrupted runs (controls) of a job, stored under a digest and shared under a lock.

A reference holds as long as its digest is the same (see `reference_digest`) and every source and data file that its
ranks read has not changed.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypedDict

from filelock import FileLock, Timeout
from xxhash import xxh3_128

from chaoskit import environments
from chaoskit.analysis.checkpoints.cost import CheckpointCost, checkpoint_cost
from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.progress import Progress
from chaoskit.engine.record_readers import record_files
from chaoskit.engine.run_store import FORMAT, Store
from chaoskit.engine.stored_json import read_json
from chaoskit.environments.launch.mode import COLD, Mode
from chaoskit.errors import ReferenceFailed, StoreError
from chaoskit.files import long_logs
from chaoskit.files.removal import must_lie_in, remove
from chaoskit.files.whole_files import replace_file
from chaoskit.job import Job
from chaoskit.probe.sources import identify
from chaoskit.protocol.events import rank_events
from chaoskit.protocol.secret_words import redact_words
from chaoskit.protocol.stored_files import LONGEST_RECORD, read_stored
from chaoskit.schema import Range, Seconds

#: How many uninterrupted runs are compared.
CONTROLS = 2


class ReadFile(TypedDict):
    """A file that a reference rests on (see `identify`)."""

    path: str


class _EveryReference(TypedDict):
    seconds: Seconds


class ReferenceRecord(_EveryReference, total=False):
    """The content of reference.json."""

    controls: Annotated[int, Range(2, 1000)]
    files: list[ReadFile]
    mode: Mode
    program: list[str]
    port: int | None
    checkpoint_cost: CheckpointCost


def lock(store: Store, name: str, *, waiting: Any) -> FileLock:
    """The lock under which a reference is made and read; calls `waiting` once if another process holds it."""
    store.prepare()
    return _acquired(FileLock(store.references / f"{name}.lock"), waiting)


def _acquired(held: FileLock, waiting: Any) -> FileLock:
    try:
        held.acquire(timeout=0)
    except Timeout:
        waiting()
        held.acquire()
    return held


def port_lock(store: Store, port: int, *, waiting: Any) -> FileLock:
    """The lock under which a job runs whose ranks meet at the same port in every launch: two runs would collide. Calls
    `waiting` once if another process holds it."""
    return _acquired(FileLock(store.references / f"port-{port}.lock"), waiting)


def own_port(
    store: Store, reference: Reference, environment: str, progress: Progress
) -> AbstractContextManager[object]:
    """Held during a run of a job that always takes the same port of this machine: two runs would collide."""
    if reference.port is None or not environments.environment(environment).traits.shares_ports:
        return nullcontext()
    waiting = f"waiting for port {reference.port}, which another run of the job uses"
    return port_lock(store, reference.port, waiting=lambda: progress.phase(waiting))


def load(store: Store, name: str) -> Reference | None:
    """The stored reference; None where there is none, or where a file that it rests on has changed."""
    directory = store.references / name
    kept = _stored(directory / "reference.json")
    if kept is None or any(identify(f["path"], whole="hash" in f) != f for f in kept.get("files", ())):
        return None
    mode, port = kept["mode"].to_json() if "mode" in kept else {}, kept.get("port")
    count = kept.get("controls", CONTROLS)
    return _read(directory, name, seconds=kept["seconds"], count=count, mode=mode, port=port)


def _stored(path: Path) -> ReferenceRecord | None:
    try:
        return read_json(path, ReferenceRecord, missing="does not exist")
    except StoreError:
        return None


def _read(
    directory: Path,
    name: str,
    *,
    seconds: float = 0.0,
    count: int = CONTROLS,
    mode: Mapping[str, Any] | None = None,
    port: int | None = None,
) -> Reference | None:
    """The reference of the controls in a directory; None where they are missing or damaged."""
    controls = _controls(_Record(_content(directory), directory), count)
    try:
        return Reference.of(controls, path=str(directory), digest=name, seconds=seconds, mode=mode, port=port)
    except ReferenceFailed:
        return None


def keep(
    store: Store,
    name: str,
    job: Job,
    *,
    seconds: float,
    mode: Mapping[str, Any] | None = None,
    controls: int = CONTROLS,
    here: Callable[[str], str | None] = str,
) -> Reference:
    """Read the controls that have just been run and store them as the reference `name`; its job is launched in `mode`.
    `here` tells where on this machine a file lies that the job has read (see `EnvironmentType.path_here`).

    Raises ReferenceFailed where they make no reference: the job crashed, hung, or never stepped an optimizer.
    """
    directory = store.references / name
    runs = [directory / f"control-{number}" for number in range(controls)]
    histories = History.read_controls(runs, files=record_files())
    port = _port(runs)
    reference = Reference.of(histories, path=str(directory), digest=name, seconds=seconds, mode=mode, port=port)
    content = {
        "format": FORMAT, "digest": name, "seconds": seconds, "controls": controls, "made": time.time(),
        "files": _files(runs, begun=min(one.incarnations[0].start for one in histories), here=here),
        "mode": dict(mode or {}), "program": _program(job), "port": port,
        "checkpoint_cost": asdict(checkpoint_cost(histories[0])),
    }  # fmt: skip
    with store.writing():
        replace_file(directory / "reference.json", (json.dumps(content, indent=1) + "\n").encode())
    for run in runs:
        remove(run / "out", within=store.root)
        for log in long_logs.logs_below(run / "logs"):
            with suppress(OSError):  # another user's
                long_logs.cut_middle(log, limit=long_logs.OF_A_PASS)
    return reference


def _port(runs: Sequence[Path]) -> int | None:
    """The port at which the ranks met in all of these runs; None where each took another one, or none was seen."""
    ports = [{int(event.get("port", 0)) for event in rank_events(run, "meeting")} for run in runs]
    return min(set.intersection(*ports) - {0}, default=None)


def learned_before(store: Store, job: Job) -> Mapping[str, Any] | None:
    """The launch mode of the newest reference of the same program with other arguments, if that is warm."""
    kept = sorted(store.references.glob("*/reference.json"), key=lambda path: path.stat().st_mtime)
    for path in reversed(kept):
        reference = _stored(path)
        if reference is None:
            continue
        mode = reference.get("mode", COLD)
        if mode.warm and mode.modules and reference.get("program") == _program(job):
            return mode.to_json()
    return None


def _program(job: Job) -> list[str]:
    """The words of the command up to its script, or to the package of its module; all of them where it has neither."""
    words = redact_words(job.words())
    for at in reversed(range(1, len(words))):
        if words[at - 1] == "-m":
            return [*words[:at], words[at].partition(".")[0]]
        if words[at].endswith(".py"):
            return words[: at + 1]
    return words


def alike(store: Store, name: str, *numbers: int) -> bool:
    """Whether these controls agree to the bit."""
    return Reference.of(
        History.read_controls(
            (store.references / name / f"control-{n}" for n in numbers), files=record_files()
        )
    ).deterministic


def replace_control(store: Store, name: str, number: int, *, by: int) -> None:
    """Replace one control by another."""
    old, new = (store.references / name / f"control-{each}" for each in (number, by))
    must_lie_in(old, store.root)
    remove(old, within=store.root)
    os.replace(new, old)


def attach(reference: Reference, run_dir: Path) -> None:
    """Copy the record of the controls into the run that is judged by them, so that the run can be judged again on any
    machine, and after the reference has been replaced."""
    for number in range(len(reference.controls)):
        target = run_dir / "reference" / f"control-{number}" / "events"
        target.mkdir(parents=True)
        for path in sorted(Path(reference.path, f"control-{number}", "events").glob("*.jsonl")):
            try:
                os.link(path, target / path.name)
            except OSError:  # another file system, or one without links
                shutil.copyfile(path, target / path.name)


def attached(run_dir: Path, name: str) -> Reference | None:
    """The reference that is stored in a run; None where it cannot be read. One that many runs share is read once."""
    directory = run_dir / "reference"
    count = len(list(directory.glob("control-*")))
    return _read_once(_Record(_content(directory), directory), name, max(count, CONTROLS))


@dataclass(frozen=True)
class _Record:
    """Controls on disk, equal by content, in whichever directory."""

    content: str
    directory: Path = field(compare=False)


def _content(directory: Path) -> str:
    found = xxh3_128()
    for path in sorted(directory.glob("control-*/events/*.jsonl")):
        found.update(str(path.relative_to(directory)).encode())
        try:
            found.update(read_stored(path, longest=LONGEST_RECORD))
        except OSError as error:
            found.update(str(error).encode(errors="backslashreplace"))  # its reader says what is wrong
    return found.hexdigest()


@lru_cache(maxsize=4)
def _controls(record: _Record, count: int) -> list[History]:
    """The histories of the controls: experiments of one job share them, and read them once."""
    controls = (record.directory / f"control-{number}" for number in range(count))
    return History.read_controls(controls, files=record_files())


@lru_cache(maxsize=4)
def _read_once(record: _Record, name: str, count: int) -> Reference | None:
    try:
        return Reference.of(_controls(record, count), path=str(record.directory), digest=name)
    except ReferenceFailed:
        return None


def _files(runs: list[Path], *, begun: float, here: Callable[[str], str | None]) -> list[dict[str, Any]]:
    """Every file of this machine that a rank of the controls reported to have read. Leaves out those that were written
    for these runs alone, such as modules that torch generates: they are gone, or are temporary and younger than
    `begun`."""
    events = (event for run in runs for event in rank_events(run, "sources"))
    entries = ((here(entry["path"]), entry) for event in events for entry in event.get("files", ()))
    found = {path: {**entry, "path": path} for path, entry in entries if path is not None}
    since = time.time() - time.monotonic() + begun
    return [found[path] for path in sorted(found) if not _made_since(since, path)]


def _made_since(since: float, path: str) -> bool:
    try:
        written = os.stat(path).st_mtime
    except OSError:
        return True
    return written >= since and path.startswith(os.path.join(tempfile.gettempdir(), ""))
