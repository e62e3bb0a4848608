"""The corpus of stored runs: unpack it, have `chaoskit analyze` judge it, keep the facts of what it says.

`tests/test_corpus.py` compares these facts with `tests/corpus/expected/`; `benchmarks/corpus.py` makes both.

Nothing here imports chaoskit: it is used as a person uses it (`python -m chaoskit analyze RUN --json FILE`), though in
this process, so that sixty runs take seconds. Sentences are left out, since they may be written better at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import re
import runpy
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

CORPUS = Path(__file__).parent / "corpus"
EXPECTED = CORPUS / "expected"

#: What `python -m chaoskit` runs; pytest loads a plugin's package in a way that `runpy.run_module` cannot.
MAIN = str(Path(str(importlib.util.find_spec("chaoskit").origin)).parent / "__main__.py")
#: What is kept of the report for machines; the rest is wording, paths, or in the verdicts.
FIGURES = (
    "verdict", "codes", "resumed_from", "last_valid", "steps_lost", "recovery_seconds", "noticed_seconds",
    "stopped_seconds", "waited_seconds", "launch_seconds", "step_seconds", "launched", "references",
)  # fmt: skip
#: Longer lists are kept by their length, their first entry and a digest of all.
LONGEST = 4
#: Longer texts (stacks) are records, not wording, and are kept by a digest.
LONGEST_TEXT = 400
#: What a text in the evidence tells: numbers, hexadecimal floats, names of files, tensors and components.
FACT = re.compile(
    r"-?0x[0-9a-f.]+p[+-]?\d+|[\w*-]*[./_][\w./*_-]*\w|\b(?:model|buffers|optimizer|lr|scaler|ema|rng|batch|nan|inf)\b"
    r"|(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?",
    re.IGNORECASE,
)


def archives() -> list[Path]:
    """The archives of the corpus."""
    return sorted(CORPUS.glob("*.tar.xz"))


def unpack(into: Path, *names: str) -> dict[str, Path]:
    """Unpack the runs of these archives (default: all) below `into`; return their directories by name. Runs that were
    judged by the same reference share one copy of it."""
    for archive in archives():
        if not names or archive.name.removesuffix(".tar.xz") in names:
            with tarfile.open(archive, "r:xz") as packed:
                # Archives of our own; Python has filters since 3.11.4.
                packed.extractall(into, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    found = {run.name: run for run in sorted((into / "runs").iterdir())}
    for run in found.values():
        digest = json.loads((run / "run.json").read_text())["reference"]
        reference = into / "references" / str(digest)
        if reference.is_dir() and not (run / "reference").exists():
            (run / "reference").symlink_to(reference)
    # Those that share a reference one after the other: it is then read once.
    return dict(sorted(found.items(), key=lambda one: (str((one[1] / "reference").resolve()), one[0])))


def analyze(run: Path) -> dict[str, Any]:
    """What `chaoskit analyze` says of a stored run, without its sentences."""
    report = run / "report.json"
    words = ["chaoskit", "analyze", str(run), "--json", str(report)]
    said = io.StringIO()
    with (
        mock.patch.object(sys, "argv", words),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        try:
            runpy.run_path(MAIN, run_name="__main__")
        except SystemExit as ended:
            code = ended.code
    if not report.exists():
        raise RuntimeError(f"{run.name}: analyze ended with {code}:\n{said.getvalue()}")
    (told,) = json.loads(report.read_text())["experiments"]
    verdicts = json.loads((run / "verdicts.json").read_text())["verdicts"]
    place = str(run.parent.parent)
    figures = {"exit": code, **{name: facts(told[name], place) for name in FIGURES}}
    figures["table"] = facts(told["table"], place)
    return {"figures": figures, "verdicts": dict(_verdicts(verdicts, place))}


def _verdicts(verdicts: list[dict[str, Any]], place: str) -> Iterator[tuple[str, Any]]:
    """By the name of the check; a second one of that name is `name 2`."""
    seen: dict[str, int] = {}
    for one in verdicts:
        name = one["check"]
        seen[name] = seen.get(name, 0) + 1
        evidence = facts(one["evidence"], place)
        if not evidence and one["outcome"] != "pass":
            # Nothing else tells what it found.
            evidence = {"text": facts(f"{one['sentence']} ", place)}
        told = {"outcome": one["outcome"], "codes": one["codes"], "evidence": evidence}
        yield (name if seen[name] == 1 else f"{name} {seen[name]}"), told


def facts(value: Any, place: str = "\0") -> Any:
    """The same without wording: of a text the numbers and names in it, of a long list its length, its first entry and
    a digest. What lies below the directory `place` is named as lying in {corpus}."""
    match value:
        case float():
            return round(value, 6)
        case str():
            return _text(value.replace(place, "{corpus}"))
        case Mapping():
            # A verdict inside of the evidence has a sentence of its own.
            kept = {str(key): facts(each, place) for key, each in value.items() if key != "sentence"}
            return dict(sorted(kept.items()))
        case list() | tuple():
            every = [facts(each, place) for each in value]
            if len(every) <= LONGEST:
                return every
            return {"count": len(every), "first": every[0], "digest": _digest(json.dumps(every, sort_keys=True))}
    return value


def _text(text: str) -> Any:
    if " " not in text and "\n" not in text:
        return text
    if len(text) > LONGEST_TEXT:
        return {"lines": len(text.splitlines()), "digest": _digest(text)}
    return sorted(FACT.findall(text))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def expected() -> dict[str, dict[str, Any]]:
    """What was pinned, by run."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(EXPECTED.glob("*.json"))}


def pin(run: str, said: Mapping[str, Any]) -> None:
    """Write down what is expected of a run."""
    EXPECTED.mkdir(exist_ok=True)
    (EXPECTED / f"{run}.json").write_text(_layout(said) + "\n")


def _layout(value: Any, depth: int = 0) -> str:
    """As JSON, with what fits on a line on one line."""
    short = json.dumps(value)
    if len(short) + depth <= 110 or not value or not isinstance(value, dict | list):
        return short
    keys = [f"{json.dumps(key)}: " for key in value] if isinstance(value, dict) else [""] * len(value)
    values = value.values() if isinstance(value, dict) else value
    inner = [f"{' ' * (depth + 1)}{key}{_layout(each, depth + 1)}" for key, each in zip(keys, values, strict=True)]
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    return opened + "\n" + ",\n".join(inner) + "\n" + " " * depth + closed


def differences(was: Any, now: Any, *where: str) -> Iterator[str]:
    """One line for each fact that is not what it was: where it is, what it was, what it is."""
    match was, now:
        case dict(), dict():
            for key in dict.fromkeys([*was, *now]):
                if key not in now:
                    yield _line(was[key], "nothing", *where, key)
                elif key not in was:
                    yield _line("nothing", now[key], *where, key)
                else:
                    yield from differences(was[key], now[key], *where, key)
        case list(), list() if len(was) == len(now):
            for index, (one, other) in enumerate(zip(was, now, strict=True)):
                yield from differences(one, other, *where, str(index))
        case _:
            if was != now or type(was) is not type(now):
                yield _line(was, now, *where)


def _line(was: Any, now: Any, *where: str) -> str:
    told = [each if isinstance(each, str) else json.dumps(each) for each in (was, now)]
    short = [each if len(each) <= 120 else f"{each[:117]}..." for each in told]
    return f"{' > '.join(where)}: was {short[0]}, is {short[1]}"
