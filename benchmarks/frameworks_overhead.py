"""What the probe costs in programs that we did not write: their steps with it over the same steps without.

    python benchmarks/frameworks_overhead.py [--only NAMES] [--rounds 3] [--json FILE] [--answers FILE]

What was measured is kept in docs/reference/frameworks.json, for docs/reference/frameworks.md, or in --answers.

Each program of examples/ runs as it is, in turn without and with the probe. The clock is the same for both: it reads
the time after each step of an optimizer, and nothing else. The figure is the median over the ratios of the same step,
of the same rank, in neighbouring runs; steps that save count as well.
"""

from __future__ import annotations

import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from frameworks import ANSWERS, BUILD, environment, head, here, keep, load, measured  # noqa: E402
from frameworks_examples import EXAMPLES, Example, Mistake, examples  # noqa: E402
from table import Figure, parser, show  # noqa: E402

import chaoskit.probe  # noqa: E402

SITE = Path(chaoskit.probe.__file__).parent / "site"
#: Runs as each interpreter starts; the probe's own, where there is one, comes before it and hands on.
CLOCK = '''
import os, struct, sys, time
from importlib.machinery import PathFinder

class Clock:
    """Notes which optimizer stepped, and when, as soon as there are optimizers."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch.optim.optimizer":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (run(module), self.watch(module))
        return spec

    def watch(self, module):
        file, first = None, {}

        def stepped(optimizer, args, kwargs):
            nonlocal file
            if file is None:
                rank = os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or "0"
                file = os.open(f"{os.environ['CLOCK']}/{rank}-{os.getpid()}", os.O_WRONLY | os.O_CREAT)
            number = first.setdefault(id(optimizer), len(first))
            os.write(file, struct.pack("qd", number, time.perf_counter()))

        module.register_optimizer_step_post_hook(stepped)

sys.meta_path.insert(0, Clock())
'''

#: What a rank says that torch 2.13 aborts as it exits: 4 of 40 runs of loop_gan without the probe, on a busy machine.
ABORTED = "terminate called without an active exception"
ATTEMPTS = 5


def run(one: Example, place: Path, *, probed: bool) -> dict[str, list[float]]:
    """By rank, the seconds from each step of its first optimizer to the next, in a run from beginning to end. A run
    that torch aborts as a rank exits is repeated."""
    code, said = _ended(one, place, probed=probed)
    attempts = 1
    while code and ABORTED in said and attempts < ATTEMPTS:
        print(f"{one.name}: torch aborted a rank that exited; it runs again", file=sys.stderr)
        shutil.rmtree(place)
        code, said = _ended(one, place, probed=probed)
        attempts += 1
    if code:
        raise SystemExit(f"{one.name} ended with {code}:\n{said[-3000:]}")
    recorded = sum(path.read_text().count('"e":"step"') for path in (place / "events").glob("*.jsonl"))
    if probed != bool(recorded):
        raise SystemExit(f"{one.name}: the probe recorded {recorded} steps: nothing was measured")
    found: dict[str, list[float]] = {}
    for path in sorted((place / "clock").iterdir()):
        times = [at for number, at in struct.iter_unpack("qd", path.read_bytes()) if number == 0]
        rank = path.name.partition("-")[0]
        # The processes of ranks that no variable tells apart.
        found[rank if rank not in found else path.name] = [b - a for a, b in pairwise(times)]
    return found


def _ended(one: Example, place: Path, *, probed: bool) -> tuple[int, str]:
    """The exit code of a program, and what it has said."""
    for name in ("events", "logs", "out", "clock", "site"):
        (place / name).mkdir(parents=True)
    (place / "site" / "sitecustomize.py").write_text(CLOCK)
    paths = [str(SITE)] * probed + [str(place / "site")]
    bin_ = BUILD / one.venv / "bin"
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("CHAOSKIT_")},
        "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(paths),
        "CLOCK": str(place / "clock"),
        "OMP_NUM_THREADS": "1",  # as torchrun has it: ranks that spawn by themselves would take each other's cores
        **({"CHAOSKIT_RUN": str(place)} if probed else {}),
        **one.env,
    }
    shutil.copytree(EXAMPLES / one.name, place / "examples" / one.name)
    words = [word.replace("{out}", str(place / "out")) for word in one.job("train.py", "plain")]
    log = place / "log"
    with log.open("w") as said:
        done = subprocess.run(words, cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    return done.returncode, log.read_text()


def measure(one: Example, rounds: int) -> list[Figure]:
    """Neighbouring runs, in the order AB, BA, AB."""
    ratios, costs, bare = [], [], []
    for number in range(rounds):
        pair = {}
        for probed in (False, True) if number % 2 == 0 else (True, False):
            with tempfile.TemporaryDirectory(prefix="overhead-", ignore_cleanup_errors=True) as scratch:
                pair[probed] = run(one, Path(scratch) / "run", probed=probed)
        for without, with_probe in zip(pair[False].values(), pair[True].values(), strict=True):
            # The first step allocates.
            steps = list(zip(without[1:], with_probe[1:], strict=True))
            ratios += [b / a for a, b in steps]
            costs += [b - a for a, b in steps]
            bare += [a for a, _ in steps]
    if not ratios:
        raise SystemExit(f"{one.name}: no step of a torch optimizer was seen")
    return [
        Figure(f"{one.title}: step with the probe / without", statistics.median(ratios), "ratio"),
        Figure(f"{one.title}: cost of the probe", statistics.median(costs) * 1e3, "ms/step"),
        Figure(f"{one.title}: step without the probe", statistics.median(bare) * 1e3, "ms/step"),
    ]


def main() -> None:
    arguments = parser((__doc__ or "").partition("\n")[0])
    arguments.add_argument("--only", metavar="NAMES", help="these examples, divided by commas")
    arguments.add_argument("--rounds", type=int, default=3, help="pairs of runs")
    arguments.add_argument(
        "--missing", action="store_true", help="leave out what was measured, and has not changed"
    )
    arguments.add_argument(
        "--answers", type=Path, default=ANSWERS, help="where what was measured is kept for the page"
    )
    arguments.add_argument("--here", action="store_true", help="in the environment that runs this, and install nothing")
    told = arguments.parse_args()
    asked = told.only.split(",") if told.only else ()
    try:
        every = examples(only=asked)
    except Mistake as mistake:
        arguments.error(str(mistake))
    every = here(every) if told.here else every
    figures: list[Figure] = []
    for one in every.values():
        if not asked or one.name in asked:
            versions = environment(one, every.values())
            kept = load(told.answers)["overhead"]
            if told.missing and measured(kept, one, "train.py", "plain", versions):
                continue
            figures += (own := measure(one, told.rounds))
            ratio, cost, step = (figure.value for figure in own)
            row = {"rounds": told.rounds, "ratio": ratio, "cost_ms": cost, "step_ms": step}
            keep(told.answers, "overhead", {**head(one, "train.py", "plain", versions), **row})
            print("; ".join(f"{f.name} {f.value:.3g} {f.unit}" for f in figures[-3:]), file=sys.stderr, flush=True)
    show("What the probe costs in other people's programs", figures, json_file=told.json)


if __name__ == "__main__":
    main()
