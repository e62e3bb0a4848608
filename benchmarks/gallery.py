"""The exam: every trainer of the gallery against the experiments that must catch it, as its users would run them.

    python benchmarks/gallery.py                  # the whole of it: docs/gallery.md and build/gallery.json
    python benchmarks/gallery.py --only rng-missing,ema-reset --json some.json

A mutant is *caught* if each of its experiments fails, and *named* if each does so with the codes that its docstring
expects, and with no others than those it admits. The good trainer goes through the same experiments with the same
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
sys.path.insert(0, str(ROOT))

from tinymodels.gallery.catalogue import REPOSITORIES, Mutant, mutants  # noqa: E402

GOOD = "tinymodels.train"
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Sitting:
    """One trainer, with its arguments, in some experiments. `slug` is empty for the good one."""

    slug: str
    module: str
    args: tuple[str, ...]
    options: tuple[str, ...]
    experiments: tuple[str, ...]

    def command(self, store: Path, answer: Path) -> list[str]:
        """What a user would type."""
        return [
            *(str(BIN / "chaoskit"), "run", "--dir", str(store), "--json", str(answer)),
            *("-k", " or ".join(self.experiments), *self.options, "--"),
            *(str(BIN / "torchrun"), "--nproc-per-node", "2", "-m", self.module, "--out", "{out}", *self.args),
        ]

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
        codes = [set(self.answers.get(name, {}).get("codes", ())) for name in self.mutant.caught_by]
        return self.caught and all(set(self.mutant.codes) <= own <= allowed for own in codes)

    def to_json(self) -> dict[str, Any]:
        """One row of `gallery.json`."""
        told = asdict(self.mutant)
        return {**told, "caught": self.caught, "named": self.named, "answers": self.answers}


def sit(one: Sitting, work: Path) -> dict[str, dict[str, Any]]:
    """Run it; the answers by experiment."""
    place = Path(tempfile.mkdtemp(dir=work))
    answer = place / "answer.json"
    try:
        done = subprocess.run(
            one.command(place / "store", answer),
            cwd=ROOT,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if not answer.exists():
            raise RuntimeError(f"{one.name}: chaoskit ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        found = json.loads(answer.read_text())["experiments"]
        keys = ("verdict", "codes", "sentences", "seconds")
        return {each["name"]: {key: each[key] for key in keys} for each in found}
    finally:
        shutil.rmtree(place, ignore_errors=True)


def sittings(chosen: Sequence[Mutant], *, every: Sequence[str], controls: bool) -> list[Sitting]:
    """The mutants' own, longest first, and those of the good trainer with all their arguments."""
    found = [
        Sitting(m.slug, m.module, m.args, m.options, tuple(every) or (*m.caught_by, *m.equivalent)) for m in chosen
    ]
    if controls:
        asked: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[str, None]] = {}
        for one in found:
            # A deadline is for those that hang.
            asked.setdefault((one.args, _without_deadline(one.options)), {}).update(dict.fromkeys(one.experiments))
        found += [Sitting("", GOOD, args, options, tuple(names)) for (args, options), names in asked.items()]
    return sorted(found, key=lambda one: -len(one.experiments))


def _without_deadline(options: tuple[str, ...]) -> tuple[str, ...]:
    kept = list(options)
    if "--timeout" in kept:
        at = kept.index("--timeout")
        del kept[at : at + 2]
    return tuple(kept)


def examine(
    chosen: Sequence[Mutant], *, workers: int, every: Sequence[str] = (), controls: bool = True
) -> dict[str, Any]:
    """Everybody's answers, counted."""
    begun = time.monotonic()
    answers: dict[str, dict[str, dict[str, Any]]] = {}
    alarms: list[dict[str, Any]] = []
    clean = 0
    work = Path(tempfile.mkdtemp(prefix="gallery-"))
    try:
        with ThreadPoolExecutor(workers) as pool:
            asked = {pool.submit(sit, one, work): one for one in sittings(chosen, every=every, controls=controls)}
            for done in as_completed(asked):
                one, found = asked[done], done.result()
                told = ", ".join(f"{name} {_short(each)}" for name, each in found.items())
                print(f"{time.monotonic() - begun:6.0f} s  {one.name}: {told}", file=sys.stderr, flush=True)
                if one.slug:
                    answers[one.slug] = found
                    continue
                clean += sum(each["verdict"] != "skipped" for each in found.values())
                bad = {name: each for name, each in found.items() if each["verdict"] not in ("pass", "skipped")}
                alarms += [{"args": list(one.args), "experiment": name, **each} for name, each in bad.items()]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    rows = [Row(mutant, answers[mutant.slug]) for mutant in chosen]
    return {
        "total": len(rows),
        "caught": sum(row.caught for row in rows),
        "named": sum(row.named for row in rows),
        "missed": [row.mutant.slug for row in rows if not row.caught],
        "false_alarms": len(alarms),
        "clean_runs": clean,
        "seconds": round(time.monotonic() - begun, 1),
        "alarms": alarms,
        "mutants": [row.to_json() for row in rows],
    }


