"""Damage to stored files: a small store, one mutation of one of its files, and what each command that reads says then.

`tests/test_mutations.py` makes some mutations, `benchmarks/mutations.py` thousands. An attempt is a fault of chaoskit's
(`Attempt.fault`) if it raised, hung, ended with an undocumented exit code or without a sentence, wrote a control
character to the terminal, or passed although the undamaged store does not.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from chaoskit.cli import main
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.errors import ExitCode, UsageError
from chaoskit.protocol.events import Event
from chaoskit.studies.nights.archive import Archive
from tests import stored_corpus
from tests.history_writer import Writer
from tests.studies.forecast.suites import COST
from tests.studies.nights.nights import keep, night, result
from tests.two_suites import baseline

#: An attempt that takes longer hangs.
SECONDS = 8
CHECKS = (
    "completed", "resumed_from_last_valid", "state_restored", "same_data", "checkpoints_faithful",
    "matches_reference", "stays_finite", "no_orphans", "replicas_agree",
)  # fmt: skip
#: How a command says that it left something out. The rest may pass.
NOTES = ("suite ignored", "suite missing", "did not end", "no check was applied")
DOCUMENTED = frozenset({0, 1, 2, 3, 130})
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
REPLAYED = "read whole"

#: What takes the place of a value.
VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 7, 2**31, 2**63, 10**30, 10**4200, 1e308, -1e308, 0.5, float("nan"), float("inf"),
    float("-inf"), "", "x", "0", "-1", "a" * 100_000, [], {}, [[[]]], [None], [1, "a"], {"a": 1}, {"": []},
    "\x1b[31m[red]", "../../../etc", "\ud800", "/dev/zero", "nan", "0x1p+99999",
)  # fmt: skip


#: Command lines.
Reads = tuple[tuple[str, ...], ...]
#: Files, each with the commands that read it.
Files = list[tuple[Path, Reads]]


class Hang(BaseException):
    """A command took too long."""


@dataclass(frozen=True)
class Attempt:
    """What a command did after a mutation. `fault` says what is wrong with that; empty if nothing is."""

    words: tuple[str, ...]
    mutation: str
    code: int | None
    said: str
    fault: str = ""


def _readers(run_dir: Path, root: Path) -> Reads:
    """The commands that read a run."""
    out = ("--dir", str(root))
    return (
        ("explain", str(run_dir), *out), ("replay", str(run_dir), *out), ("analyze", str(run_dir), *out),
        ("report", str(run_dir), *out, "-o", str(root / "page.html")),
    )  # fmt: skip


def write_run(store: Store, writer: Writer, reference: Writer, *, experiment: str) -> Path:
    """Store a run that was made by hand, with the record of its two controls."""
    job = {"command": ["python", "{out}"], "cwd": "/tmp"}
    schedule = [
        {"text": "kill rank 1", "action": {"kind": "kill", "rank": 1}, "trigger": {"kind": "step", "n": 26}}
    ]
    run_dir = store.new_run(job=job, schedule=schedule, experiment=experiment, reference="ab" * 8)
    _write_events(run_dir, writer.events)
    for number in range(2):
        _write_events(run_dir / "reference" / f"control-{number}", reference.events)
    store.finish(run_dir, "finished")
    (run_dir / "logs" / "launch-0.log").write_text("[rank0]: Traceback (most recent call last):\nValueError: x\n")
    return run_dir


def _write_events(run_dir: Path, events: Sequence[Event]) -> None:
    (run_dir / "events").mkdir(parents=True, exist_ok=True)
    by_source: dict[str, list[Event]] = {}
    for event in events:
        by_source.setdefault(event.source, []).append(event)
    for source, own in by_source.items():
        lines = [{"i": i, "t": e.t, "e": e.kind, **e.data} for i, e in enumerate(own)]
        (run_dir / "events" / f"{source}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def make_store(root: Path) -> Files:
    """Make a store with runs and suites, and a file of `--json`. Returns its files, each with the commands that read
    it."""
    store = Store(root)
    store.prepare()
    known = {"samples": lambda rank, at: [f"{at}.{rank}.{i}" for i in range(2)],
             "rows": lambda rank, at: [str(4 * at + 2 * rank + i) for i in range(2)],
             "content": lambda rank, at: {"model.a": f"a@{at}", "step": f"={at}"},
             "steps": 12, "every": 4}  # fmt: skip
    reference = Writer(**known).control()
    found: Files = []
    for name, off in (("test_good", {}), ("test_lost", {"rng.torch": 0, "optimizer": 0})):
        run = Writer(**known).launch().live(until=6).fault(evidence={"rank": 1, "launch": 0}).died()
        run.launch().load("step-4.pt").live(base=4, off=off, ends=True).exit(0).end()
        for line in (3, 4):
            run.say("log", launch=1, restart=0, by="", line=line, step=line, loss="0.25")
        run_dir = write_run(store, run, reference, experiment=name)
        store._write(run_dir / "verdicts.json", {"checks": [{"name": one} for one in CHECKS], "verdicts": []})
        reads = _readers(run_dir, root)
        assert main.main(["analyze", str(run_dir), "--dir", str(root)]) == (0 if name == "test_good" else 1)
        found += [(path, reads) for path in sorted(run_dir.rglob("*")) if path.is_file()]
    references = {"ref": baseline()}
    lost = {
        "table": ({"incarnation": 1, "rank": 0, "expected": 4, "cells": {"model": "4", "optimizer": "0"}},),
        "stacks": {"0": "File x"}, "run": str(run_dir), "runs": (str(run_dir),), "recovery_seconds": 2.0,
        "launched": ("warm",), "launch_seconds": 1.0, "step_seconds": 0.1, "advice": {"rng-not-restored": "Save it."},
    }  # fmt: skip
    nights = [
        night(
            at, result("f" if bad else "p", **(lost if bad else {"recovery_seconds": 1.0})), baselines=references
        )
        for at, bad in enumerate((False, False, True))
    ]
    with mock.patch("chaoskit.studies.nights.archive._uninterrupted", lambda *_: (baseline(), COST)):
        keep(root, nights)
    archive = Archive(store)
    first, *_, last = archive.all()
    document = root / "night.json"
    out = ("--dir", str(root))
    assert main.main(["compare", str(first), str(last), *out]) == 1
    write_document(archive.read(last), document)
    reads = (
        ("forecast", "--gpus", "64", "--days", "1", "--trials", "20", "--suite", str(last), *out),
        ("history", *out), ("history", *out, "--json", str(root / "h.json"), "-o", str(root / "h.html")),
        ("history", *out, "--metrics", "-"), ("compare", str(first), str(last), *out),
        ("compare", str(first), "last", *out, "--json", str(root / "c.json"), "-o", str(root / "c.html")),
        ("report", "--last-suite", *out, "-o", str(root / "pages")), ("prove", "--all", *out),
        ("prove", "--all", *out, "--json", "-"),
    )  # fmt: skip
    found += [(path, reads) for path in sorted(archive.directory.rglob("*")) if path.is_file()]
    found.append((document, (("compare", str(first), str(document), *out),
                             ("report", "--suite", str(document), *out, "-o", str(root / "pages")))))  # fmt: skip
    return found


#: Runs of the corpus whose record has what the others lack: a journal of the storage, nodes, a hang, a rollback, a log.
REAL = (
    "good-storage-gone", "nodes-good-node-lost", "gallery-dead-peer-hang", "good-nan-rolled-back", "good-log",
    "framework-loop-gan", "good-fsdp", "good-preempted",
)  # fmt: skip


def real_runs(root: Path) -> Files:
    """Unpack some runs of the corpus. Returns their files, as `make_store` does."""
    found: Files = []
    for name, run_dir in stored_corpus.unpack(root).items():
        if name in REAL:
            reads = _readers(run_dir, root)
            found += [(path, reads) for path in sorted(run_dir.rglob("*")) if path.is_file()]
    return found


def write_document(suite: Any, path: Path) -> None:
    """Write the file that `--json` writes."""
    from chaoskit.report.machine import json_report

    json_report.write(suite.results, str(path), suite=suite)


# Mutations of a file. Each says what it did.


def _as_json(draw: random.Random, path: Path) -> str:
    """Change one value of one document of the file."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    at = draw.randrange(len(lines))
    changed = change_value(draw, lines[at])
    if changed is None:
        return _truncated(draw, path)
    lines[at], what = changed
    path.write_text("\n".join(lines) + "\n")
    return f"line {at + 1}, {what}"


