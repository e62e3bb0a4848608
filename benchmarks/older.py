"""Older versions of trainers with resume bugs that their users reported, and the ones that mended them, measured.

    python benchmarks/older.py                               # everything; writes build/older.json and the page
    python benchmarks/older.py --only accelerate-epoch       # one case; the others stay as they were measured
    python benchmarks/older.py --page                        # docs/reference/older-bugs.md, of what was measured

A case is a directory of examples/older/: the script, and what is known of the bug. In the broken version each
experiment has to give exactly the codes that the case names, in the fixed one none; what is not named has to pass.
Returns 0 if it is so. Each version lies in an environment of its own, build/older-<case>-<version>, made where it is
missing.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CASES = ROOT / "examples" / "older"
ANSWERS = ROOT / "build" / "older.json"
PAGE = ROOT / "docs" / "reference" / "older-bugs.md"

HEAD = """\
# Reported bugs in older versions

Made by `make older`; do not edit. This page runs old releases of widely used packages, each with a resume bug that a
user reported, and the releases that fixed it, under the same script ([examples/older/](../../examples/older/)).
chaoskit gets no information about the bugs: it runs the experiments of the battery. It has to give exactly the codes
that the source explains, and none where the bug has no effect.

"""


@dataclass(frozen=True)
class Case:
    """What is known of one bug. `codes`: by experiment, what it gives under the broken version; `left`: the same of
    the fixed one, each explained in `left_why`; `note`: what else has to be known."""

    name: str
    title: str
    package: str
    broken: str
    fixed: str
    requires: Sequence[str]
    command: Sequence[str]
    report: str
    experiments: Sequence[str]
    where: str
    why: str
    change: str
    codes: Mapping[str, Sequence[str]]
    env: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, Sequence[str]] = field(default_factory=dict)
    left_why: str = ""
    note: str = ""

    @property
    def versions(self) -> tuple[str, str]:
        return self.broken, self.fixed

    def expected(self, version: str) -> dict[str, list[str]]:
        """The codes of each experiment, sorted."""
        known = self.codes if version == self.broken else self.left
        return {name: sorted(known.get(name, ())) for name in self.experiments}

    def venv(self, version: str) -> Path:
        return ROOT / "build" / f"older-{self.name}-{version}"

    def words(self) -> list[str]:
        """The job, as it is typed in the root of the repository."""
        script = f"examples/older/{self.name}/train.py"
        return [script if word == "{script}" else word for word in self.command]

    def selection(self) -> str:
        return " or ".join(name.removeprefix("test_") for name in self.experiments)

    def typed(self, version: str) -> str:
        """What reproduces it, in the root of the repository."""
        place = self.venv(version).relative_to(ROOT)
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.env.items()]
        told = ["chaoskit", "run", "-k", shlex.quote(self.selection()), "--", *self.words()]
        return " ".join([f"PATH={place}/bin:$PATH", *settings, *told])


def cases() -> list[Case]:
    """All of them, by name."""
    found = sorted(CASES.glob("*/case.toml"))
    return [Case(name=path.parent.name, **tomllib.loads(path.read_text())) for path in found]


def prepare(case: Case, version: str) -> Path:
    """The programs of the environment with this version; made where it is missing."""
    place = case.venv(version)
    if not (place / ".ready").exists():
        print(f"installing into {place.relative_to(ROOT)}, once", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *case.requires, f"{case.package}=={version}", "-e", str(ROOT)], check=True)
        (place / ".ready").touch()
    return place / "bin"


def measure(case: Case, version: str, *, workers: str) -> dict[str, Any]:
    """By experiment, the verdict and the codes."""
    programs = prepare(case, version)
    with tempfile.TemporaryDirectory(prefix="older-") as place:
        answer = Path(place, "answer.json")
        command = [
            *(str(programs / "chaoskit"), "run", "-n", workers, "-k", case.selection()),
            *("--dir", f"{place}/store", "--json", str(answer), "--", *case.words()),
        ]
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **case.env, "PATH": path}, capture_output=True, text=True
        )
        if not answer.exists():
            raise RuntimeError(f"{case.name} {version}: {done.returncode}:\n{done.stdout}\n{done.stderr}")
        found = json.loads(answer.read_text())["experiments"]
    keys = ("verdict", "codes", "sentences", "resumed_from", "seconds")
    return {one["name"]: {key: one[key] for key in keys} for one in found}


def mistakes(case: Case, version: str, answers: Mapping[str, Any]) -> Iterator[str]:
    """What is not as it has to be."""
    for name, codes in case.expected(version).items():
        told = answers.get(name, {"verdict": "nothing", "codes": []})
        right = "fail" if codes else "pass"
        if (told["verdict"], sorted(told["codes"])) != (right, codes):
            has = " ".join([told["verdict"], *told["codes"]])
            yield f"{case.name} {version}: {name} has to give {' '.join([right, *codes])}, and gives {has}"


def page(every: Sequence[Case], measured: Mapping[str, Any]) -> str:
    """docs/reference/older-bugs.md."""
    lines = [
        "| case | report | broken version | verdicts | fixed version | verdicts |",
        "|---|---|---|---|---|---|",
    ]
    parts = []
    for case in every:
        cells = [_cell(measured.get(case.name, {}).get(version)) for version in case.versions]
        number = case.report.partition("#")
        link = f"[{case.report}](https://github.com/{number[0]}/issues/{number[2]})"
        names = [f"{case.package} {version}" for version in case.versions]
        lines.append(f"| {case.title} | {link} | {names[0]} | {cells[0]} | {names[1]} | {cells[1]} |")
        parts.append(_part(case, measured.get(case.name, {})))
    return HEAD + "\n".join(lines) + "\n\n" + "\n".join(parts)


def _cell(answers: Mapping[str, Any] | None) -> str:
    if answers is None:
        return "not measured"
    return "<br>".join(
        f"`{name}`: " + (" ".join(f"`{code}`" for code in told["codes"]) or told["verdict"])
        for name, told in sorted(answers.items())
    )


def _part(case: Case, measured: Mapping[str, Any]) -> str:
    said = [sentence for one in measured.get(case.broken, {}).values() for sentence in one["sentences"]]
    lines = [
        f"## {case.title}",
        "",
        f"{case.why} Location: `{case.where}`, in {case.package} {case.broken}. Fix in {case.fixed}: {case.change}",
        *filter(None, (case.left_why, case.note)),
        "",
        *([f"> {said[0]}", ""] if said else []),
        "```sh",
        *(case.typed(version) for version in case.versions),
        "```",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="CASE[,CASE]", default="", help="these, and no others")
    parser.add_argument("--page", action="store_true", help="run nothing; write the page of what was measured")
    parser.add_argument("-n", dest="workers", default="1", help="experiments side by side (1)")
    args = parser.parse_args()
    every = cases()
    chosen = [case for case in every if not args.only or case.name in args.only.split(",")]
    if not chosen:
        parser.error(f"there is no such case; there are {', '.join(case.name for case in every)}")
    measured = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    for case in [] if args.page else chosen:
        for version in case.versions:
            measured.setdefault(case.name, {})[version] = measure(case, version, workers=args.workers)
            wrong = list(mistakes(case, version, measured[case.name][version]))
            print("\n".join(wrong) or f"{case.name} {version}: as it has to be", flush=True)
            ANSWERS.write_text(json.dumps(measured, indent=1) + "\n")
    PAGE.write_text(page(every, measured))
    wrong = [
        told
        for case in chosen
        for version in case.versions
        for told in mistakes(case, version, measured.get(case.name, {}).get(version, {}))
    ]
    print("\n".join(wrong) if args.page else f"{len(wrong)} of them not as it has to be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
