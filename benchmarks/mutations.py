"""Mutate stored files and count what the commands that read them make of it.

    python benchmarks/mutations.py --mutations 10000 --seed 1

Prints the number of attempts by kind of fault, and one example of each. A fault is an internal error, a hang, an
undocumented exit code, a missing sentence, a control character in the terminal, or a pass of a store that does not pass
undamaged. The exit code is 1 if there is any. Ctrl-C ends it, and prints the counts so far.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from chaoskit.analysis.record import step_lines
from tests import mutations

#: What a command may take beyond what this process has, in bytes.
MEMORY = 3 * 2**29


def main() -> int:
    """Mutate, try, count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--examples", type=int, default=3, help="of each kind of fault")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    step_lines.LEAST = 0  # the records are small, and are to be read as large ones are
    draw, begun = random.Random(args.seed), time.monotonic()
    counts: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    usual: dict[tuple[str, ...], int] = {}
    mutated = 0
    stopped: list[int] = []
    signal.signal(signal.SIGINT, lambda signum, frame: stopped.append(signum))
    with tempfile.TemporaryDirectory() as place:
        with contextlib.redirect_stdout(io.StringIO()):
            files = mutations.make_store(Path(place) / ".chaoskit")
            real = mutations.real_runs(Path(place) / "real")
        while mutated < args.mutations and not stopped:
            for made in mutations.attempts(draw, real if draw.random() < 0.2 else files, usual):
                counts[made.fault or f"exit code {made.code}"] += 1
                if made.fault:
                    last = made.said.strip().splitlines()[-1:] or [""]
                    kind = f"{made.fault}: {made.words[0]}: {last[0][:90]}"
                    shown[kind] += 1
                    if shown[kind] <= args.examples:
                        print(f"{kind} | {made.mutation}", flush=True)
            mutated += 1
    faults = sum(count for fault, count in counts.items() if not fault.startswith("exit code"))
    print(f"\n{mutated} mutations, {sum(counts.values())} commands, {time.monotonic() - begun:.0f} s")
    for fault, count in counts.most_common():
        print(f"{count:>8}  {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