def change_value(draw: random.Random, text: str) -> tuple[str, str] | None:
    """Change one value of a JSON text. Returns the text, and what was done; None where it has no value inside. Raises
    ValueError where it is no JSON."""
    document = json.loads(text)
    places = [(holder, key) for holder, key in _places(document)]
    if not places:
        return None
    holder, key = draw.choice(places)
    match draw.randrange(8):
        case 0:
            del holder[key]
            what = "deleted"
        case 1 if isinstance(holder, dict):
            holder[f"{key}x"] = holder.pop(key)
            what = "renamed"
        case 2:
            holder[key] = [holder[key]]
            what = "wrapped"
        case 3:
            holder[key] = str(holder[key])
            what = "as text"
        case 4:
            holder[key] = "\0deep"
            what = "nested deeply"
        case _:
            value = draw.choice(VALUES)
            holder[key] = value
            what = f"= {str(value)[:30]!r}" if not (isinstance(value, int) and value > 2**70) else "= huge"
    deep = "[" * 100_000 + "]" * 100_000
    with _long_numbers():
        return json.dumps(document).replace('"\\u0000deep"', deep), f"{key!r} {what}"


@contextlib.contextmanager
def _long_numbers() -> Iterator[None]:
    import sys

    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _truncated(draw: random.Random, path: Path) -> str:
    content = path.read_bytes()
    end = draw.randrange(len(content) + 1)
    path.write_bytes(content[:end])
    return f"cut at {end} of {len(content)}"


