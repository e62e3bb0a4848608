"""Every benchmark starts, and runs at its smallest size, so that a broken one is noticed before somebody needs its
figures. Those that take half a minute or more even so do it each night: `make test-exhaustive`."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.environments.docker.storage_mount import why_not as why_no_storage
from tests.docker_images import images
from tests.users import must_have

REPOSITORY = Path(__file__).resolve().parents[2]
BENCHMARKS = REPOSITORY / "benchmarks"
#: The arguments of the smallest size of each; `{tmp}` is an empty directory.
SMALLEST = {
    "align.py": "--ranks 8 --steps 64 --events 5000",
    "armed.py": "--times 0.1",
    "channel.py": "--rounds 1",
    "compare.py": "--suites 2 --experiments test_control --mutants ema-reset",
    "crash_states.py": "--visits 4 --parallel ddp",
    "disaster.py": "--repeat 1 -k deltas",
    "environments.py": "--rounds 1",
    "five_bugs.py": "-k test_resume --patches 0",
    "forecast.py": "--gpus 1024 --days 10 --trials 50",
    "frameworks.py": "--only loop_gan --script exact.py --variant plain --columns control --here --json {tmp}/a.json",
    "frameworks_overhead.py": "--only loop_gan --rounds 1 --here --json {tmp}/answers.json --answers {tmp}/kept.json",
    "gallery.py": "--only rng-missing --no-controls --json {tmp}/answers.json",
    "handlers.py": "--only polling_daemon --name agreed --here --json {tmp}/answers.json",
    "hosts.py": "--rounds 1",
    "killed.py": "--kills 1",
    "killed_at_saves.py": "--kills 1",
    "killed_in_containers.py": "--kills 1",
    "killed_in_pods.py": "--kills 1",
    "launch.py": "--rounds 1",
    "mutations.py": "--mutations 5 --examples 1",
    "nonfinite.py": "--quick --only 'ddp fp32: nan in loss'",
    "notices.py": "--rounds 1 --notices slurm --env local",
    "partitions.py": "--runs 1 --ranks 1",
    "pods.py": "-k worker_node",
    "probe.py": "--rounds 1",
    "putting_back.py": "--only scaler-missing --dir {tmp}/store --json {tmp}/figures.json",
    "report.py": "--steps 100 --runs 3",
    "screenshots.py": "--only good",
    "sdc_map.py": "--seconds 60 --most 12 --compare 1",
    "soak.py": "--launches 4 --kills 1",
    "soak_clean.py": "--rounds 1 --jobs 1 -k one_rank_mid_epoch --keep {tmp}/kept.jsonl",
    "storage.py": "--rounds 1 --size 4",
    "suite.py": "-k one_rank_mid_epoch",
    "window_records.py": "--sizes 600 --experiments 1",
    "windows.py": "--sizes 60 --whole 0 -k one_rank_mid_epoch",
    "windows_examples.py": "loop_gan:exact.py",
    "wire.py": "--rounds 1 --size 20",
}
#: What these do is done by other tests of every change: of commands, virtual hosts, launching, replicas, the gallery,
#: and of harnesses that are killed (in containers: environments/docker/test_objects.py, test_own_daemon.py).
NIGHTLY = frozenset({
    "align.py", "armed.py", "compare.py", "crash_states.py", "disaster.py", "environments.py", "five_bugs.py",
    "frameworks.py", "frameworks_overhead.py", "gallery.py", "handlers.py", "hosts.py", "killed_at_saves.py",
    "killed_in_containers.py", "killed_in_pods.py", "launch.py", "mutations.py", "nonfinite.py", "notices.py",
    "partitions.py", "pods.py", "probe.py", "putting_back.py", "report.py", "screenshots.py", "sdc_map.py",
    "soak_clean.py", "storage.py", "suite.py", "windows.py", "windows_examples.py",
})  # fmt: skip
#: What some of them cannot do without.
NEEDS = {
    "killed_in_containers.py": lambda: images.no_daemon() or why_no_storage(),
    "killed_in_pods.py": images.no_daemon,
    "pods.py": images.no_daemon,
}
#: Parts of other benchmarks, and what cannot run here, with the reason.
WITHOUT = {
    "breaks.py": "breaks the tree and runs the tests on it for an hour; `make breaks`",
    "corpus.py": "makes the runs of tests/corpus anew, in the better part of an hour; tests/test_corpus.py reads them",
    "fuzz_readers.py": "needs atheris; tests/test_mutations.py damages the same files",
    "handwritten.py": "suite.py runs it beside chaoskit, and compares its verdicts",
    "problems.py": "reads what an exam of the gallery leaves; tests/benchmarks/test_problems.py makes some of that",
    "older.py": "installs a gigabyte for each version of a package; `make older`",
}


def started(name, *words):
    """A benchmark with these arguments, to its end."""
    command = [sys.executable, str(BENCHMARKS / name), *words]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600)


def test_every_benchmark_has_a_smallest_size():
    """A new benchmark is named here."""
    programs = {path.name for path in BENCHMARKS.glob("*.py") if '__name__ == "__main__"' in path.read_text()}
    assert programs == SMALLEST.keys() | WITHOUT.keys()


@pytest.mark.parametrize("name", SMALLEST)
def test_it_starts(name):
    """All that it imports is there, and it takes the arguments of its smallest size."""
    done = started(name, "--help")
    assert done.returncode == 0, done.stderr
    options = [word for word in shlex.split(SMALLEST[name]) if word.startswith("-")]
    assert not [option for option in options if not re.search(rf"{option}\b", done.stdout)], done.stdout


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.exhaustive if name in NIGHTLY else pytest.mark.slow)
        for name in SMALLEST
    ],
)
def test_it_runs_at_its_smallest_size(name, tmp_path, request):
    """It ends with exit code 0; missed targets are no failures at this size."""
    must_have(request, NEEDS[name]() if name in NEEDS else None)
    done = started(name, *shlex.split(SMALLEST[name].format(tmp=tmp_path)))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
