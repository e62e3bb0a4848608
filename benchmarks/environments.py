"""What an environment costs: the same job of 2 ranks on this machine, on a virtual host and in a container, in turn.

How long until the environment is there, from the first launch to the first optimizer step, and from the SIGKILL of a
rank to the first step after it, all by the record of the runs, as in launch.py; and how long a few experiments of the
battery take, as a user types them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from launch import AGAIN, FIRST, SPANS, UP, experiment, medians
from table import Figure, parser, show

from chaoskit import Job
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.environments import environment

REPOSITORY = Path(__file__).resolve().parents[1]
NAMES = ("local", "netns", "docker")
TRAINER = "--nproc-per-node 2 -m tinymodels.train --out {out}"
EXPERIMENTS = "one_rank_mid_epoch or right_after_save or test_twice"
BATTERY = "3 experiments of the battery, the reference cached"
TARGETS = {("docker", AGAIN): "<= 1.5"}


@dataclass(frozen=True)
class Kind:
    """The job in one environment, as the command line and as a `Job`."""

    name: str
    image: str

    @property
    def command(self) -> list[str]:
        """An image has a Python of its own."""
        start = ["torchrun"] if self.name == "docker" else [sys.executable, "-m", "torch.distributed.run"]
        return [*start, *TRAINER.split()]

    @property
    def mounts(self) -> list[str]:
        """Where a container finds the trainer."""
        return [f"{REPOSITORY}:/repository:ro"] if self.name == "docker" else []

    def job(self) -> Job:
        """The job."""
        image = self.image if self.name == "docker" else ""
        return Job.from_command(self.command, image=image, mounts=self.mounts, cwd=str(REPOSITORY))

    def battery(self, root: Path) -> float:
        """Seconds that the experiments take, from the command to its end. All must pass."""
        options = ["--env", self.name, "--launch", "warm", "--dir", str(root), "-k", EXPERIMENTS]
        if self.name == "docker":
            options += ["--image", self.image, *(word for mount in self.mounts for word in ("--mount", mount))]
        begun = time.monotonic()
        words = [sys.executable, "-m", "chaoskit", "run", *options, "--", *self.command]
        done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
        return time.monotonic() - begun


def measure(kinds: list[Kind], root: Path, rounds: int) -> dict[str, list[dict[str, float]]]:
    """So many rounds, each environment once in each."""
    runners = {kind: Runner(Store(root), environment=kind.name, launch="warm") for kind in kinds}
    measured: dict[str, list[dict[str, float]]] = {kind.name: [] for kind in kinds}
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
        for kind, runner in runners.items():
            found = {**experiment(runner, kind.job()), BATTERY: kind.battery(root)}
            shown = {span: round(found[span], 2) for span in (UP, FIRST, AGAIN, BATTERY)}
            print(f"  {kind.name}: {shown}", file=sys.stderr, flush=True)
            if number:  # the first makes the references, and gets the parents going
                measured[kind.name].append(found)
    return measured


def figures(measured: dict[str, list[dict[str, float]]]) -> list[Figure]:
    """Medians, their ratios to those without an environment, and where the time to the next step goes."""
    typical = {name: medians(rows) for name, rows in measured.items()}
    found = []
    for span in (UP, FIRST, AGAIN, BATTERY):
        found += [Figure(f"{span}: {name}", seconds[span], "s") for name, seconds in typical.items()]
        for name, seconds in typical.items():
            if name != "local" and span != UP:
                ratio = seconds[span] / typical["local"][span]
                found.append(Figure(f"{span}: {name} / local", ratio, "x", TARGETS.get((name, span), "")))
    for part in (*SPANS[FIRST], *SPANS[AGAIN]):
        found += [Figure(f"{part}: {name}", seconds[part], "s") for name, seconds in typical.items()]
    return found


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--image", help="of Python and torch (default: that of the tests)")
    told = arguments.parse_args()
    words = [sys.executable, "-m", "tests.docker_images"]
    names = [name for name in NAMES if environment(name).available() is None]
    image = told.image or ""
    if "docker" in names and not image:
        image = subprocess.check_output(words, cwd=REPOSITORY, text=True).strip()
    with tempfile.TemporaryDirectory() as place:
        measured = measure([Kind(name, image) for name in names], Path(place), told.rounds)
    title = f"The same job in each environment (2 ranks, medians of {told.rounds}, alternating)"
    show(title, figures(measured), json_file=told.json)


if __name__ == "__main__":
    main()