def _flipped(draw: random.Random, path: Path) -> str:
    content = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 1, 8))):
        if content:
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    return "bits flipped"


def _inserted(draw: random.Random, path: Path) -> str:
    content = path.read_bytes()
    at = draw.randrange(len(content) + 1)
    junk = draw.choice(
        (b"\xff\xfe", b"\x00" * 50, b"\n", b"{", b"]", b"\x1b[2J", b"[" * 100_000, draw.randbytes(20))
    )
    path.write_bytes(content[:at] + junk + content[at:])
    return f"{junk[:10]!r} inserted at {at}"


def _lines(draw: random.Random, path: Path) -> str:
    lines = path.read_bytes().splitlines(keepends=True)
    at = draw.randrange(len(lines)) if lines else 0
    match draw.randrange(3):
        case 0:
            lines[at:at] = lines[at : at + 1]
            what = "twice"
        case 1:
            del lines[at : at + 1]
            what = "missing"
        case _:
            other = draw.randrange(len(lines)) if lines else 0
            if lines:
                lines[at], lines[other] = lines[other], lines[at]
            what = f"swapped with {other + 1}"
    path.write_bytes(b"".join(lines))
    return f"line {at + 1} {what}"


def _replaced(draw: random.Random, path: Path) -> str:
    """Put something else in its place: nothing, a FIFO, a directory, a link, a socket."""
    path.unlink()
    match what := draw.choice(
        ("nothing", "FIFO", "directory", "link", "device", "loop", "socket", "empty", "broken")
    ):
        case "FIFO":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to("/etc/hostname")
        case "device":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path.name)
        case "broken":
            path.symlink_to("nowhere")
        case "socket":
            with contextlib.closing(socket.socket(socket.AF_UNIX)) as made, contextlib.chdir(path.parent):
                made.bind(path.name)
        case "empty":
            path.touch()
    return f"{what} in its place"


