"""The exam: every trainer of the gallery against the experiments that must catch it, as its users would run them.

    python benchmarks/gallery.py                  # the whole of it: docs/reference/gallery.md and build/gallery.json
    python benchmarks/gallery.py --only rng-missing,ema-reset --json some.json

A mutant is *caught* if each of its experiments fails, and *named* if each does so with the codes that its docstring
expects, and with no others than those it admits; where it is said to be safe from kills, and power cuts alone show it
(`crash-states`), also only if no kill does. The good trainer goes through the same experiments with the same
arguments: whatever does not pass there is a false alarm.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from gallery_page import page  # noqa: E402

from tinymodels.gallery.catalogue import CRASH_STATES, Mutant, mutants  # noqa: E402

GOOD = "tinymodels.train"
MEETING = "join_timeout=120,last_call_timeout=1,keep_alive_interval=1"
#: With torch 2.13 an agent that joins a running job otherwise waits in vain to be told where the ranks meet.
SURROUNDINGS = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
BIN = Path(sys.executable).parent
#: How often a job is shown what a crash has left of its save: the states differ, and few of them must show it.
VISITS = 60


@dataclass(frozen=True)
class Sitting:
    """One trainer, with its arguments, in some experiments, on so many nodes; or in `CRASH_STATES`, and in nothing
    besides. `slug` is empty for the good one."""

    slug: str
    module: str
    args: tuple[str, ...]
    options: tuple[str, ...]
    experiments: tuple[str, ...]
    nodes: str = "1"

    def command(self, store: Path, answer: Path, launch: str) -> list[str]:
        """What a user would type."""
        which = ("crash-states", "--visits", str(VISITS))
        if not self.crashes:
            which = ("run", "-k", " or ".join(self.experiments))
        return [
            *(str(BIN / "chaoskit"), *which, "--dir", str(store), "--json", str(answer), "--launch", launch),
            *(*self.options, *self._where(), "--"),
            *(str(BIN / "torchrun"), *self._shape(), "-m", self.module, "--out", "{out}", *self.args),
        ]

    @property
    def crashes(self) -> bool:
        """Whether it is shown what crashes leave."""
        return CRASH_STATES in self.experiments

    def _where(self) -> tuple[str, ...]:
        return () if self.nodes == "1" else ("--env", "netns", "--nodes", self.nodes)

    def _shape(self) -> tuple[str, ...]:
        """Two ranks: on one node, or one on each; agents that may meet again do so soon."""
        if self.nodes == "1":
            return ("--nproc-per-node", "2")
        again = ("--max-restarts", "5", "--rdzv-conf", MEETING) if ":" in self.nodes else ()
        return ("--nproc-per-node", "1", *again)

    @property
    def name(self) -> str:
        """For people."""
        return self.slug or " ".join(["good", *self.args])


@dataclass(frozen=True)
class Row:
    """What became of one mutant: by experiment, the verdict and the codes."""

    mutant: Mutant
    answers: dict[str, dict[str, Any]]

    @property
    def caught(self) -> bool:
        """Whether every experiment that must catch it failed."""
        return all(self.answers.get(name, {}).get("verdict") == "fail" for name in self.mutant.caught_by)

    @property
    def named(self) -> bool:
        """Whether each of them did so with the right codes."""
        allowed = {*self.mutant.codes, *self.mutant.also}
        those = [self.answers.get(name, {}) for name in self.mutant.caught_by]
        right = all(set(self.mutant.codes) <= set(one.get("codes", ())) <= allowed for one in those)
        return self.caught and right and not any(one.get("kills") for one in those)

    def to_json(self) -> dict[str, Any]:
        """One row of `gallery.json`."""
        told = asdict(self.mutant)
        return {**told, "caught": self.caught, "named": self.named, "answers": self.answers}


def sit(one: Sitting, work: Path, *, store: Path | None, launch: str) -> dict[str, dict[str, Any]]:
    """Run it, in a store of its own where there is none; the answers by experiment."""
    place = Path(tempfile.mkdtemp(dir=work))
    answer = place / "answer.json"
    begun = time.monotonic()
    try:
        done = subprocess.run(
            one.command(store or place / "store", answer, launch),
            cwd=ROOT,
            env={**os.environ, **SURROUNDINGS} if one.nodes != "1" else None,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if not answer.exists():
            raise RuntimeError(f"{one.name}: chaoskit ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        found = json.loads(answer.read_text())
        if one.crashes:
            return {CRASH_STATES: {**of_crashes(found), "seconds": round(time.monotonic() - begun, 1)}}
        keys = ("verdict", "codes", "sentences", "seconds")
        return {each["name"]: {key: each[key] for key in keys} for each in found["experiments"]}
    finally:
        shutil.rmtree(place, ignore_errors=True)


def of_crashes(found: dict[str, Any]) -> dict[str, Any]:
    """What `chaoskit crash-states` says, as an experiment would; `kills` are the states that a kill leaves and from
    which the job did not resume exactly."""
    kills = found["profiles"].get("kill", {})
    return {
        "verdict": found["verdict"],
        "codes": found["codes"],
        "sentences": [story["text"] for story in found["stories"]],
        "kills": sum(count for becomes, count in kills.items() if becomes != "exact"),
    }


def sittings(chosen: Sequence[Mutant], *, every: Sequence[str], controls: bool) -> list[Sitting]:
    """The mutants' own, longest first, and those of the good trainer with all their arguments."""
    found = [
        Sitting(m.slug, m.module, m.args, m.options, names, m.nodes)
        for m in chosen
        for names in _apart(tuple(every) or (*m.caught_by, *m.equivalent))
    ]
    if controls:
        asked: dict[tuple[tuple[str, ...], tuple[str, ...], str], dict[str, None]] = {}
        for one in found:
            # A deadline is for those that hang.
            where = (one.args, _without_deadline(one.options), one.nodes)
            asked.setdefault(where, {}).update(dict.fromkeys(one.experiments))
        found += [
            Sitting("", GOOD, args, options, those, nodes)
            for (args, options, nodes), names in asked.items()
            for those in _apart(tuple(names))
        ]
    return sorted(found, key=lambda one: -len(one.experiments))


