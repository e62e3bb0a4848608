"""The proof that the tests hold: every check, fault and launcher is broken on purpose, and a test must fail.

    python benchmarks/breaks.py --fast-only --markdown build/breaks.md     # with tests that start no jobs
    python benchmarks/breaks.py --only checks --sample 10 --seed 3
    python benchmarks/breaks.py --list

The script breaks one thing at a time in a copy of the sources, which has its own virtual environment. It runs the test
files that name what is broken: quick ones first, tests that start real jobs last. A break is *caught* if a test fails
with it and passes without it, and *hung* if a test does not finish. With --thorough all other tests run as well if no
selected one has failed. Without it "not caught" means only that the selected files did not notice. Results are kept in
build/breaks.json; run the script again to continue.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks")]

from breaks_catalogue import Break, breaks  # noqa: E402
from breaks_copy import Copy, Outcome  # noqa: E402
from breaks_tests import ranked, seconds_by_file, test_files  # noqa: E402

CAUGHT = ("caught", "hung")


#: The tests of `make test` that start no real jobs, and those that do.
QUICK, JOBS = "not slow and not launches and not exhaustive", "launches and not slow"


class Exam:
    """Breaks one thing after the other, and keeps what came of it in `store`."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.files = test_files(ROOT)
        self.seconds = seconds_by_file(options.durations)
        self.copy = Copy(ROOT, options.work)
        self.known: dict[str, Any] = {"sources": _digest(), "commit": _commit(), "intact": {}, "results": {}}
        if options.json.exists():
            stored = json.loads(options.json.read_text())
            if stored["sources"] == self.known["sources"] or options.keep:
                self.known = stored

    def examine(self, one: Break) -> dict[str, Any]:
        """What the tests say of it."""
        began = time.monotonic()
        paths = ranked(self.files, one, self.seconds)[: self.options.files]
        rest = [file.path for file in self.files if file.path not in paths]
        rounds = [("selected", paths, QUICK)]
        if not self.options.fast_only:
            rounds.append(("selected, with jobs", paths, JOBS))
        if self.options.thorough:
            rounds.append(("all others", rest, QUICK))
            if not self.options.fast_only:
                rounds.append(("all others, with jobs", rest, JOBS))
        tried = 0
        told: dict[str, Any] = {"result": "not caught", "round": "", "test": "", "why": ""}
        for name, files, marks in rounds:
            if not files:
                continue
            tried += len(files) if marks == QUICK else 0
            found = self._round(one, files, marks)
            if found.what == "passed":
                continue
            result = {"failed": "caught", "hung": "hung"}.get(found.what, found.what)
            told = {"result": result, "round": name, "test": found.test, "why": found.why}
            if result in CAUGHT:
                break
        lasted = round(time.monotonic() - began, 1)
        about = {"group": one.group, "kind": one.kind, "owner": one.owner, "names": list(one.names)}
        return {**about, **told, "files": tried, "selected": paths, "seconds": lasted}

    def _round(self, one: Break, files: Sequence[str], marks: str) -> Outcome:
        """The first test that fails because of the break. Tests that fail without it are left out, and those that do
        not fail again."""
        passing: list[str] = []
        with self.copy.broken(one):
            while True:
                bad = [test for test, what in self.known["intact"].items() if what != "passed"]
                found = self._test(files, marks=marks, without=[*bad, *passing])
                by_chance = found.what == "failed" and self._may_fail_by_chance(found.test)
                if not by_chance or self._test([found.test]).what != "passed":
                    return found
                passing.append(found.test)

    def verify(self) -> list[str]:
        """Run every test that caught something, with nothing broken. Returns the breaks that have to be examined again
        because the test fails anyway."""
        known: dict[str, str] = self.known["intact"]
        results = {one: told for one, told in self.known["results"].items() if told["result"] in CAUGHT}
        new = sorted({told["test"] for told in results.values()} - known.keys())
        tests = [test for test in new if "::" in test]
        found = self._test(tests, to_the_end=True) if tests else Outcome("passed")
        if len(tests) < len(new) and self._test(["--collect-only", "tests"]).what != "passed":
            raise RuntimeError("the tests cannot be collected although nothing is broken")
        if found.what in ("passed", "failed"):
            known.update({test: "failed" if test in found.all else "passed" for test in new})
        else:  # one at a time shows which of them hangs
            known.update({test: self._test([test]).what for test in tests})
        again = [one for one, told in results.items() if known[told["test"]] != "passed"]
        for one in again:
            del self.known["results"][one]
        return again

    def _may_fail_by_chance(self, test: str) -> bool:
        """Whether it starts processes, so that a busy machine can make it fail."""
        return any(file.launches for file in self.files if file.path == test.partition("::")[0])

    def _test(self, what: Sequence[str], **how: Any) -> Outcome:
        limits = {"limit": self.options.limit, "patience": self.options.patience}
        return self.copy.test(what, **limits, **how)

    def keep(self) -> None:
        """Store what is known."""
        self.options.json.parent.mkdir(parents=True, exist_ok=True)
        beside = self.options.json.with_suffix(".new")
        beside.write_text(json.dumps(self.known, indent=1) + "\n")
        beside.replace(self.options.json)