def _from_another(draw: random.Random, path: Path) -> str:
    others = sorted(
        other for other in path.parents[1].rglob(f"*{path.suffix}") if other.is_file() and other != path
    )
    if not others:
        return _flipped(draw, path)
    other = draw.choice(others)
    path.write_bytes(other.read_bytes())
    return f"content of {other.name}"


MUTATIONS: tuple[Callable[[random.Random, Path], str], ...] = (
    _as_json, _as_json, _as_json, _as_json, _truncated, _flipped, _inserted, _lines, _replaced, _from_another,
)  # fmt: skip


@contextlib.contextmanager
def mutated(draw: random.Random, path: Path) -> Iterator[str]:
    """Mutate a file; afterwards it is as before."""
    before = path.read_bytes()
    mutation = draw.choice(MUTATIONS)
    if mutation is _as_json and path.suffix not in (".json", ".jsonl"):
        mutation = _flipped
    try:
        yield f"{path.name}: {mutation(draw, path)}"
    finally:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.write_bytes(before)


def attempt(words: Sequence[str], mutation: str = "") -> Attempt:
    """Run a command in this process. It starts no job: `replay` and `prove` stop where they would."""
    # As a terminal, which has no lone surrogates.
    said, complained = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))

    def hang(signum: int, frame: object) -> None:
        raise Hang

    def stop(*_: Any, **__: Any) -> None:
        raise UsageError(REPLAYED)

    before = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(complained),
            mock.patch.object(Runner, "run", stop),
            mock.patch("chaoskit.studies.putting_back.try_to_prove", lambda *_, **__: None),
        ):
            code: int | None = main.main(list(words))
    except Hang:
        code = None
        complained.write("hang")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else None
    except BaseException as error:
        code = None
        complained.write(ascii(f"raised {error!r}"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    out, err = (stream.buffer.getvalue().decode() for stream in (said, complained))  # type: ignore[attr-defined]
    return Attempt(tuple(words), mutation, code, out + err, _fault(code, out, err))


def _fault(code: int | None, out: str, err: str) -> str:
    both = out + err
    if code is None:
        return "hang" if err.endswith("hang") else "raised"
    if code == ExitCode.INTERNAL or "internal error" in both or "could not be rendered" in both:
        return "internal error"
    if "the check itself failed" in both:
        return "check failed"
    if code not in DOCUMENTED:
        return f"undocumented exit code {code}"
    if "Traceback" in err:
        return "traceback"
    if code == ExitCode.USAGE and not re.search(r"^chaoskit: .{10}", err, re.MULTILINE):
        return "no sentence"
    if CONTROL.search(both):
        return "control character"
    return ""


def attempts(draw: random.Random, files: Files, usual: dict[tuple[str, ...], int]) -> Iterator[Attempt]:
    """Mutate one file and try two of the commands that read it. `usual` has the exit codes of the undamaged store; the
    caller gives an empty one, once."""
    path, reads = draw.choice(files)
    # What commands write beside what they read.
    written = [one for one, _ in files if one.name == "verdicts.json" or one.parent.name == "suites"]
    kept = {one: one.read_bytes() for one in written}
    for words in reads:
        if words not in usual:
            usual[words] = int(attempt(words).code or 0)
    with mutated(draw, path) as mutation:
        for words in draw.sample(reads, min(2, len(reads))):
            made = attempt(words, f"{path.parent.name}/{mutation}")
            noted = any(note in made.said for note in NOTES)
            # A store that never had this suite is not damaged.
            noted = noted or (path.parent.name == "suites" and not path.exists())
            if not made.fault and made.code == 0 and usual[words] not in (0, 2) and not noted:
                made = replace(made, fault="wrong pass")
            yield made
    for one, content in kept.items():
        if one.read_bytes() != content:
            one.write_bytes(content)