def _apart(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Experiments, and what is a command of its own."""
    experiments = tuple(name for name in names if name != CRASH_STATES)
    crashes = tuple(name for name in names if name == CRASH_STATES)
    return [those for those in (experiments, crashes) if those]


def _without_deadline(options: tuple[str, ...]) -> tuple[str, ...]:
    kept = list(options)
    if "--timeout" in kept:
        at = kept.index("--timeout")
        del kept[at : at + 2]
    return tuple(kept)


def examine(
    chosen: Sequence[Mutant],
    *,
    workers: int,
    every: Sequence[str] = (),
    controls: bool = True,
    store: Path | None = None,
    launch: str = "auto",
) -> dict[str, Any]:
    """Everybody's answers, counted. They share what is in `store`, if there is one."""
    begun = time.monotonic()
    answers: dict[str, dict[str, dict[str, Any]]] = {}
    alarms: list[dict[str, Any]] = []
    clean = 0
    work = Path(tempfile.mkdtemp(prefix="gallery-"))
    try:
        with ThreadPoolExecutor(workers) as pool:
            those = sittings(chosen, every=every, controls=controls)
            asked = {pool.submit(sit, one, work, store=store, launch=launch): one for one in those}
            for done in as_completed(asked):
                one = asked[done]
                try:
                    found = done.result()
                except RuntimeError as problem:
                    # One that cannot be examined must not cost the answers of all others.
                    found = {name: _no_answer(str(problem)) for name in one.experiments}
                told = ", ".join(f"{name} {_short(each)}" for name, each in found.items())
                print(f"{time.monotonic() - begun:6.0f} s  {one.name}: {told}", file=sys.stderr, flush=True)
                if one.slug:
                    answers.setdefault(one.slug, {}).update(found)
                    continue
                clean += sum(each["verdict"] != "skipped" for each in found.values())
                bad = {name: each for name, each in found.items() if each["verdict"] not in ("pass", "skipped")}
                alarms += [{"args": list(one.args), "experiment": name, **each} for name, each in bad.items()]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    rows = [Row(mutant, answers[mutant.slug]).to_json() for mutant in chosen]
    return counted(rows, alarms, clean=clean, seconds=time.monotonic() - begun)


def counted(
    rows: Sequence[dict[str, Any]], alarms: list[dict[str, Any]], *, clean: int, seconds: float
) -> dict[str, Any]:
    """`gallery.json`."""
    return {
        "total": len(rows),
        "caught": sum(row["caught"] for row in rows),
        "named": sum(row["named"] for row in rows),
        "missed": [row["slug"] for row in rows if not row["caught"]],
        "false_alarms": len(alarms),
        "clean_runs": clean,
        "seconds": round(seconds, 1),
        "alarms": alarms,
        "mutants": list(rows),
    }


def again(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The answers of an earlier exam, with those who sat again in the place of their own."""
    rows = {row["slug"]: row for row in [*before["mutants"], *found["mutants"]]}
    known = {mutant.slug for mutant in mutants()}
    return counted(
        [rows[slug] for slug in sorted(rows) if slug in known],
        [*before["alarms"], *found["alarms"]],
        clean=before["clean_runs"] + found["clean_runs"],
        seconds=before["seconds"] + found["seconds"],
    )


def _no_answer(problem: str) -> dict[str, Any]:
    return {"verdict": "none", "codes": [], "sentences": [problem[-2000:]], "seconds": 0.0}


def _short(answer: dict[str, Any]) -> str:
    return f"{answer['verdict']}{' (' + ' '.join(answer['codes']) + ')' if answer['codes'] else ''}"


def main(argv: Iterable[str] | None = None) -> int:
    """Returns 0 if 95 % are caught and 90 % are named, and nobody was accused wrongly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="SLUGS", help="these mutants alone, divided by commas; writes no page")
    parser.add_argument(
        "--again", action="store_true", help="put the answers into those of an earlier exam, and the page"
    )
    parser.add_argument(
        "--all-experiments", metavar="NAMES", help="these experiments for every mutant instead of its own"
    )
    parser.add_argument("--no-controls", action="store_true", help="leave the good trainer out")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="sittings at a time")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "gallery.json", help="where the answers go")
    args = parser.parse_args(None if argv is None else list(argv))
    slugs = {m.slug for m in mutants()}
    if unknown := [slug for slug in (args.only or "").split(",") if slug and slug not in slugs]:
        parser.error(f"--only: there is no {unknown[0]!r} in the gallery; there are {', '.join(sorted(slugs))}")
    chosen = [m for m in mutants() if not args.only or m.slug in args.only.split(",")]
    every = args.all_experiments.split(",") if args.all_experiments else ()
    found = examine(chosen, workers=args.workers, every=every, controls=not args.no_controls)
    if args.again and args.json.exists():
        found = again(json.loads(args.json.read_text()), found)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(found, indent=1) + "\n")
    if not args.only or args.again:
        (ROOT / "docs" / "reference" / "gallery.md").write_text(page(found))
    total = found["total"]
    print(f"{found['caught']} of {total} caught, {found['named']} named, {found['false_alarms']} false alarms in "
          f"{found['clean_runs']} runs of the good trainer, {found['seconds']:.0f} s")  # fmt: skip
    for row in found["mutants"]:
        if not row["named"]:
            told = Counter(code for answer in row["answers"].values() for code in answer["codes"])
            what = "caught" if row["caught"] else "MISSED"
            print(f"  {what} {row['slug']}: expected {' '.join(row['codes'])}, found {dict(told)}")
    for alarm in found["alarms"]:
        print(f"  FALSE ALARM {alarm['experiment']} {alarm['args']}: {alarm['codes']} {alarm['sentences'][:1]}")
    good = found["caught"] >= 0.95 * total and found["named"] >= 0.9 * total and not found["alarms"]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
