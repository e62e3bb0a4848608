"""Trainers that we did not write, as their documentation would have one use them: what each resumes exactly, measured.

    python benchmarks/frameworks.py --full                       # everything: docs/reference/frameworks.json and .md
    python benchmarks/frameworks.py --only loop_gan --script exact.py --variant augment
    python benchmarks/frameworks.py --only loop_gan --repeat 20  # 20 further runs of what is to be exact
    python benchmarks/frameworks.py --page                       # docs/reference/frameworks.md, of what was measured

A row is one script of examples/ in one variant; a row that is measured again takes the place of its own. Packages
lie in build/<venv>, which is made where it is missing. Returns 0 if every fault that an example tells of was measured,
every code that was measured is told of, and each script that is to be exact is.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from filelock import FileLock  # noqa: E402
from frameworks_examples import COLUMNS, VARIANTS, Example, Mistake, examples, expression, left_out  # noqa: E402
from frameworks_page import page  # noqa: E402
from frameworks_troubles import RUNS, exact, troubles  # noqa: E402
from handlers_examples import handlers  # noqa: E402
from handlers_page import amiss as amiss_of_handlers  # noqa: E402

from chaoskit.engine.run_store import Store  # noqa: E402
from chaoskit.engine.runner import stored  # noqa: E402

BUILD = ROOT / "build"
#: All that was measured: the page is made of it, and one row can be measured again without the others.
ANSWERS = ROOT / "docs" / "reference" / "frameworks.json"
#: What the experiments that show a resume are called in their results, and one that nothing is done to.
KILLED, UNDISTURBED = "test_one_rank_mid_epoch", "test_control"
#: Says which packages there are, from inside an environment.
INSTALLED = """
import importlib.metadata as m, json
print(json.dumps({d.metadata["Name"].lower().replace("_", "-"): d.version for d in m.distributions()}))
"""


def environment(one: Example, every: Iterable[Example]) -> dict[str, str]:
    """Make its venv where it is missing, with what all examples that share it require; the versions in it."""
    place = BUILD / one.venv
    if place == Path(sys.prefix):
        found = _installed(place)
        if missing := [wish for wish in one.requires if not _there(wish, found)]:
            raise SystemExit(f"{one.name} needs {', '.join(missing)}, which is not installed here; leave out --here")
        return _versions(one, found)
    wishes = sorted({wish for other in every if other.venv == one.venv for wish in other.requires})
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{place}.lock"):
        if not (place / "bin" / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        found = _installed(place)
        if "chaoskit" not in found or not all(_there(wish, found) for wish in wishes):
            print(f"installing into build/{one.venv}, once: {' '.join(wishes)}", file=sys.stderr, flush=True)
            pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *wishes, "-e", str(ROOT)], check=True)
            found = _installed(place)
    return _versions(one, found)


def here(every: dict[str, Example]) -> dict[str, Example]:
    """The examples, to be run by the Python that runs this, which has what they require: nothing is installed."""
    return {name: replace(one, venv=sys.prefix) for name, one in every.items()}


def _versions(one: Example, found: dict[str, str]) -> dict[str, str]:
    names = [_name(wish) for wish in one.requires]
    return {name: found[name] for name in dict.fromkeys(["torch", *names, _name(one.package)]) if name in found}


def _installed(place: Path) -> dict[str, str]:
    told = subprocess.run(
        [str(place / "bin" / "python"), "-c", INSTALLED], check=True, capture_output=True, text=True
    )
    return json.loads(told.stdout)


def _name(wish: str) -> str:
    return wish.partition("==")[0].partition("[")[0].lower().replace("_", "-")


def _there(wish: str, found: dict[str, str]) -> bool:
    """Whether it is installed, in the version that was pinned: 2.13.0+cpu is one 2.13.0."""
    version = wish.partition("==")[2]
    here = found.get(_name(wish))
    return here is not None and (not version or here.partition("+")[0] == version)


def misplaced(one: Example) -> Iterator[str]:
    """Places in the source that its faults name, and that are not there in the packages which are installed."""
    packages = next((BUILD / one.venv).glob("lib/python*/site-packages"), None)
    for fault in one.fault if packages else ():
        found = re.findall(r"([\w./-]+\.py):(\d+)(?: ([\w.]+))?", fault.where)
        if not found:
            yield f"{one.name}: {fault.where!r} is no place such as package/module.py:12 function"
        for path, line, name in found:
            file = next((p for p in (packages / path, ROOT / "examples" / one.name / path) if p.is_file()), None)
            around = _around(file.read_text(), int(line)) if file else None
            if around is None:
                yield f"{one.name}: {path}:{line} is not there"
            elif name and not f".{around}".endswith(f".{name}"):
                yield f"{one.name}: {path}:{line} is in {around or 'no function'}, not in {name}"


def _around(text: str, line: int) -> str | None:
    """The function or class that a line of a program is in, by its dotted name; None for a line past the end."""
    names = [
        (node.lineno if not node.decorator_list else node.decorator_list[0].lineno, node.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return ".".join(name for _, name in sorted(names)) if line <= len(text.splitlines()) else None


def answered(
    command: Sequence[str], answer: Path, *, bin_: Path, cwd: Path, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What chaoskit writes to `answer` when it runs this command, with the programs in `bin_` first on the PATH. Raises
    RuntimeError, with its last words, if it writes nothing."""
    variables = {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", **(env or {})}
    log = answer.with_name("said.txt")
    with log.open("w") as said:
        child = subprocess.Popen(
            command, cwd=cwd, env=variables, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        try:
            code = child.wait()
        except BaseException:
            child.terminate()  # not SIGINT, which whoever is in the background ignores
            child.wait()
            raise
    if not answer.exists():
        raise RuntimeError(f"chaoskit ended with {code}:\n{log.read_text()[-3000:]}")
    found: dict[str, Any] = json.loads(answer.read_text())
    return found


class Bench:
    """A directory to run one row in, with a copy of the examples and a store of its own; gone afterwards."""

    def __init__(self, one: Example, script: str, variant: str) -> None:
        self.one, self.script, self.variant = one, script, variant
        self.place = Path(tempfile.mkdtemp(prefix="frameworks-"))

    def __enter__(self) -> Bench:
        there = self.place / "examples" / self.one.name
        shutil.copytree(ROOT / "examples" / self.one.name, there, ignore=shutil.ignore_patterns("__pycache__"))
        # What is measured is what the page shows, whoever edits it meanwhile.
        (there / self.script).write_text(self.one.texts[self.script])
        return self

    def __exit__(self, *told: object) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def run(self, which: str, *, workers: str) -> dict[str, Any]:
        """What `chaoskit run` says of these experiments."""
        answer = self.place / "answer.json"
        answer.unlink(missing_ok=True)
        bin_ = BUILD / self.one.venv / "bin"
        command = [
            *(str(bin_ / "chaoskit"), "run", "-n", workers, "-k", which, "--json", str(answer)),
            *(*self.one.options(), "--", *self.one.job(self.script, self.variant)),
        ]
        return answered(command, answer, bin_=bin_, cwd=self.place, env=self.one.env)

    def seen(self, run: str | None) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """The alignment of a stored run, passed or not; and what the probe was blind to in it."""
        if run is None:
            return [], {}
        place = self.place / run
        kept = stored(place, Store(place.parent.parent))
        lives = [life for inc in kept.history.incarnations for life in inc.ranks.values()]
        return kept.case.table(), {name: why for life in lives for name, why in life.blind.items()}


def measure(
    one: Example, script: str, variant: str, versions: dict[str, str], *, workers: str, columns: Sequence[str]
) -> dict[str, Any]:
    """One row."""
    begun = time.monotonic()
    with Bench(one, script, variant) as bench:
        found = bench.run(expression([name for name in one.columns if name in columns]), workers=workers)
        answers, table, blind = {}, [], {}
        for each in found["experiments"]:
            keys = ("verdict", "codes", "sentences", "seconds", "launched", "resumed_from", "last_valid")
            answers[each["name"]] = {key: each[key] for key in keys}
            if each["name"] in (KILLED, UNDISTURBED):
                own, unseen = bench.seen(each["run"])
                table = own if each["name"] == KILLED else table
                blind.update(unseen)
    return {
        **head(one, script, variant, versions),
        "answers": answers,
        "table": table,
        "blind": blind,
        "seconds": round(time.monotonic() - begun, 1),
    }


def repeat(
    one: Example, script: str, variant: str, versions: dict[str, str], times: int, *, workers: str
) -> dict[str, Any]:
    """So many runs of `twice`, held to one reference."""
    verdicts: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    with Bench(one, script, variant) as bench:
        for _ in range(times):
            (answer,) = bench.run("twice", workers=workers)["experiments"]
            verdicts[answer["verdict"]] += 1
            codes.update(answer["codes"])
            if answer["verdict"] != "pass":
                print(
                    f"  {answer['verdict']}: {answer['codes']} {answer['sentences']}", file=sys.stderr, flush=True
                )
    told = head(one, script, variant, versions)
    return {**told, "runs": times, "verdicts": dict(verdicts), "codes": dict(codes)}


def head(one: Example, script: str, variant: str, versions: dict[str, str]) -> dict[str, Any]:
    return {
        "example": one.name,
        "script": script,
        "variant": variant,
        "text": one.digest(script),
        "versions": versions,
        "python": ".".join(map(str, sys.version_info[:3])),
        "chaoskit": commit(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def commit() -> str:
    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
        return done.stdout.strip()

    return git("rev-parse", "--short", "HEAD") + (
        "+" if git("status", "--porcelain", "chaoskit", "experiments") else ""
    )


def keep(path: Path, kind: str, row: dict[str, Any]) -> None:
    """Put it in the place of its own, among all that was measured."""
    BUILD.mkdir(exist_ok=True)
    with FileLock(BUILD / f"{path.name}.lock"):
        found = load(path)
        mine = _key(row)
        before = next((other for other in found[kind] if _key(other) == mine), None)
        if (
            kind == "rows"
            and before is not None
            and (before["text"], before["versions"]) == (row["text"], row["versions"])
        ):
            # Columns that were left out this time stay as they were.
            row = {**row, "answers": {**before["answers"], **row["answers"]}}
            row["table"] = row["table"] or before["table"]
            row["blind"] = row["blind"] or before["blind"]
        found[kind] = sorted([*(o for o in found[kind] if _key(o) != mine), row], key=_order)
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(found, indent=1) + "\n")
        aside.replace(path)


def load(path: Path) -> dict[str, Any]:
    """All that was measured."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    return {"rows": [], "repeats": [], "overhead": [], "handlers": [], **kept}


def _key(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["example"], row["script"], row["variant"]


def _order(row: dict[str, Any]) -> tuple[str, bool, int]:
    return row["example"], row["script"] != "train.py", list(VARIANTS).index(row["variant"])


def _chosen(parser: argparse.ArgumentParser, option: str, text: str | None, known: Iterable[str]) -> list[str]:
    """Some of what there is, in its order."""
    names = list(known)
    asked = [word for word in (text or "").split(",") if word]
    if unknown := [word for word in asked if word not in names]:
        parser.error(f"{option}: there is no {unknown[0]!r}; there are {', '.join(names)}")
    return [name for name in names if not asked or name in asked]


def _wanted(one: Example, args: argparse.Namespace, variants: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """The rows that were asked for: kind, script, variant."""
    scripts = [name for name in one.scripts if args.script in (None, name)]
    if args.full or not args.repeat:
        yield from (("rows", script, variant) for script in scripts for variant in variants)
    if args.full or args.repeat:
        yield from (("repeats", one.fixed, variant) for variant in variants if one.fixed in scripts)


def measured(
    told: Iterable[dict[str, Any]], one: Example, script: str, variant: str, versions: dict[str, str]
) -> bool:
    """Whether that was done before, with the same script and the same packages."""
    same = (row for row in told if _key(row) == (one.name, script, variant))
    return any((row["text"], row["versions"]) == (one.digest(script), versions) for row in same)


def _short(row: dict[str, Any]) -> str:
    told = []
    for name, answer in row["answers"].items():
        codes = f" ({' '.join(answer['codes'])})" if answer["codes"] else ""
        told.append(f"{name.removeprefix('test_')} {answer['verdict']}{codes}")
    return ", ".join(told)


def main(argv: Iterable[str] | None = None) -> int:
    """Returns 0 if the page has nothing to complain of."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="NAMES", help="these examples, divided by commas")
    parser.add_argument("--script", metavar="FILE", help="train.py or exact.py alone")
    parser.add_argument("--variant", metavar="NAMES", help=f"some of {', '.join(VARIANTS)}, divided by commas")
    parser.add_argument("--columns", metavar="NAMES", help=f"some of {', '.join(COLUMNS)}, divided by commas")
    parser.add_argument(
        "--repeat", type=int, default=0, metavar="N",
        help="instead: N more runs of what is to be exact, killed twice, shared out among its variants",
    )  # fmt: skip
    parser.add_argument("--full", action="store_true", help=f"all rows and {RUNS} further runs: make frameworks")
    parser.add_argument("--missing", action="store_true", help="leave out what was measured, and has not changed")
    parser.add_argument(
        "--page", action="store_true", help="measure nothing: write the page, and say what is amiss"
    )
    parser.add_argument("--here", action="store_true", help="in the environment that runs this, and install nothing")
    parser.add_argument("-n", default="2", metavar="WORKERS", help="experiments at a time (2)")
    parser.add_argument("--json", type=Path, default=ANSWERS, help="where the answers are kept")
    args = parser.parse_args(None if argv is None else list(argv))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    try:
        every = examples(only=args.only.split(",") if args.only else ())
        notified = handlers()
    except Mistake as mistake:
        parser.error(str(mistake))
    every = here(every) if args.here else every
    names = _chosen(parser, "--only", args.only, every)
    variants = _chosen(parser, "--variant", args.variant, VARIANTS)
    columns = _chosen(parser, "--columns", args.columns, COLUMNS)
    failed = 0
    for one in [] if args.page else [every[name] for name in names]:
        versions = environment(one, every.values())
        for kind, script, variant in _wanted(one, args, variants):
            told = load(args.json)[kind]
            if args.missing and measured(told, one, script, variant, versions):
                continue
            print(f"{one.name}/{script} {variant}", file=sys.stderr, flush=True)
            try:
                if kind == "repeats":
                    share = -(-(args.repeat or RUNS) // len(variants))
                    row = repeat(one, script, variant, versions, share, workers=args.n)
                    said = ", ".join(f"{count} {verdict}" for verdict, count in row["verdicts"].items())
                else:
                    row = measure(one, script, variant, versions, workers=args.n, columns=columns)
                    said = f"{row['seconds']:.0f} s: {_short(row)}"
                keep(args.json, kind, row)
            except RuntimeError as problem:
                # One that cannot be measured must not cost the answers of all others.
                failed += 1
                said = str(problem)
            print(f"  {said}", file=sys.stderr, flush=True)
    found = load(args.json)
    if args.only and not args.page:
        return 1 if failed else 0
    (ROOT / "docs" / "reference" / "frameworks.md").write_text(page(found, every, left_out(), notified))
    amiss = [*troubles(found, every), *(text for one in every.values() for text in misplaced(one))]
    amiss += amiss_of_handlers(found, notified)
    for trouble in amiss:
        print(f"AMISS {trouble}")
    good = sum(exact(row) for row in found["rows"])
    print(
        f"docs/reference/frameworks.md: {len(every)} programs, {len(found['rows'])} rows, {good} exact; "
        f"{len(amiss)} amiss"
    )
    return 1 if failed or amiss else 0


if __name__ == "__main__":
    sys.exit(main())