def _short(answer: dict[str, Any]) -> str:
    return f"{answer['verdict']}{' (' + ' '.join(answer['codes']) + ')' if answer['codes'] else ''}"


def page(found: dict[str, Any]) -> str:
    """`docs/gallery.md`."""
    total, caught, named = found["total"], found["caught"], found["named"]
    lines = [
        "# The gallery",
        "",
        "Made by `make gallery`; do not edit. Trainers broken on purpose, each by one seam of the good trainer",
        "([tinymodels/gallery/](../tinymodels/gallery/)), each modelled on a reported bug, and what chaoskit says of them.",
        "",
        f"**{caught} of {total} caught ({caught / total:.0%}), {named} named ({named / total:.0%}), {found['false_alarms']} "
        f"false alarms in {found['clean_runs']} runs of the good trainer** with the same arguments.",
        "",
        "*Caught*: each experiment named here failed. *Named*: each with the expected codes, and none besides that the",
        "trainer's docstring does not admit. ★ marks the most common and most damaging bugs.",
    ]
    families: dict[str, list[dict[str, Any]]] = {}
    for row in found["mutants"]:
        families.setdefault(row["family"], []).append(row)
    for family, rows in families.items():
        lines += [
            "",
            f"## {family[0].upper()}{family[1:]}",
            "",
            "| trainer | what it does | seen by | evidence |",
            "|---|---|---|---|",
        ]
        lines += [_line(row) for row in rows]
    short = sorted({report.partition("#")[0] for row in found["mutants"] for report in row["evidence"]})
    names = "; ".join(f"{one} = {REPOSITORIES[one]}" for one in short if one in REPOSITORIES)
    return "\n".join(
        [*lines, "", f"Evidence: o open, c closed, m merged, p not merged, as last seen. {names}.", ""]
    )


def _line(row: dict[str, Any]) -> str:
    mark = "" if row["named"] else " **(wrongly named)**" if row["caught"] else " **(missed)**"
    seen = [f"`{name}`: {_answer(answer)}" for name, answer in row["answers"].items()]
    reasons = [f"`{name}` cannot show it: {why}" for name, why in row["equivalent"].items()]
    if row.get("missed"):
        reasons.append(f"why: {row['missed']}")
    cells = [
        f"{'★ ' if row['star'] else ''}`{row['slug']}`{mark}",
        row["title"],
        "<br>".join([*seen, *reasons]),
        ", ".join(row["evidence"]),
    ]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _answer(answer: dict[str, Any]) -> str:
    return " ".join(f"`{code}`" for code in answer["codes"]) or answer["verdict"]


def main(argv: Iterable[str] | None = None) -> int:
    """Returns 0 if nobody was missed beyond the 5 % that are allowed, 90 % are named, and nobody was accused wrongly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="SLUGS", help="these mutants alone, divided by commas; writes no page")
    parser.add_argument(
        "--all-experiments", metavar="NAMES", help="these experiments for every mutant instead of its own"
    )
    parser.add_argument("--no-controls", action="store_true", help="leave the good trainer out")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="sittings at a time")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "gallery.json", help="where the answers go")
    args = parser.parse_args(None if argv is None else list(argv))
    chosen = [m for m in mutants() if not args.only or m.slug in args.only.split(",")]
    every = args.all_experiments.split(",") if args.all_experiments else ()
    found = examine(chosen, workers=args.workers, every=every, controls=not args.no_controls)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(found, indent=1) + "\n")
    if not args.only:
        (ROOT / "docs" / "gallery.md").write_text(page(found))
    total = found["total"]
    print(f"{found['caught']} of {total} caught, {found['named']} named, {found['false_alarms']} false alarms in "
          f"{found['clean_runs']} runs of the good trainer, {found['seconds']:.0f} s")  # fmt: skip
    for row in found["mutants"]:
        if not row["named"]:
            told = Counter(code for answer in row["answers"].values() for code in answer["codes"])
            print(
                f"  {'caught' if row['caught'] else 'MISSED'} {row['slug']}: expected {row['codes']}, found {dict(told)}"
            )
    for alarm in found["alarms"]:
        print(f"  FALSE ALARM {alarm['experiment']} {alarm['args']}: {alarm['codes']} {alarm['sentences'][:1]}")
    good = found["caught"] >= 0.95 * total and found["named"] >= 0.9 * total and not found["alarms"]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
