"""What an environment costs: the same job of 2 ranks on this machine, on a virtual host, in a container and in a pod of
a cluster of the tests, in turn.

How long until the environment is there, from the first launch to the first optimizer step, and from the SIGKILL of a
rank to the first step after it, all by the record of the runs, as in launch.py; and how long a few experiments of the
battery take, as a user types them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from launch import AGAIN, FIRST, SPANS, UP, experiment, medians
from pod_cluster import PodCluster, cluster_in
from table import Figure, parser, show

from chaoskit import Job
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.environments import environment

REPOSITORY = Path(__file__).resolve().parents[1]
NAMES = ("local", "netns", "docker", "kubernetes")
TRAINER = "--nproc-per-node 2 -m tinymodels.train --out {out}"
EXPERIMENTS = "one_rank_mid_epoch or right_after_save or test_twice"
BATTERY = "3 experiments of the battery, the reference cached"
TARGETS = {("docker", AGAIN): "<= 1.5"}


@dataclass(frozen=True)
class Kind:
    """The job in one environment, as the command line and as a `Job`."""

    name: str
    image: str
    root: Path
    cluster: PodCluster | None = None

    @property
    def command(self) -> list[str]:
        """An image has a Python of its own."""
        start = ["torchrun"] if self.image else [sys.executable, "-m", "torch.distributed.run"]
        return [*start, *TRAINER.split()]

    @property
    def mounts(self) -> list[str]:
        """Where a container finds the trainer. A pod finds it on the volume."""
        return [f"{REPOSITORY}:/repository:ro"] if self.name == "docker" else []

    @property
    def variables(self) -> dict[str, str]:
        """What a pod needs for that."""
        return {"PYTHONPATH": str(self.cluster.store / "code")} if self.cluster is not None else {}

    def job(self) -> Job:
        """The job."""
        place = self.cluster.place if self.cluster is not None else None
        return Job.from_command(
            self.command, image=self.image, mounts=self.mounts, cluster=place, env=self.variables, cwd=str(REPOSITORY)
        )

    def battery(self) -> float:
        """Seconds that the experiments take, from the command to its end. All must pass."""
        options = ["--env", self.name, "--launch", "warm", "--dir", str(self.root), "-k", EXPERIMENTS]
        project = REPOSITORY
        if self.image:
            options += ["--image", self.image, *(word for mount in self.mounts for word in ("--mount", mount))]
        if self.cluster is not None:
            project = self.cluster.volume
            settings = [f'{key} = "{value}"' for key, value in self.cluster.settings.items()]
            variables = [f'{key} = "{value}"' for key, value in self.variables.items()]
            (project / "chaoskit.toml").write_text("\n".join([*settings, "[variables]", *variables]))
        begun = time.monotonic()
        words = [sys.executable, "-m", "chaoskit", "run", *options, "--", *self.command]
        done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
        return time.monotonic() - begun


def measure(kinds: list[Kind], rounds: int) -> dict[str, list[dict[str, float]]]:
    """So many rounds, each environment once in each."""
    runners = [(kind, Runner(Store(kind.root), environment=kind.name, launch="warm")) for kind in kinds]
    measured: dict[str, list[dict[str, float]]] = {kind.name: [] for kind in kinds}
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
        for kind, runner in runners:
            found = {**experiment(runner, kind.job()), BATTERY: kind.battery()}
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
        if {"netns", "kubernetes"} <= typical.keys():
            ratio = typical["kubernetes"][span] / typical["netns"][span]
            found.append(Figure(f"{span}: kubernetes / netns", ratio, "x"))
    for part in (*SPANS[FIRST], *SPANS[AGAIN]):
        found += [Figure(f"{part}: {name}", seconds[part], "s") for name, seconds in typical.items()]
    return found


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--image", help="of Python and torch (default: that of the tests)")
    told = arguments.parse_args()
    names = [name for name in NAMES if environment(name).available() is None]
    image = told.image or ""
    if not image and "docker" in names:
        words = [sys.executable, "-m", "tests.docker_images"]
        image = subprocess.check_output(words, cwd=REPOSITORY, text=True).strip()
    # The cluster runs its pods as containers here.
    names = [name for name in names if name != "kubernetes" or "docker" in names]
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kinds = [Kind(name, image if name == "docker" else "", place) for name in names if name != "kubernetes"]
        if "kubernetes" in names:
            cluster = stack.enter_context(cluster_in(place))
            cluster.lay("tinymodels")
            kinds.append(Kind("kubernetes", image, cluster.store, cluster))
        measured = measure(kinds, told.rounds)
    title = f"The same job in each environment (2 ranks, medians of {told.rounds}, alternating)"
    show(title, figures(measured), json_file=told.json)


if __name__ == "__main__":
    main()
