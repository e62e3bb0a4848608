"""Kills of the harness at random moments of a run in two containers: what is left after `chaoskit clean`.

Nothing may be: no container, network, volume, image, network namespace, process, mount or directory. Each harness is
killed by SIGKILL, before its first container, after its end, or anywhere between. In every other round `{out}` is a
storage of chaoskit's and root cuts the network; in the others a helper container cuts it, and a node is replaced.
Two foreign containers and a network must survive: they have a name like ours, or our labels and another living owner.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import daemon_remains
import remains
from daemon_remains import Daemon, Nameless, docker
from kept_counts import MURDERED, Count, add_keep, kept, totals
from table import Figure, parser, show

from chaoskit.engine.run_store import Store
from chaoskit.environments.docker import objects
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.environment import RunSpec
from chaoskit.environments.machine import processes
from chaoskit.environments.machine.processes import Process
from chaoskit.nodes import Nodes

REPOSITORY = Path(__file__).resolve().parents[1]
CHAOSKIT = [sys.executable, "-m", "chaoskit"]
#: Stands in for a job: what is tested is what a harness leaves, and a trainer would make most moments the same.
JOB = ["python3", "-c", "import time; time.sleep(1000)"]
KINDS = ("storage and cut", "helper container and replaced node")
#: What is left has so many seconds to go by itself, and moments to kill go so far beyond an undisturbed run.
GRACE, BEYOND = 15.0, 1.1


def harness(root: Path, image: str, helper_image: str, kind: str) -> None:
    """One run, as whoever is killed makes it: two launches, a cut of the network between the nodes in each."""
    store = Store(root)
    run_dir = store.new_run(job={}, environment="docker")
    with_storage = kind == KINDS[0]
    spec = RunSpec(
        run_dir,
        run_dir / "out",
        REPOSITORY,
        run_dir.name,
        gated=True,
        nodes=Nodes(2, 2),
        storage="watched" if with_storage else "",
        image=image,
        helper_image="" if with_storage else helper_image,
        program="python3",
        store=root,
    )
    with DockerEnvironment(spec) as environment:
        for index in range(2):
            environment.launch(index, JOB)
            cut = environment.cut([("node1", "node0")])
            environment.wait(0.5)
            if not with_storage:
                environment.lose_node("node1")
            environment.mend(cut)
            environment.stop()
            if not with_storage:
                environment.bring_up("node1")
    store.finish(run_dir, "finished")


@dataclass(frozen=True)
class Place:
    """Where the harnesses run, and what they are told."""

    root: Path
    image: str
    helper_image: str
    daemon: Daemon

    def start(self, kind: str) -> subprocess.Popen[bytes]:
        """A harness of this kind."""
        words = [sys.executable, __file__, "--harness", str(self.root), self.image, self.helper_image, kind]
        with (self.root.parent / "harness.log").open("ab") as log:
            # Whatever it starts here has the directory of the runs in its environment, and can be told by it.
            env = {**os.environ, "RUNS": str(self.root)}
            return subprocess.Popen(words, stdout=log, stderr=log, env=env)

    def left(self, killed: Process, before: Nameless) -> dict[str, list[str]]:
        """What there is of a harness, by kind."""
        told = daemon_remains.left(self.root, killed, before=before, daemon=self.daemon)
        return {**told, **remains.left(self.root, killed)}

    def stays(self, killed: Process, before: Nameless) -> dict[str, list[str]]:
        """What of that is still there after a while."""
        found = self.left(killed, before)
        deadline = time.monotonic() + GRACE
        while any(found.values()) and time.monotonic() < deadline:
            time.sleep(0.5)
            now = self.left(killed, before)
            found = {kind: [each for each in those if each in now[kind]] for kind, those in found.items()}
        return found


def killed(place: Place, kind: str, after: float, pause: float) -> tuple[dict[str, list[str]], str]:
    """One harness, killed after so many seconds and swept after a pause: what stays, and what it had at its end."""
    before = Nameless.now(place.daemon)
    running = place.start(kind)
    identity = processes.identify(running.pid)
    assert identity is not None
    time.sleep(after)
    ended = running.poll() is not None
    running.kill()
    running.wait()
    time.sleep(pause)
    swept = subprocess.run([*CHAOSKIT, "clean", "--dir", str(place.root)], capture_output=True, text=True, check=True)
    return place.stays(identity, before), "after its end" if ended else _phase(swept.stdout)


def _phase(said: str) -> str:
    """What a harness had when it was killed, by what the sweep has removed."""
    roles = [line.split("-")[-2] for line in said.splitlines() if line.startswith("removed container")]
    if "network" in roles:
        return "with a helper container"
    if "node1" in roles:
        return "with two containers"
    if roles:
        return "with one container"
    return "with a network" if "removed network" in said else "with nothing in the daemon"


@contextmanager
def foreigners(image: str) -> Iterator[list[str]]:
    """Two containers and a network that no sweep may touch; their ids."""
    living = objects.labels("another-run")
    flags = [word for name, value in living.items() for word in ("--label", f"{name}={value}")]
    sleep = ["--entrypoint", "sleep", image, "infinity"]
    with ExitStack() as undo:
        made = []
        for name, labels in ((f"chaoskit-{os.getpid()}-node0-1", []), (f"another-{os.getpid()}", flags)):
            made.append(docker("run", "--detach", "--name", name, *labels, *sleep))
            undo.callback(docker, "rm", "--force", "--volumes", made[-1])
        made.append(docker("network", "create", *flags, f"chaoskit-{os.getpid()}-network-1"))
        undo.callback(docker, "network", "rm", made[-1])
        yield made


def alive(foreign: list[str]) -> bool:
    """Whether all of them are there, and the containers run."""
    running = docker("ps", "--quiet", "--no-trunc").split()
    return set(foreign) <= {*running, *docker("network", "ls", "--quiet", "--no-trunc").split()}


@contextmanager
def with_volume(image: str) -> Iterator[str]:
    """An image like the given one of which each container has a volume of its own."""
    name = f"{image.split(':')[0]}:killed-{os.getpid()}"
    lines = f"FROM {image}\nVOLUME /scratch\n"
    docker("build", "--quiet", "--label", f"{daemon_remains.TEST_IMAGE}=killed", "--tag", name, "-", given=lines)
    try:
        yield name
    finally:
        docker("rmi", name)


def test_image(kind: str) -> str:
    """The name of an image that the tests use."""
    words = [sys.executable, "-m", "tests.docker_images", kind]
    return subprocess.check_output(words, cwd=REPOSITORY, text=True).strip()


def undisturbed(place: Place) -> dict[str, float]:
    """Seconds that a harness of each kind takes."""
    found = {}
    for kind in KINDS:
        begun = time.monotonic()
        if place.start(kind).wait() != 0:
            raise SystemExit((place.root.parent / "harness.log").read_text()[-2000:])
        found[kind] = time.monotonic() - begun
    return found


def kills(place: Place, foreign: list[str], count: int, draw: random.Random, kept_count: Count) -> list[Figure]:
    """So many rounds, and their figures."""
    lasts = undisturbed(place)
    total, phases, lost = Counter[str](), Counter[str](), 0
    for number in range(count):
        kind = KINDS[number % 2]
        after = draw.uniform(0.0, BEYOND * lasts[kind])
        found, phase = killed(place, kind, after, draw.uniform(0.0, 1.0))
        phases[phase] += 1
        kept_count.times += phase != "after its end"
        kept_count.wrong += any(found.values())
        total.update({what: len(those) for what, those in found.items()})
        lost += not alive(foreign)
        some = {what: those for what, those in found.items() if those}
        print(
            f"kill {number + 1} of {count}, {kind}, after {after:.1f} of {lasts[kind]:.1f} s, {phase}: "
            f"left {json.dumps(some)}",
            file=sys.stderr,
            flush=True,
        )
    figures = [Figure(f"killed {phase}", times, f"of {count}") for phase, times in sorted(phases.items())]
    figures += [Figure(f"left behind: {what}", those, "", "<= 0") for what, those in total.items()]
    return [*figures, Figure("sweeps that a foreign object did not survive", lost, "", "<= 0")]


def main() -> None:
    arguments = parser(__doc__ or "")
    add_keep(arguments)
    arguments.add_argument("--kills", type=int, default=50)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--image", help="of Python and torch (default: that of the tests)")
    arguments.add_argument("--helper-image", help="of Python and nft (default: that of the tests)")
    arguments.add_argument("--harness", nargs=4, metavar=("DIR", "IMAGE", "HELPER", "KIND"), help=argparse.SUPPRESS)
    told = arguments.parse_args()
    if told.harness:
        harness(Path(told.harness[0]), *told.harness[1:])
        return
    helper_image = told.helper_image or test_image("network")
    with (
        tempfile.TemporaryDirectory(prefix="killed-") as directory,
        with_volume(told.image or test_image("light")) as image,
        foreigners(image) as foreign,
    ):
        place = Place(Path(directory, "runs"), image, helper_image, Daemon.of(foreign[0]))
        count = Count(MURDERED, "docker")
        with kept(told.keep, count):
            figures = kills(place, foreign, told.kills, random.Random(told.seed), count)
    title = f"The harness of runs in two containers, killed {told.kills} times"
    show(title, figures + totals(told.keep), json_file=told.json)
    sys.exit(any(figure.met is False for figure in figures))


if __name__ == "__main__":
    main()
