"""Kills of the harness at random moments of a run in two pods: what is left in the cluster after `chaoskit clean`.

Nothing may be: no pod, service or config map of chaoskit, no container of its pods, no process, mount or directory.
Each harness is killed by SIGKILL, before its first object, after its end, or anywhere between. The cluster is the API
server of the tests, and its kubelet runs pods as Docker containers. Foreign objects must survive every sweep: with a
name like ours, with half of our labels, or with all of them and another living owner.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

import remains  # noqa: E402
from kept_counts import MURDERED, Count, add_keep, kept, totals  # noqa: E402
from kubernetes import client  # noqa: E402
from pod_cluster import NAMESPACE, PodCluster, cluster_in  # noqa: E402
from table import Figure, parser, show  # noqa: E402

from chaoskit.engine.run_store import Store  # noqa: E402
from chaoskit.environments.environment import RunSpec  # noqa: E402
from chaoskit.environments.kubernetes import run_owner  # noqa: E402
from chaoskit.environments.kubernetes.cluster import connection_to  # noqa: E402
from chaoskit.environments.kubernetes.environment import KubernetesEnvironment  # noqa: E402
from chaoskit.environments.kubernetes.selectors import OWNER, RUN  # noqa: E402
from chaoskit.environments.machine import processes  # noqa: E402
from chaoskit.job import Job  # noqa: E402
from chaoskit.nodes import ClusterPlace, Nodes  # noqa: E402
from tests.docker_images import images  # noqa: E402

CHAOSKIT = [sys.executable, "-m", "chaoskit"]
#: Stands in for a job: what is tested is what a harness leaves, and a trainer would make most moments the same.
JOB = ["python3", "-c", "import time; time.sleep(1000)"]
#: What is left has so many seconds to go by itself, and moments to kill go so far beyond an undisturbed run.
GRACE, BEYOND = 15.0, 1.1


def harness(root: Path, image: str, place: ClusterPlace) -> None:
    """One run, as whoever is killed makes it: two launches, and a node that is lost and comes back."""
    store = Store(root)
    job = Job.from_command([*JOB, "{out}"], image=image, cluster=place, nnodes=2)
    run_dir = store.new_run(job=job.to_json(), environment="kubernetes")
    spec = RunSpec(
        run_dir,
        run_dir / "out",
        REPOSITORY,
        run_dir.name,
        gated=True,
        nodes=Nodes(2, 2),
        image=image,
        program="python3",
        store=root,
        cluster=place,
    )
    with KubernetesEnvironment(spec) as environment:
        for index in range(2):
            environment.launch(index, JOB)
            time.sleep(0.7)  # moments with both pods, which are to be met, too
            environment.lose_node("node1")
    store.finish(run_dir, "finished")


@dataclass(frozen=True)
class Harnesses:
    """Harnesses that run jobs of an image in a cluster, and store them in `root` on its volume."""

    cluster: PodCluster
    root: Path
    image: str

    def start(self) -> subprocess.Popen[bytes]:
        """A harness."""
        told = [str(self.root), self.image, json.dumps(self.cluster.place.to_json())]
        with (self.root.parent / "harness.log").open("ab") as log:
            return subprocess.Popen([sys.executable, __file__, "--harness", *told], stdout=log, stderr=log)

    def objects(self) -> set[str]:
        """Every object of the namespace that a harness could have made."""
        lists = {
            "pod": self.cluster.core.list_namespaced_pod,
            "service": self.cluster.core.list_namespaced_service,
            "config map": self.cluster.core.list_namespaced_config_map,
        }
        found = {f"{kind} {each.metadata.name}" for kind, one in lists.items() for each in one(NAMESPACE).items}
        return found - {"config map kube-root-ca.crt"}

    def left(self, killed: processes.Process, foreign: set[str]) -> dict[str, list[str]]:
        """What there is of a harness, by kind."""
        own = sorted(self.objects() - foreign)
        containers = self.cluster.kubelet.running()
        return {
            "objects in the cluster": own,
            "containers of pods": containers,
            **remains.left(self.root, killed),
        }

    def stays(self, killed: processes.Process, foreign: set[str]) -> dict[str, list[str]]:
        """What of that is still there after a while."""
        found = self.left(killed, foreign)
        deadline = time.monotonic() + GRACE
        while any(found.values()) and time.monotonic() < deadline:
            time.sleep(0.5)
            now = self.left(killed, foreign)
            found = {kind: [each for each in those if each in now[kind]] for kind, those in found.items()}
        return found


def made_by_others(core: client.CoreV1Api, place: ClusterPlace) -> set[str]:
    """Config maps that no sweep may touch; as `Cluster.objects` has them."""
    living = run_owner.manifest("another-run", connection_to(place))
    labels: list[dict[str, str]] = [{}, {RUN: "r1"}, {OWNER: "u1"}]
    bodies: list[dict[str, Any]] = [
        {"metadata": {"name": f"chaoskit-foreign-{number}", "labels": each}} for number, each in enumerate(labels)
    ]
    for body in (*bodies, living):
        core.create_namespaced_config_map(NAMESPACE, body)
    return {f"config map {body['metadata']['name']}" for body in (*bodies, living)}


def killed(harnesses: Harnesses, foreign: set[str], after: float, pause: float) -> tuple[dict[str, list[str]], str]:
    """One harness, killed after so many seconds and swept after a pause: what stays, and what it had at its end."""
    running = harnesses.start()
    identity = processes.identify(running.pid)
    assert identity is not None
    time.sleep(after)
    ended = running.poll() is not None
    had = harnesses.objects() - foreign
    pods = sum(one.startswith("pod ") for one in had)
    running.kill()
    running.wait()
    time.sleep(pause)
    words = [*CHAOSKIT, "clean", "--dir", str(harnesses.root)]
    subprocess.run(words, capture_output=True, text=True, check=True)
    phase = f"with {pods} pods" if had else "with nothing in the cluster"
    phase = "after its end" if ended else phase
    return harnesses.stays(identity, foreign), phase


def kills(harnesses: Harnesses, foreign: set[str], count: int, draw: random.Random, kept_count: Count) -> list[Figure]:
    """So many rounds, and their figures."""
    begun = time.monotonic()
    if harnesses.start().wait() != 0:
        raise SystemExit((harnesses.root.parent / "harness.log").read_text()[-2000:])
    lasts = time.monotonic() - begun
    total, phases, lost = Counter[str](), Counter[str](), 0
    for number in range(count):
        after = draw.uniform(0.0, BEYOND * lasts)
        found, phase = killed(harnesses, foreign, after, draw.uniform(0.0, 1.0))
        phases[phase] += 1
        kept_count.times += phase != "after its end"
        kept_count.wrong += any(found.values())
        total.update({what: len(those) for what, those in found.items()})
        lost += not foreign <= harnesses.objects()
        some = {what: those for what, those in found.items() if those}
        said = f"kill {number + 1} of {count} after {after:.1f} of {lasts:.1f} s, {phase}: left {json.dumps(some)}"
        print(said, file=sys.stderr, flush=True)
    figures = [Figure(f"killed {phase}", times, f"of {count}") for phase, times in sorted(phases.items())]
    figures += [Figure(f"left behind: {what}", those, "", "<= 0") for what, those in total.items()]
    return [*figures, Figure("sweeps that a foreign object did not survive", lost, "", "<= 0")]


def main() -> None:
    arguments = parser(__doc__ or "")
    add_keep(arguments)
    arguments.add_argument("--kills", type=int, default=50)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--image", help="of Python and torch (default: that of the tests)")
    arguments.add_argument("--harness", nargs=3, metavar=("DIR", "IMAGE", "PLACE"), help=argparse.SUPPRESS)
    told = arguments.parse_args()
    if told.harness:
        root, image, place = told.harness
        harness(Path(root), image, ClusterPlace.from_json(json.loads(place)))
        return
    with (
        tempfile.TemporaryDirectory(prefix="killed-") as directory,
        cluster_in(Path(directory)) as cluster,
    ):
        foreign = made_by_others(cluster.core, cluster.place)
        harnesses = Harnesses(cluster, cluster.store, told.image or images.image("light"))
        count = Count(MURDERED, "kubernetes")
        with kept(told.keep, count):
            figures = kills(harnesses, foreign, told.kills, random.Random(told.seed), count)
    title = f"The harness of runs in two pods, killed {told.kills} times"
    show(title, figures + totals(told.keep), json_file=told.json)
    sys.exit(any(figure.met is False for figure in figures))


if __name__ == "__main__":
    main()
