"""Handlers of preemption notices that we did not write: what each makes of a notice, measured.

    python benchmarks/handlers.py                        # all that this machine can run; part of `make frameworks`
    python benchmarks/handlers.py --only polling_daemon
    python -m tests.slurm_cluster python benchmarks/handlers.py --only lightning_slurm --name requeued

The answers are in docs/reference/frameworks.json, of which `frameworks.py --page` makes the page. A measurement that is
taken again takes the place of its own, and one that this machine cannot take is left as it was. Returns 0 if everything
was found that handler.toml says, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from filelock import FileLock  # noqa: E402
from frameworks import ANSWERS, BUILD, answered, commit, environment, load, misplaced  # noqa: E402
from frameworks_examples import Mistake, examples  # noqa: E402
from handlers_examples import Handler, Measurement, handlers  # noqa: E402
from handlers_page import amiss  # noqa: E402

#: What the page shows of an experiment.
KEYS = ("name", "verdict", "codes", "sentences", "resumed_from", "steps_lost", "saved_seconds", "sufficient_grace")


def measure(one: Handler, what: Measurement, versions: Mapping[str, str]) -> dict[str, Any]:
    """One measurement, in a store of its own. Raises RuntimeError if chaoskit gives no answer."""
    bin_ = BUILD / one.venv / "bin"
    with tempfile.TemporaryDirectory(prefix="handlers-") as place:
        answer = Path(place) / "answer.json"
        words = what.measuring(answer, Path(place) / "runs")
        words[0] = str(bin_ / words[0])
        found = answered(words, answer, bin_=bin_, cwd=ROOT)["experiments"]
    return {
        "handler": one.name,
        "measurement": what.name,
        "text": one.digest,
        "versions": dict(versions),
        "python": ".".join(map(str, sys.version_info[:3])),
        "chaoskit": commit(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "experiments": [{key: each[key] for key in KEYS} for each in found],
    }


def measured(found: Mapping[str, Any], one: Handler, what: Measurement, versions: Mapping[str, str]) -> bool:
    """Whether that was done before, with the same files and the same packages."""
    same = (row for row in found["handlers"] if _key(row) == (one.name, what.name))
    return any((row["text"], row["versions"]) == (one.digest, versions) for row in same)


def as_example(one: Handler) -> Any:
    """As far as `misplaced` looks: the places in the source that its findings name."""
    found = [finding for what in one.measurement for finding in what.finding if finding.where]
    return SimpleNamespace(name=f"handlers/{one.name}", venv=one.venv, fault=found)


def keep(path: Path, row: Mapping[str, Any]) -> None:
    """Put it in the place of its own, among all that was measured."""
    BUILD.mkdir(exist_ok=True)
    with FileLock(BUILD / f"{path.name}.lock"):
        found = load(path)
        others = [one for one in found["handlers"] if _key(one) != _key(row)]
        found["handlers"] = sorted([*others, row], key=_key)
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(found, indent=1) + "\n")
        aside.replace(path)


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["handler"], row["measurement"]


def main(argv: Iterable[str] | None = None) -> int:
    """Returns 0 if everything was found that handler.toml says, and nothing else."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="NAME", help="this handler")
    parser.add_argument("--name", metavar="NAME", help="this measurement")
    parser.add_argument("--missing", action="store_true", help="leave out what was measured, and has not changed")
    parser.add_argument("--here", action="store_true", help="in the environment that runs this, and install nothing")
    parser.add_argument("--json", type=Path, default=ANSWERS, help="where the answers are kept")
    args = parser.parse_args(None if argv is None else list(argv))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        every = handlers()
        others = examples()
    except Mistake as mistake:
        parser.error(str(mistake))
    every = {name: replace(one, venv=sys.prefix) for name, one in every.items()} if args.here else every
    chosen = [
        (one, what)
        for one in every.values()
        for what in one.measurement
        if args.only in (None, one.name) and args.name in (None, what.name)
    ]
    if not chosen:
        known = (f"{one.name} ({', '.join(what.name for what in one.measurement)})" for one in every.values())
        parser.error(f"there is no such measurement; there are {', '.join(known)}")
    failed = 0
    for one, what in chosen:
        if what.variable and what.variable not in os.environ:
            print(f"{one.name} {what.name}: left as it was, for it needs {what.needs}", file=sys.stderr, flush=True)
            continue
        versions = environment(one, [*others.values(), *every.values()])
        if args.missing and measured(load(args.json), one, what, versions):
            continue
        print(f"{one.name} {what.name}", file=sys.stderr, flush=True)
        try:
            row = measure(one, what, versions)
            keep(args.json, row)
            told = (f"{each['name']} {each['verdict']} {' '.join(each['codes'])}" for each in row["experiments"])
            print(f"  {'; '.join(told)}", file=sys.stderr, flush=True)
        except RuntimeError as problem:
            # One that cannot be measured here must not cost the answers of all others.
            failed += 1
            print(f"  {problem}", file=sys.stderr, flush=True)
    wrong = amiss(load(args.json), {one.name: replace(one, measurement=tuple(
        what for other, what in chosen if other is one)) for one, _ in chosen})  # fmt: skip
    if not args.here:  # the packages lie in the environment that was made for them
        wrong += [trouble for one, _ in chosen for trouble in misplaced(as_example(one))]
    for trouble in dict.fromkeys(wrong):
        print(f"AMISS {trouble}")
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
