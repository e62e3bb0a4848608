"""The exam: every trainer of the gallery against the experiments that must catch it, as its users would run them.

    python benchmarks/gallery.py                  # the whole of it: docs/reference/gallery.md and build/gallery.json
    python benchmarks/gallery.py --continue       # go on with an exam that was interrupted
    python benchmarks/gallery.py --only rng-missing,ema-reset --json some.json
    python benchmarks/gallery.py --several-nodes --env docker --image IMAGE   # those on several nodes, in containers
    python benchmarks/gallery.py --several-nodes --env kubernetes             # in pods of a cluster of the tests
    python benchmarks/gallery.py --windows always   # the same codes, in windows

A mutant is *caught* if each of its experiments fails, and *named* if each does so with the codes that its docstring
expects, and with no others than those it admits; where it is said to be safe from kills, and power cuts alone show it
(`crash-states`), also only if no kill does. The good trainer goes through the same experiments with the same arguments,
or with the `Good args` of the mutant, and trainers that look broken and are right (tinymodels/gallery/sound/) in
theirs: whatever does not pass there is a false alarm. They do so once alone and once under load (`busy.py`), and again
until there were enough runs of each kind.

Answers are kept in build/gallery/ as they come. The sittings share one store there, and with it the references.
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
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from busy import busy  # noqa: E402
from gallery_kept import KeptAnswers  # noqa: E402
from gallery_page import page  # noqa: E402
from gallery_sittings import SURROUNDINGS, VISITS, Sitting, configuration, sittings  # noqa: E402

from tinymodels.gallery.catalogue import CRASH_STATES, Mutant, Sound, mutants, sound  # noqa: E402

WORK = ROOT / "build" / "gallery"
#: At least as many runs of good trainers alone, and as many under load.
EACH = 80

__all__ = ["VISITS", "Row", "Sitting", "examine", "of_crashes", "sittings"]


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


def sit(
    one: Sitting, work: Path, *, store: Path | None, launch: str, windows: str = "auto"
) -> dict[str, dict[str, Any]]:
    """Run it, in a store of its own where there is none; the answers by experiment."""
    place = Path(tempfile.mkdtemp(dir=work))
    answer = place / "answer.json"
    begun = time.monotonic()
    try:
        done = subprocess.run(
            one.command(store or place / "store", answer, launch, windows),
            cwd=containers(work) if one.in_containers else ROOT,
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


def containers(work: Path) -> Path:
    """The directory in which sittings in containers start, which is theirs alone: its `chaoskit.toml` names the image,
    and the variables, since containers do not have those of the shell."""
    return work / "containers"


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


@dataclass
class Exam:
    """The answers so far: of the mutants by name and experiment, of the good trainers the `alarms` and, under load or
    not, the number of their runs."""

    answers: dict[str, dict[str, dict[str, Any]]]
    alarms: list[dict[str, Any]]
    clean: dict[bool, int]

    def take(self, one: Sitting, found: dict[str, dict[str, Any]]) -> None:
        """Take in what became of one sitting."""
        if one.slug:
            self.answers.setdefault(one.slug, {}).update(found)
            return
        ran = {name: each for name, each in found.items() if each["verdict"] != "skipped"}
        self.clean[one.load] += len(ran)
        told = {"trainer": one.module, "args": list(one.args), "load": one.load}
        self.alarms += [
            {**told, "experiment": name, **each} for name, each in ran.items() if each["verdict"] != "pass"
        ]


def examine(
    chosen: Sequence[Mutant],
    *,
    workers: int,
    every: Sequence[str] = (),
    controls: bool = True,
    right: Sequence[Sound] = (),
    each: int = 0,
    store: Path | None = None,
    launch: str = "auto",
    kept: KeptAnswers | None = None,
    env: str = "netns",
    containers_file: str = "",
    windows: str = "auto",
) -> dict[str, Any]:
    """Everybody's answers, counted; of the good trainers at least `each` runs alone and, if it is not 0, as many under
    load. They share what is in `store`, if there is one. Several nodes are those of `env`, with this `chaoskit.toml` if
    they are containers or pods."""
    begun = time.monotonic()
    exam = Exam({}, [], {False: 0, True: 0})
    work = Path(tempfile.mkdtemp(prefix="gallery-"))
    containers(work).mkdir()
    (containers(work) / "chaoskit.toml").write_text(containers_file)
    kept = kept or KeptAnswers()

    def examined(one: Sitting) -> dict[str, dict[str, Any]]:
        found = kept.of(one)
        if found is None:
            found = sit(one, work, store=store, launch=launch, windows=windows)
            kept.add(one, found)
        return found

    def all_of(those: Iterable[Sitting]) -> None:
        with ThreadPoolExecutor(workers) as pool:
            asked = {pool.submit(examined, one): one for one in those}
            for done in as_completed(asked):
                one = asked[done]
                try:
                    found = done.result()
                except RuntimeError as problem:
                    # One that cannot be examined must not cost the answers of all others.
                    found = {name: _no_answer(str(problem)) for name in one.experiments}
                told = ", ".join(f"{name} {_short(answer)}" for name, answer in found.items())
                print(f"{time.monotonic() - begun:6.0f} s  {one.name}: {told}", file=sys.stderr, flush=True)
                exam.take(one, found)

    plan = sittings(chosen, every=every, controls=controls, right=right, env=env)
    good = [one for one in plan if not one.slug]
    try:
        all_of(plan)
        all_of(_more(good, exam, each, load=False))
        if each:
            with busy():
                all_of(replace(one, load=True) for one in good)
                all_of(_more(good, exam, each, load=True))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    rows = [Row(mutant, exam.answers[mutant.slug]).to_json() for mutant in chosen]
    seconds = time.monotonic() - begun
    return counted(rows, exam.alarms, clean=exam.clean[False], loaded=exam.clean[True], seconds=seconds)


def _more(good: Sequence[Sitting], exam: Exam, each: int, *, load: bool) -> Iterator[Sitting]:
    """Further turns, until there are so many runs; by turns, those with the most experiments first."""
    missing, turn = each - exam.clean[load], 1
    while good and missing > 0:
        turn += 1
        for one in good:
            if missing > 0:
                missing -= len(one.experiments)
                yield replace(one, load=load, turn=turn)


def counted(
    rows: Sequence[dict[str, Any]], alarms: list[dict[str, Any]], *, clean: int, loaded: int, seconds: float
) -> dict[str, Any]:
    """`gallery.json`."""
    return {
        "total": len(rows),
        "caught": sum(row["caught"] for row in rows),
        "named": sum(row["named"] for row in rows),
        "missed": [row["slug"] for row in rows if not row["caught"]],
        "false_alarms": len(alarms),
        "clean_runs": clean,
        "loaded_runs": loaded,
        "seconds": round(seconds, 1),
        "alarms": alarms,
        "mutants": list(rows),
    }


def again(before: dict[str, Any], found: dict[str, Any], right: Sequence[Sound] = ()) -> dict[str, Any]:
    """The answers of an earlier exam, with those who sat again in the place of their own: mutants, and trainers that
    are right."""
    sat = {each.module for each in right}
    earlier = [alarm for alarm in before["alarms"] if alarm["trainer"] not in sat]
    rows = {row["slug"]: row for row in [*before["mutants"], *found["mutants"]]}
    known = {mutant.slug for mutant in mutants()}
    return counted(
        [rows[slug] for slug in sorted(rows) if slug in known],
        [*earlier, *found["alarms"]],
        clean=before["clean_runs"] + found["clean_runs"],
        loaded=before.get("loaded_runs", 0) + found["loaded_runs"],
        seconds=before["seconds"] + found["seconds"],
    )


@contextmanager
def _places(env: str, image: str) -> Iterator[tuple[Path, str]]:
    """The store of all sittings, and the `chaoskit.toml` of those in containers or in the pods of a cluster."""
    if env != "kubernetes":
        yield WORK / "store", configuration(image)
        return
    from pod_cluster import cluster_in

    from tests.docker_images import images

    with (
        tempfile.TemporaryDirectory(prefix="gallery-cluster-") as directory,
        cluster_in(Path(directory), volume=WORK) as cluster,
    ):
        code = str(cluster.lay("tinymodels"))
        yield cluster.store, configuration(image or images.image(), cluster.settings, code=code)


def _no_answer(problem: str) -> dict[str, Any]:
    return {"verdict": "none", "codes": [], "sentences": [problem[-2000:]], "seconds": 0.0}


def _short(answer: dict[str, Any]) -> str:
    return f"{answer['verdict']}{' (' + ' '.join(answer['codes']) + ')' if answer['codes'] else ''}"


def main(argv: Iterable[str] | None = None) -> int:
    """Returns 0 if 98 % are caught and named, and nobody was accused wrongly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="SLUGS", help="these trainers alone, divided by commas; writes no page")
    parser.add_argument(
        "--several-nodes", action="store_true", help="the trainers alone that need several nodes; writes no page"
    )
    parser.add_argument(
        "--env", choices=("netns", "docker", "kubernetes"), default="netns", help="where those sit (default: netns)"
    )
    parser.add_argument("--image", default="", help="the image of containers or pods, which needs torch alone")
    parser.add_argument(
        "--again", action="store_true", help="put the answers into those of an earlier exam, and the page"
    )
    parser.add_argument(
        "--all-experiments", metavar="NAMES", help="these experiments for every mutant instead of its own"
    )
    parser.add_argument("--no-controls", action="store_true", help="leave the good trainers out")
    parser.add_argument(
        "--each",
        type=int,
        help=f"runs of good trainers alone, and as many under load (default: {EACH}; with --only: 0)",
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="sittings at a time")
    parser.add_argument("--launch", default="warm", help="how processes start, as in chaoskit run (default: warm)")
    parser.add_argument(
        "--windows",
        default="auto",
        help="as in chaoskit run: 'always' puts these short jobs into windows, too; writes no page",
    )
    parser.add_argument(
        "--continue", dest="goes_on", action="store_true", help="use the answers that an interrupted exam has kept"
    )
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "gallery.json", help="where the answers go")
    args = parser.parse_args(None if argv is None else list(argv))
    slugs, asked = {m.slug for m in (*mutants(), *sound())}, (args.only or "").split(",")
    if unknown := [slug for slug in asked if slug and slug not in slugs]:
        parser.error(f"--only: there is no {unknown[0]!r} in the gallery; there are {', '.join(sorted(slugs))}")
    if args.env == "docker" and not args.image:
        parser.error("--env docker needs --image IMAGE")
    whole = not args.only and not args.several_nodes and args.windows == "auto"
    chosen = [m for m in mutants() if not args.only or m.slug in asked]
    if args.several_nodes:
        chosen = [m for m in chosen if m.nodes != "1"]
    right = [one for one in sound() if whole or one.slug in asked] if not args.no_controls else []
    if not args.goes_on:
        shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    each = args.each if args.each is not None else EACH if whole and not args.no_controls else 0
    with _places(args.env, args.image) as (store, containers_file):
        found = examine(
            chosen,
            workers=args.workers,
            every=args.all_experiments.split(",") if args.all_experiments else (),
            controls=not args.no_controls,
            right=right,
            each=each,
            store=store,
            launch=args.launch,
            kept=KeptAnswers(WORK / "answers.jsonl"),
            env=args.env,
            containers_file=containers_file,
            windows=args.windows,
        )
    if args.again and args.json.exists():
        found = again(json.loads(args.json.read_text()), found, right)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(found, indent=1) + "\n")
    if whole or args.again:
        (ROOT / "docs" / "reference" / "gallery.md").write_text(page(found))
    total = found["total"]
    runs = f"{found['clean_runs'] + found['loaded_runs']} runs of good trainers, {found['loaded_runs']} under load"
    alarms = f"{found['false_alarms']} false alarms in {runs}"
    print(f"{found['caught']} of {total} caught, {found['named']} named, {alarms}, {found['seconds']:.0f} s")
    for row in found["mutants"]:
        if not row["named"]:
            told = Counter(code for answer in row["answers"].values() for code in answer["codes"])
            what = "caught" if row["caught"] else "MISSED"
            print(f"  {what} {row['slug']}: expected {' '.join(row['codes'])}, found {dict(told)}")
    for alarm in found["alarms"]:
        under = " under load" if alarm.get("load") else ""
        what = f"{alarm['experiment']} {alarm['args']}{under}: {alarm['codes']} {alarm['sentences'][:1]}"
        print(f"  FALSE ALARM {what}")
    good = found["named"] >= 0.98 * total and not found["alarms"]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
