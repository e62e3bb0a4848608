"""Programs that we did not write, in windows and whole: the same verdicts with the same codes?

    python benchmarks/windows_examples.py
    python benchmarks/windows_examples.py loop_gan:train.py spawn:exact.py

Each job is one of examples/, as it is and as it is to be exact, which trains for seconds: `--windows always` puts it
into windows all the same, so the times are no gain. The packages must be in this environment.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from pathlib import Path

from frameworks_examples import Example, examples, expression
from suite import CHAOSKIT, timed
from table import Figure, parser, show

JOBS = (
    "loop_gan:train.py", "loop_gan:exact.py", "loop_iterable:exact.py", "loop_closure:exact.py", "spawn:train.py",
    "spawn:exact.py", "accelerate_loop:exact.py", "transformers_trainer:exact.py",
)  # fmt: skip


def said(
    example: Example, script: str, store: Path, *options: str
) -> tuple[float, dict[str, tuple[str, ...]], int]:
    """Seconds, the verdict and the codes of each experiment, and how many were in windows."""
    answer = store.with_suffix(".json")
    words = [*CHAOSKIT, "--dir", str(store), "--json", str(answer), "-k", expression(example.columns), *options]
    scripts = Path(sys.executable).parent
    job = [str(scripts / word) if (scripts / word).is_file() else word for word in example.job(script, "plain")]
    call = timed([*words, *example.options(), "--", *job], answer)
    found = json.loads(answer.read_text())["experiments"]
    return (
        call.seconds,
        {one["name"]: (one["verdict"], *sorted(one["codes"])) for one in found},
        sum(bool(one["watched"]) for one in found),
    )


def main() -> int:
    arguments = parser(__doc__ or "")
    arguments.add_argument("jobs", nargs="*", default=list(JOBS), help="EXAMPLE:SCRIPT")
    told = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is cleared away
    known, figures, differ = examples(), [], []
    for job in told.jobs:
        name, _, script = job.partition(":")
        with tempfile.TemporaryDirectory(prefix="windows-") as scratch:
            seconds, windows, late = said(known[name], script, Path(scratch, "windows"), "--windows", "always")
            other, whole, _ = said(known[name], script, Path(scratch, "whole"), "--whole")
        figures.append(Figure(f"{job}: {len(windows)} experiments, {late} in windows", seconds, "s"))
        figures.append(Figure(f"{job}: whole", other, "s"))
        own = [
            f"{job} {one}: in windows {windows.get(one)}, whole {whole.get(one)}"
            for one in sorted({*windows, *whole})
            if windows.get(one) != whole.get(one)
        ]
        differ += own
        print(f"{job}: {late} of {len(windows)} in windows, {len(own)} differ", flush=True)
    show(f"{len(told.jobs)} programs, in windows and whole", figures, json_file=told.json)
    print("the verdicts are the same" if not differ else "\n".join(["the verdicts differ:", *differ]))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
