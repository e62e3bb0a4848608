"""The whole battery on two nodes, the bundled trainer once on virtual hosts and once in pods of a cluster of the tests:
the verdict of each experiment here and there, and how long both took.

Where both judged, they must agree. What pods skip, and why, is listed below the figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gallery_sittings import SURROUNDINGS, configuration
from pod_cluster import REPOSITORY, cluster_in
from table import Figure, parser, show

from tests.docker_images import images

TRAINER = ("--nproc-per-node", "1", "-m", "tinymodels.train", "--out", "{out}", "--timeout", "6")
HOSTS, PODS = "netns", "kubernetes"


def battery(env: str, project: Path, store: Path, selection: Sequence[str]) -> tuple[dict[str, dict[str, Any]], float]:
    """The results by experiment, and the seconds from the command to its end."""
    answer = project / f"{env}.json"
    torchrun = "torchrun" if env == PODS else str(Path(sys.executable).parent / "torchrun")
    words = [
        *(sys.executable, "-m", "chaoskit", "run", "--env", env, "--nodes", "2", "-n", "1", "--no-proof"),
        *("--dir", str(store), "--json", str(answer), *selection, "--", torchrun, *TRAINER),
    ]
    begun = time.monotonic()
    where = project if env == PODS else REPOSITORY
    done = subprocess.run(
        words, cwd=where, env={**os.environ, **SURROUNDINGS}, capture_output=True, text=True, check=False
    )
    if not answer.exists():
        raise SystemExit(done.stdout + done.stderr)
    found = json.loads(answer.read_text())["experiments"]
    return {each["name"]: each for each in found}, time.monotonic() - begun


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("-k", dest="selection", metavar="EXPR", help="these experiments alone")
    told = arguments.parse_args()
    selection = ["-k", told.selection] if told.selection else []
    with tempfile.TemporaryDirectory(prefix="pods-") as directory:
        project = Path(directory)
        with cluster_in(project) as cluster:
            code = cluster.lay("tinymodels")
            (project / "chaoskit.toml").write_text(configuration(images.image(), cluster.settings, code=str(code)))
            pods, pod_seconds = battery(PODS, project, cluster.store, selection)
        hosts, host_seconds = battery(HOSTS, project, project / "store", selection)
    verdicts = {name: (hosts[name]["verdict"], pods[name]["verdict"]) for name in hosts}
    both = {name: one for name, one in verdicts.items() if "skipped" not in one}
    differ = {name: one for name, one in both.items() if one[0] != one[1]}
    skipped = [name for name, one in verdicts.items() if one[1] == "skipped" != one[0]]
    figures = [
        Figure("experiments that both judged", len(both), f"of {len(verdicts)}"),
        Figure("of these, other verdicts in pods", len(differ), "", "<= 0"),
        Figure("skipped in pods alone", len(skipped), ""),
        Figure("the battery on virtual hosts", host_seconds, "s"),
        Figure("the battery in pods", pod_seconds, "s"),
        Figure("in pods / on virtual hosts", pod_seconds / host_seconds, "x"),
    ]
    for name, one in verdicts.items():
        note = f"  {pods[name]['sentences'][:1]}" if name in (*differ, *skipped) else ""
        print(f"{name}: {one[0]} on virtual hosts, {one[1]} in pods{note}", file=sys.stderr)
    show("The battery on two nodes, on virtual hosts and in pods", figures, json_file=told.json)
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
