"""Every notice of preemption, given to the bundled trainer on two virtual hosts, several times in a row.

    python benchmarks/notices.py
    python benchmarks/notices.py --rounds 1 --notices aws,slurm --env local

Each round is a session of its own with an empty store. For each way to tell, the table has the number of experiments
that passed and that did not, the median time from the notice to a settled checkpoint, and the greatest grace that would
just have sufficed. What was not a pass is named.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from table import Figure, parser, show

ROOT = Path(__file__).parent.parent
NOTICES = "aws,gcp,azure,kubernetes,slurm,signal,file"
FILE = "experiments/test_preemption.py"
#: The experiments that give a notice: not the one that sends SIGTERM to one rank.
EXPERIMENTS = "preempted or told_again or notice"


def session(environment: str, notices: str, scratch: Path, more: Sequence[str]) -> list[dict[str, Any]]:
    """The results of one session, each an experiment with one way to tell. Without a command, the experiments run the
    bundled trainer with the handler that each way needs."""
    answer = scratch / "answer.json"
    given = {"env": environment, "notices": notices, "dir": scratch / "store", "json": answer, "launch": "warm"}
    if environment != "local":
        given["nodes"] = "2"
    options = [f"--chaos-{name}={value}" for name, value in given.items()]
    words = [sys.executable, "-m", "pytest", FILE, "-q", "-k", EXPERIMENTS, "-n", "2", *options, *more]
    done = subprocess.run(words, cwd=ROOT, stdout=sys.stderr, check=False)
    if not answer.exists():
        raise SystemExit(f"no results, exit code {done.returncode}: {' '.join(words)}")
    found: list[dict[str, Any]] = json.loads(answer.read_text())["experiments"]
    return found


def figures(results: Sequence[Mapping[str, Any]], notices: Sequence[str]) -> list[Figure]:
    """The counts and times of each way to tell, over all rounds."""
    found = []
    for notice in notices:
        own = [one for one in results if f"[{notice}]" in one["name"]]
        run = [one for one in own if one["verdict"] != "skipped"]
        passed = [one for one in run if one["verdict"] == "pass"]
        found.append(Figure(f"{notice}: passed", len(passed), f"of {len(run)}", f">= {len(run)}"))
        saved = [one["saved_seconds"] for one in run if one.get("saved_seconds") is not None]
        needed = [one["sufficient_grace"] for one in run if one.get("sufficient_grace") is not None]
        if saved:
            found.append(Figure(f"{notice}: from the notice to a settled checkpoint, median", median(saved), "s"))
        if needed:
            found.append(Figure(f"{notice}: grace needed, at most", max(needed), "s"))
    return found


def main() -> int:
    """Print the table, and what was not a pass."""
    arguments = parser((__doc__ or "").partition("\n")[0])
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--notices", default=NOTICES)
    arguments.add_argument("--env", default="netns")
    given, more = arguments.parse_known_args()
    results: list[dict[str, Any]] = []
    for number in range(given.rounds):
        print(f"round {number + 1} of {given.rounds}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="notices-") as scratch:
            results += session(given.env, given.notices, Path(scratch), more)
    title = f"Notices of preemption ({given.env}, {given.rounds} rounds)"
    show(title, figures(results, given.notices.split(",")), json_file=given.json)
    others = [one for one in results if one["verdict"] not in ("pass", "skipped")]
    for one in others:
        print(f"{one['name']}: {one['verdict']}: {', '.join(one['codes'])}")
    return 1 if others else 0


if __name__ == "__main__":
    raise SystemExit(main())
