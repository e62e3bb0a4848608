"""References on disk: the uninterrupted runs of a job, made twice, kept by content, shared under a lock.

A reference is found by a digest of the job, the interpreter, the machine and the environment variables; it is used
again only while every source and data file that its ranks read is still what it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from xxhash import xxh3_128

from chaoskit.errors import ReferenceFailed
from chaoskit.events import rank_events
from chaoskit.history import History
from chaoskit.job import LOOPBACK, Job
from chaoskit.launch.surroundings import IDLE
from chaoskit.probe.sources import identify
from chaoskit.reference import Reference
from chaoskit.store import FORMAT, Store

#: What makes fingerprints: another probe makes others, and so may ranks that are forked otherwise.
_OWN = Path(__file__).parent
PROBE = sorted([_OWN / "fingerprint.py", *(_OWN / "probe").glob("*.py"), *(_OWN / "launch").glob("*.py")])
#: How many uninterrupted runs are compared.
CONTROLS = 2


def digest(job: Job, *, launch: str = "auto", environment: str = "local") -> str:
    """Names the reference of a job in an environment, on this machine as it is now, and launched as is wished."""
    path = job.env.get("PATH", os.environ.get("PATH", os.defpath))
    program = shutil.which(job.words()[0], path=path) or job.words()[0]
    variables = {**os.environ, **job.env}
    traits = {
        "job": job.digest(),
        "launch": launch,
        "program": [os.path.realpath(program), identify(os.path.realpath(program))],
        "python": sys.version,
        "chaoskit": [identify(str(path)) for path in PROBE],
        "machine": [platform.machine(), platform.release(), len(os.sched_getaffinity(0)), _processor()],
        "where": environment,
        "environment": {name: variables[name] for name in sorted(variables) if not name.startswith(IDLE)},
    }
    return hashlib.sha256(json.dumps(traits, sort_keys=True).encode()).hexdigest()[:16]


def lock(store: Store, name: str, *, waiting: Any) -> FileLock:
    """The lock under which a reference is made and read; calls `waiting` once if somebody else holds it."""
    store.prepare()
    return _acquired(FileLock(store.references / f"{name}.lock"), waiting)


def _acquired(held: FileLock, waiting: Any) -> FileLock:
    try:
        held.acquire(timeout=0)
    except Timeout:
        waiting()
        held.acquire()
    return held


def turn_at(store: Store, port: int, *, waiting: Any) -> FileLock:
    """The lock under which a job runs that meets at the same port in every launch: two at once would be in each other's
    way. Calls `waiting` once if somebody else holds it."""
    return _acquired(FileLock(store.references / f"port-{port}.lock"), waiting)


def load(store: Store, name: str) -> Reference | None:
    """The stored reference, or None where there is none that still holds."""
    directory = store.references / name
    try:
        kept: Mapping[str, Any] = json.loads((directory / "reference.json").read_text())
    except (OSError, ValueError):
        return None
    if kept.get("format") != FORMAT or any(_changed(f) for f in kept.get("files", ())):
        return None
    count = int(kept.get("controls", CONTROLS))
    mode, port = kept.get("mode", {}), kept.get("port")
    return _read(directory, name, seconds=float(kept["seconds"]), count=count, mode=mode, port=port)


def _changed(file: Mapping[str, Any]) -> bool:
    return identify(file["path"], whole="hash" in file) != file


def _read(
    directory: Path,
    name: str,
    *,
    seconds: float = 0.0,
    count: int = CONTROLS,
    mode: Mapping[str, Any] | None = None,
    port: int | None = None,
) -> Reference | None:
    """The reference whose controls lie in a directory, or None where they are not (or no longer) whole."""
    controls = [History.read(directory / f"control-{number}") for number in range(count)]
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
) -> Reference:
    """Read the controls that have just been run, and keep them as the reference `name`, to be launched like `mode`.

    Raises ReferenceFailed where they are none: the job crashed, hung, or never stepped an optimizer.
    """
    directory = store.references / name
    runs = [directory / f"control-{number}" for number in range(controls)]
    histories = [History.read(run) for run in runs]
    port = _port(runs)
    reference = Reference.of(histories, path=str(directory), digest=name, seconds=seconds, mode=mode, port=port)
    content = {
        "format": FORMAT, "digest": name, "seconds": seconds, "controls": controls, "made": time.time(),
        "files": _files(runs, begun=min(one.incarnations[0].start for one in histories)),
        "mode": dict(mode or {}), "program": _program(job), "port": port,
    }  # fmt: skip
    draft = directory / f".reference.json.{os.getpid()}"
    with store.writing():
        draft.write_text(json.dumps(content, indent=1) + "\n")
        os.replace(draft, directory / "reference.json")
    for run in runs:
        shutil.rmtree(run / "out", ignore_errors=True)
    return reference


def _port(runs: Sequence[Path]) -> int | None:
    """The port at which the ranks met in all of these runs; None where each took another one, or none was seen."""
    ports = [{int(event.get("port", 0)) for event in rank_events(run, "meeting")} for run in runs]
    return min(set.intersection(*ports) - {0}, default=None)


def learned_before(store: Store, job: Job) -> Mapping[str, Any] | None:
    """How the newest reference of the same program, with other arguments, is to be launched, if that is warm."""
    kept = sorted(store.references.glob("*/reference.json"), key=lambda path: path.stat().st_mtime)
    for path in reversed(kept):
        try:
            reference = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        mode: Mapping[str, Any] = reference.get("mode", {})
        if mode.get("warm") and mode.get("modules") and reference.get("program") == _program(job):
            return mode
    return None


def _program(job: Job) -> list[str]:
    """The words of the job up to its script, or to the package of its module; all of them where none is to be seen."""
    words = job.words()
    for at in reversed(range(1, len(words))):
        if words[at - 1] == "-m":
            return [*words[:at], words[at].partition(".")[0]]
        if words[at].endswith(".py"):
            return words[: at + 1]
    return words


def alike(store: Store, name: str, *numbers: int) -> bool:
    """Whether these controls agree to the bit."""
    return Reference.of([History.read(store.references / name / f"control-{n}") for n in numbers]).deterministic


def replace_control(store: Store, name: str, number: int, *, by: int) -> None:
    """Put one control in the place of another."""
    old, new = (store.references / name / f"control-{each}" for each in (number, by))
    shutil.rmtree(old)
    os.replace(new, old)


def attach(reference: Reference, run_dir: Path) -> None:
    """Put the record of the controls beside the run that is judged by them: the run can then be judged again when the
    reference has long been replaced, on any machine."""
    for number in range(len(reference.controls)):
        target = run_dir / "reference" / f"control-{number}" / "events"
        target.mkdir(parents=True)
        for path in sorted(Path(reference.path, f"control-{number}", "events").glob("*.jsonl")):
            try:
                os.link(path, target / path.name)
            except OSError:  # another file system, or one without links
                shutil.copyfile(path, target / path.name)


def attached(run_dir: Path, name: str) -> Reference | None:
    """The reference that was put beside a run, or None where there is none that can be read. One that many runs share
    is read once."""
    directory = run_dir / "reference"
    count = len(list(directory.glob("control-*")))
    return _read_once(_Record(_content(directory), directory), name, max(count, CONTROLS))


@dataclass(frozen=True)
class _Record:
    """Controls on disk, wherever they lie."""

    content: str
    directory: Path = field(compare=False)


def _content(directory: Path) -> str:
    found = xxh3_128()
    for path in sorted(directory.glob("control-*/events/*.jsonl")):
        found.update(str(path.relative_to(directory)).encode())
        found.update(path.read_bytes())
    return found.hexdigest()


@lru_cache(maxsize=4)
def _read_once(record: _Record, name: str, count: int) -> Reference | None:
    return _read(record.directory, name, count=count)


def must_have_finished(run_dir: Path, status: str, *, nodes: int = 1) -> None:
    """Raises ReferenceFailed, with what the job said last, unless the control came to its end by itself, and the ranks
    of its nodes together."""
    if nodes > 1 and not _met(run_dir):
        raise ReferenceFailed(f"{_apart(run_dir, nodes)}. It said last:\n{_last_words(run_dir)}", run=str(run_dir))
    if status == "finished":
        return
    history = History.read(run_dir)
    code = history.launches[-1].code if history.launches else None
    what = {
        "deadline": "made no end before its deadline",
        "gave-up": f"ended with {'signal' if code is not None and code < 0 else 'exit code'} {abs(code or 0)}",
    }.get(status, f"came to nothing ({status})")
    stacks = "".join(f"\nrank {rank} was at:\n{text}" for rank, text in sorted(history.stacks.items()))
    raise ReferenceFailed(
        f"the uninterrupted run {what}, before anything was broken. It said last:\n{_last_words(run_dir)}{stacks}",
        run=str(run_dir),
    )


def _met(run_dir: Path) -> bool:
    """Whether ranks of several nodes came up together, and made a process group, if they went about to make one."""
    lived = History.read(run_dir).incarnations
    together = any(len({life.node for life in inc.ranks.values()}) > 1 for inc in lived)
    return together and (any(rank_events(run_dir, "group")) or not any(rank_events(run_dir, "meeting")))


def _apart(run_dir: Path, nodes: int) -> str:
    """Why the ranks of several nodes did not meet."""
    said = [str(event["at"]) for event in rank_events(run_dir, "meeting")]
    if at := next((at for at in said if at in LOOPBACK), None):
        return f"the ranks of {nodes} nodes cannot meet: they are told to at {at}, which is each node itself"
    return f"the ranks of {nodes} nodes did not meet: no rank came up that trains with one of another node"


def _last_words(run_dir: Path) -> str:
    logs = sorted((run_dir / "logs").glob("launch-*.log"))
    return _telling(logs[-1].read_text(errors="replace")) if logs else ""


def _telling(said: str) -> str:
    """The part of a log that a person wants: from the last traceback of the job's own on, else the last lines."""
    lines = [line for line in said.splitlines() if "torch/distributed/" not in line or "]:" in line]
    starts = [i for i, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    ranks = [i for i in starts if lines[i].lstrip().startswith("[") and "]:" in lines[i]]
    if starts:
        start = (ranks or starts)[0]
        return "\n".join(lines[start : start + 30])
    return "\n".join(lines[-20:])


def _files(runs: list[Path], *, begun: float) -> list[dict[str, Any]]:
    """Every file that any rank of the controls said it rests on, but for those that were made for these runs alone, as
    torch makes modules: they are gone, or lie in the directory for temporary files and are younger than the runs
    (`begun`)."""
    said = (event for run in runs for event in rank_events(run, "sources"))
    found = {entry["path"]: entry for event in said for entry in event.get("files", ())}
    since = time.time() - time.monotonic() + begun
    return [found[path] for path in sorted(found) if not _made_since(since, path)]


def _made_since(since: float, path: str) -> bool:
    try:
        written = os.stat(path).st_mtime
    except OSError:
        return True
    return written >= since and path.startswith(os.path.join(tempfile.gettempdir(), ""))


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as info:
            return next((line.strip() for line in info if line.startswith("model name")), "")
    except OSError:
        return ""
