"""How many problems a trainer with one bug gives: the answers of the gallery, read again as problems.

    python benchmarks/problems.py                        # build/gallery/store, as benchmarks/gallery.py leaves it
    python benchmarks/problems.py STORE --json FILE

Before: the distinct codes of the failed experiments of a trainer. After: its problems. A problem is named rightly if
its code is one that the trainer's docstring expects (`Codes`). One that may honestly come along (`Also`) is listed
apart: whether it is a name of the bug or a consequence, the docstring does not say. Any other one is misnamed.
Nothing is run: stored suites and the verdicts of their runs are read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from chaoskit.engine.coded_finding import findings_of, of_many_runs  # noqa: E402
from chaoskit.engine.result import Result  # noqa: E402
from chaoskit.engine.run_store import Store  # noqa: E402
from chaoskit.errors import StoreError  # noqa: E402
from chaoskit.protocol.fault_kinds import kind_of  # noqa: E402
from chaoskit.studies.nights.archive import Archive  # noqa: E402
from chaoskit.studies.nights.suite import Suite  # noqa: E402
from chaoskit.studies.problems.problem import Problem  # noqa: E402
from chaoskit.studies.problems.suite_problems import problems_of  # noqa: E402
from chaoskit.verdict import Verdict  # noqa: E402
from tinymodels.gallery.catalogue import Mutant, mutants  # noqa: E402

STORE = ROOT / "build" / "gallery" / "store"


@dataclass(frozen=True)
class Row:
    """One trainer: the distinct codes of its failed experiments, and its problems."""

    mutant: Mutant
    codes: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def misnamed(self) -> tuple[str, ...]:
        """The problems whose code is not one that the trainer is known for."""
        known = (*self.mutant.codes, *self.mutant.also)
        return tuple(one.code for one in self.problems if one.code not in known)

    @property
    def along(self) -> tuple[str, ...]:
        """The problems whose code may come along with those that the trainer is known for."""
        return tuple(one.code for one in self.problems if one.code in self.mutant.also)

    def to_json(self) -> dict[str, Any]:
        """One trainer of the document."""
        problems = [one.to_json() for one in self.problems]
        names = {"misnamed": self.misnamed, "along": self.along}
        return {"slug": self.mutant.slug, "codes": self.codes, "problems": problems, **names}


def rows(store: Path, chosen: Sequence[Mutant] | None = None) -> list[Row]:
    """What the suites of a store say of each trainer of the gallery that failed in them."""
    by_module: dict[str, dict[str, Result]] = {}
    archive = Archive(Store(store))
    for path in archive.all():
        try:
            suite = archive.read(path)
        except StoreError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        found = by_module.setdefault(module_of(suite), {})
        found.update({result.name: with_findings(result) for result in suite.results})
    told = []
    for mutant in chosen or mutants():
        results = by_module.get(mutant.module, {}).values()
        failed = [result for result in results if result.verdict == "fail"]
        if failed:
            codes = tuple(dict.fromkeys(code for result in failed for code in result.codes))
            told.append(Row(mutant, codes, problems_of(failed)))
    return told


def module_of(suite: Suite) -> str:
    """The trainer that a suite was run on."""
    return next((word for word in suite.command if word.startswith("tinymodels.")), "")


def with_findings(result: Result) -> Result:
    """The result with the findings that the stored verdicts of its runs give today."""
    found = []
    for run in map(Path, result.runs):
        try:
            verdicts = [
                Verdict.from_json(one) for one in json.loads((run / "verdicts.json").read_text())["verdicts"]
            ]
            schedule = json.loads((run / "run.json").read_text())["schedule"]
        except (OSError, KeyError, ValueError):
            continue
        own = [one for one in verdicts if one.outcome.value in (result.verdict, "pass")]
        kinds = [kind for fault in schedule if (kind := kind_of(fault["action"])) is not None]
        found.append(findings_of(own, kinds))
    return replace(result, findings=of_many_runs(found))


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each trainer, the averages, and what was named wrongly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("store", nargs="?", type=Path, default=STORE)
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    args = parser.parse_args(argv)
    found = rows(args.store)
    if not found:
        print(f"{args.store} has no suite of a trainer of the gallery", file=sys.stderr)
        return 1
    for row in found:
        told = " · ".join(one.code + (" (weakness)" if one.weakness else "") for one in row.problems)
        print(f"{row.mutant.slug:28} {len(row.codes)} codes  {len(row.problems)} problems  {told}")
    before = sum(len(row.codes) for row in found) / len(found)
    after = sum(len(row.problems) for row in found) / len(found)
    print(f"\n{len(found)} trainers: {before:.2f} codes before, {after:.2f} problems after, on average")
    for row in found:
        if row.misnamed:
            print(f"not what the trainer is known for: {row.mutant.slug}: {', '.join(row.misnamed)}")
    for row in found:
        if row.along:
            print(f"may come along: {row.mutant.slug}: {', '.join(row.along)}")
    if args.json:
        args.json.write_text(json.dumps([row.to_json() for row in found], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