def table(results: Iterable[dict[str, Any]], *, commit: str) -> str:
    """The results in Markdown: totals by kind, then what was not caught, then everything."""
    results = list(results)
    lines = [
        "# Breaks that the tests catch",
        "",
        f"At {commit}. Caught includes tests that hang (in brackets).",
        "",
    ]
    lines += ["| broken | breaks | caught | not caught |", "| --- | ---: | ---: | ---: |"]
    kinds = list(dict.fromkeys(each["kind"] for each in results))
    for kind in [*kinds, "all"]:
        own = [each for each in results if kind in (each["kind"], "all")]
        count = Counter(each["result"] for each in own)
        hung = f" ({count['hung']})" if count["hung"] else ""
        caught = count["caught"] + count["hung"]
        lines.append(f"| {kind} | {len(own)} | {caught}{hung} | {len(own) - caught} |")
    lines += ["", "## Not caught", ""]
    lines += [
        f"- {each['kind']}: `{each['owner']}` ({', '.join(each['names'][1:]) or 'no other name'}): "
        f"{each['result']} by {each['files']} selected files"
        for each in results
        if each["result"] not in CAUGHT
    ] or ["Nothing."]
    lines += ["", "## All", "", "| broken | where | result | by | s |", "| --- | --- | --- | --- | ---: |"]
    for each in results:
        test = f"`{each['test']}`".replace("|", "\\|") if each["test"] else f"{each['files']} selected files"
        lines.append(f"| {each['kind']} | `{each['owner']}` | {each['result']} | {test} | {each['seconds']:.0f} |")
    return "\n".join(lines) + "\n"


def _commit() -> str:
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


def _digest() -> str:
    """Of all that decides about a result."""
    paths = [path for folder in ("chaoskit", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def read_options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="breaks whose group, kind or owner contains this")
    parser.add_argument("--sample", type=int, help="so many of them, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast-only", action="store_true", help="no tests that start real jobs (marked launches)")
    parser.add_argument(
        "--thorough", action="store_true", help="all other tests, too, for what is not caught so far"
    )
    parser.add_argument("--files", type=int, default=12, help="select at most so many test files (default: 12)")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for the tests of one round (600)")
    parser.add_argument("--patience", type=float, default=180.0, help="seconds after which one test hangs (180)")
    parser.add_argument("--durations", type=Path, help="a JUnit file of an earlier run, to choose quick tests by")
    parser.add_argument("--again", action="store_true", help="examine again what was not caught")
    parser.add_argument("--keep", action="store_true", help="keep older results although the sources have changed")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "breaks", help="where the copy goes")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "breaks.json", help="results, to be resumed")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--list", action="store_true", help="say what can be broken, and break nothing")
    options = parser.parse_args(words)
    options.work = options.work.resolve()
    return options


def chosen(options: argparse.Namespace) -> list[Break]:
    """The breaks that were asked for."""
    found = [one for one in breaks(ROOT) if not options.only or options.only in f"{one.group} {one.id}"]
    if options.sample is not None and options.sample < len(found):
        kept = set(random.Random(options.seed).sample(range(len(found)), options.sample))
        found = [one for at, one in enumerate(found) if at in kept]
    return found


def main() -> int:
    options = read_options()
    found = chosen(options)
    if options.list:
        print("\n".join(f"{one.id} ({one.file}) {', '.join(one.names[1:])}".rstrip() for one in found))
        return 0
    exam = Exam(options)
    known = exam.known["results"]
    again = {
        one.id for one in found if options.again and known.get(one.id, {"result": ""})["result"] not in CAUGHT
    }
    while todo := [one for one in found if one.id not in known or one.id in again]:
        for at, one in enumerate(todo, 1):
            told = known[one.id] = exam.examine(one)
            exam.keep()
            print(f"{at}/{len(todo)} {told['result']}: {one.id} {told['test']} {told['seconds']} s", flush=True)
        again = set(exam.verify())
        exam.keep()
    results = [exam.known["results"][one.id] for one in found]
    said = table(results, commit=exam.known["commit"])
    if options.markdown is not None:
        options.markdown.write_text(said)
    print(said.partition("\n## All")[0])
    return 0 if all(each["result"] in CAUGHT for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
