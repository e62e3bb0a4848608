"""`chaoskit compare` on real suites: silent on the same code, and exact on a trainer that was broken on purpose.

    python benchmarks/compare.py
    python benchmarks/compare.py --suites 5 --mutants ema-reset --keep somewhere

The good trainer goes through the same experiments again and again, each time in an empty store, so that its references
are made anew; neighbours are compared. Whatever is reported is a false alarm. Then mutants go through them: of each
exactly the experiments that catch it must be reported, with its codes, and no reference, since it resumes wrongly and
trains rightly. With `--keep` the suites stay there, and those that are there already are not run again.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from table import Figure, parser, show

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tinymodels.gallery.catalogue import mutants  # noqa: E402

CHAOSKIT = [sys.executable, "-m", "chaoskit"]
GOOD = "tinymodels.train"
#: One that no mutant can fail, one that catches those that resume wrongly, one that stops nobody.
EXPERIMENTS = ("test_control", "test_one_rank_mid_epoch", "test_frozen_rank")
#: They forget something in a resume and train as the good one does: the EMA, the data, the RNG, the optimizer.
MUTANTS = ("ema-reset", "data-restart-zero", "rng-missing", "optim-wrong-layout")


def suite(module: str, path: Path, experiments: tuple[str, ...]) -> Path:
    """Run the experiments on a trainer, in a store of its own; what `--json` wrote."""
    if path.exists():
        return path
    torchrun = [str(Path(sys.executable).parent / "torchrun"), "--nproc-per-node", "2", "-m", module]
    with tempfile.TemporaryDirectory(prefix="compare-") as scratch:
        answer = Path(scratch, "suite.json")
        options = ["-n", "1", "--dir", f"{scratch}/store", "--json", str(answer), "-k", " or ".join(experiments)]
        command = [*CHAOSKIT, "run", *options, "--", *torchrun, "--out", "{out}"]
        begun = time.monotonic()
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                process.wait()
            except BaseException:
                process.terminate()  # it clears away what it has started
                raise
        print(f"{path.stem}: {time.monotonic() - begun:.0f} s, exit code {process.returncode}", file=sys.stderr)
        shutil.copy(answer, path)
    return path


def compared(old: Path, new: Path) -> dict[str, Any]:
    """What `chaoskit compare` says, with its exit code."""
    command = [*CHAOSKIT, "compare", str(old), str(new), "--json", "-"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["exit_code"] == done.returncode
    return found


def silent(found: dict[str, Any]) -> bool:
    """Whether nothing at all was reported, of verdicts, references and settings."""
    said = found["verdicts"] or found["gone"] or found["added"] or found["settings"] or found["gaps"]
    return found["answer"] == "same" and not said and all(each["equal"] for each in found["references"])


def exact(found: dict[str, Any], codes: set[str], also: set[str]) -> bool:
    """Whether the one experiment that catches the mutant, and nothing else, became worse, with the right codes."""
    changed = {each["name"].rpartition("::")[2]: each for each in found["verdicts"]}
    if set(changed) != {EXPERIMENTS[1]} or found["exit_code"] != 1 or found["gone"] or found["gaps"]:
        return False
    seen = set(changed[EXPERIMENTS[1]]["new"]["codes"])
    settings = {each["source"] for each in found["settings"]}
    return codes <= seen <= codes | also and settings <= {"job"} and all(r["equal"] for r in found["references"])


def times(answers: list[dict[str, Any]]) -> Counter[str]:
    """How often the test of times said what."""
    return Counter(each["judged"] for found in answers for each in found["times"] if each["what"] != "step")


def main() -> int:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--suites", type=int, default=21, help="of the good trainer")
    arguments.add_argument("--mutants", metavar="SLUGS", default=",".join(MUTANTS), help="divided by commas")
    arguments.add_argument(
        "--experiments", metavar="NAMES", default=",".join(EXPERIMENTS[:2]), help="of the good suites"
    )
    arguments.add_argument("--keep", type=Path, metavar="DIR", help="keep the suites there")
    told = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is cleared away
    with tempfile.TemporaryDirectory(prefix="compare-") as scratch:
        place = told.keep or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        those = tuple(told.experiments.split(","))
        good = [suite(GOOD, place / f"good-{number:02d}.json", those) for number in range(told.suites)]
        answers = [compared(old, new) for old, new in pairwise(good)]
        chosen = {one.slug: one for one in mutants() if one.slug in told.mutants.split(",")}
        whole = suite(GOOD, place / "good.json", EXPERIMENTS) if chosen else None
        broken = {
            slug: compared(whole, suite(one.module, place / f"{slug}.json", EXPERIMENTS))
            for slug, one in chosen.items()
            if whole is not None
        }
    right = {slug: exact(one, set(chosen[slug].codes), set(chosen[slug].also)) for slug, one in broken.items()}
    alarms = [one["sentence"] for one in answers if not silent(one)]
    said = times(answers)
    show(
        f"chaoskit compare: {told.suites} suites of the same code, {len(chosen)} broken trainers",
        [
            Figure("comparisons of the same code", len(answers), "", ""),
            Figure("of these, something reported", len(alarms), "", "<= 0"),
            Figure("of these, called slower or faster", said["slower"] + said["faster"], "", "<= 0"),
            Figure("tests of times that could be made", said.total() - said["too few"], "", ""),
            Figure("mutants of which exactly that was reported", sum(right.values()), "", f">= {len(chosen)}"),
        ],
        json_file=told.json,
    )
    for line in [*alarms, *(f"{slug}: {broken[slug]['sentence']}" for slug, well in right.items() if not well)]:
        print(line)
    return 1 if alarms or said["slower"] + said["faster"] or not all(right.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
