"""Every benchmark runs at its smallest size, so that a broken one is noticed before somebody needs its figures."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BENCHMARKS = REPOSITORY / "benchmarks"
#: The arguments of the smallest size of each; `{tmp}` is an empty directory.
SMALLEST = {
    "align.py": "--ranks 8 --steps 64",
    "armed.py": "--times 0.1",
    "compare.py": "--suites 2 --mutants ema-reset",
    "crash_states.py": "--visits 4 --parallel ddp",
    "disaster.py": "--repeat 1",
    "five_bugs.py": "-k test_resume --patches 0",
    "frameworks.py": "--only loop_gan --script exact.py --variant plain --columns control --json {tmp}/answers.json",
    "frameworks_overhead.py": "--only loop_gan --rounds 1 --json {tmp}/answers.json --answers {tmp}/kept.json",
    "gallery.py": "--only rng-missing --no-controls --json {tmp}/answers.json",
    "handwritten.py": "-k one_rank_mid_epoch",
    "hosts.py": "--rounds 1",
    "killed.py": "--kills 1",
    "killed_at_saves.py": "--kills 1",
    "launch.py": "--rounds 1",
    "nonfinite.py": "--quick --only 'ddp fp32: nan in loss'",
    "partitions.py": "--runs 1",
    "probe.py": "--rounds 1",
    "putting_back.py": "--only scaler-missing --dir {tmp}/store --json {tmp}/figures.json",
    "report.py": "--steps 100 --runs 3",
    "screenshots.py": "--only good",
    "sdc_map.py": "--seconds 60 --compare 1",
    "soak.py": "--launches 4 --kills 1",
    "storage.py": "--rounds 1 --size 4",
    "suite.py": "-k one_rank_mid_epoch",
    "wire.py": "--rounds 1 --size 20",
}
#: Parts of other benchmarks, and what cannot run here, with the reason.
WITHOUT = {
    "breaks.py": "breaks the tree and runs the tests on it for an hour; `make breaks`",
    "corpus.py": "makes the runs of tests/corpus anew, in the better part of an hour; tests/test_corpus.py reads them",
    "problems.py": "reads what an exam of the gallery leaves; tests/benchmarks/test_problems.py makes some of that",
    "older.py": "installs a gigabyte for each version of a package; `make older`",
}


def test_every_benchmark_has_a_smallest_size():
    """A new benchmark is named here."""
    programs = {path.name for path in BENCHMARKS.glob("*.py") if '__name__ == "__main__"' in path.read_text()}
    assert programs == SMALLEST.keys() | WITHOUT.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_it_runs_at_its_smallest_size(name, tmp_path):
    """It ends with exit code 0; missed targets are no failures at this size."""
    words = shlex.split(SMALLEST[name].format(tmp=tmp_path))
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
