"""The battery on the good trainer, again and again: DDP and FSDP2, fp32 and AMP. It must never be accused.

An alarm is an experiment that fails. One that is inconclusive is counted apart: it says nothing about the trainer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from kept_counts import Count, add_keep, kept, totals
from table import Figure, parser, show

JOBS = ("--parallel ddp", "--parallel fsdp", "--amp", "--amp --parallel fsdp")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "tinymodels.train"]


def battery(place: Path, job: str, options: list[str]) -> list[dict[str, object]]:
    """The results of one battery. Raises SystemExit if chaoskit itself failed."""
    answer = place / "answer.json"
    answer.unlink(missing_ok=True)
    words = [sys.executable, "-m", "chaoskit", "run", "--dir", str(place / "store"), "--json", str(answer), *options]
    done = subprocess.run([*words, "--", *TORCHRUN, *job.split(), "--out", "{out}"])
    if done.returncode not in (0, 1, 3) or not answer.exists():
        raise SystemExit(f"chaoskit ended with {done.returncode}")
    found: list[dict[str, object]] = json.loads(answer.read_text())["experiments"]
    return found


def main() -> None:
    made = parser(__doc__ or "")
    add_keep(made)
    made.add_argument("--rounds", type=int, default=2)
    made.add_argument("--jobs", type=int, default=len(JOBS), help="how many of the kinds of jobs")
    made.add_argument("--env", default="local", help="environment that runs the job")
    made.add_argument("-k", metavar="EXPR", help="only these experiments")
    made.add_argument("-n", metavar="WORKERS", help="experiments in parallel")
    args = made.parse_args()
    options = [word for name in ("env", "k", "n") if getattr(args, name) for word in (_flag(name), getattr(args, name))]
    count, undecided = Count("runs of the good trainer that were accused", args.env), 0
    with tempfile.TemporaryDirectory(prefix="soak-") as place, kept(args.keep, count):
        for number in range(args.rounds):
            for job in JOBS[: args.jobs]:
                print(f"== round {number + 1} of {args.rounds}: {job}", file=sys.stderr)
                found = [one for one in battery(Path(place), job, options) if one["verdict"] != "skipped"]
                count.times += len(found)
                count.wrong += sum(one["verdict"] == "fail" for one in found)
                undecided += sum(one["verdict"] == "inconclusive" for one in found)
    figures = [
        Figure(count.what, count.wrong, f"of {count.times}", "<= 0"),
        Figure("inconclusive", undecided, f"of {count.times}"),
    ]
    show("The good trainer, again and again", figures + totals(args.keep), json_file=args.json)
    sys.exit(bool(count.wrong))


def _flag(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"


if __name__ == "__main__":
    main()
