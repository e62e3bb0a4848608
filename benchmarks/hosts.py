"""What virtual hosts cost: the first optimizer step of a warm job of 2 ranks without any, on one of them, and on two of
them with an agent each, in turn; and how long the hosts themselves take to come and go.

The agent that is first at a rendezvous looks once a second whether the others have come. In a warm launch it does not
wait out that second, where the number of nodes is fixed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from table import Figure, parser, show

from chaoskit import Job
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.environments import environment
from chaoskit.environments.environment import RunSpec
from chaoskit.environments.launch.mode import Mode
from chaoskit.protocol.events import rank_events

REPOSITORY = Path(__file__).resolve().parents[1]
ONE = Job("tinymodels.train", ["--out", "{out}"], module=True, cwd=str(REPOSITORY))
TWO = replace(ONE, nproc_per_node=1, nnodes=2)
LOCAL, ONE_HOST, TWO_HOSTS = "no host", "one host", "two hosts"
KINDS = {LOCAL: ("local", ONE), ONE_HOST: ("netns", ONE), TWO_HOSTS: ("netns", TWO)}
UP, FIRST, WHOLE, DOWN = "environment up", "launch until the first step", "both", "environment gone"


def first_step(kind: str, modes: Mapping[str, Any], scratch: Path) -> dict[str, float]:
    """Seconds until the environment was up, from then until the first step of a rank, and until all was gone again."""
    name, job = KINDS[kind]
    place = _place(scratch, Mode.from_json(modes[kind]), job)
    begun = time.monotonic()
    with environment(name)(place) as env:
        up = time.monotonic()
        how = env.launch(0, job.words(out=place.out))
        assert how == "warm", how
        while (stepped := next((event.t for event in rank_events(place.run_dir, "step")), None)) is None:
            time.sleep(0.02)
        env.stop()
        ended = time.monotonic()
    gone = time.monotonic()
    return {UP: up - begun, FIRST: stepped - up, WHOLE: stepped - begun, DOWN: gone - ended}


def _place(scratch: Path, mode: Mode, job: Job) -> RunSpec:
    run_id = uuid.uuid4().hex[:12]
    run_dir = scratch / run_id
    for name in ("events", "out"):
        (run_dir / name).mkdir(parents=True)
    return RunSpec(run_dir, run_dir / "out", REPOSITORY, run_id, mode=mode, nodes=job.nodes)


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--rounds", type=int, default=10)
    told = arguments.parse_args()
    measured: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as place:
        modes = {
            kind: Runner(Store(place), environment=name, launch="warm").reference(job).mode
            for kind, (name, job) in KINDS.items()
        }
        for number in range(told.rounds + 1):
            print(f"round {number} of {told.rounds}", file=sys.stderr)
            for kind in KINDS:
                found = first_step(kind, modes, Path(place))
                if number:  # the first gets all parents going
                    measured[kind].append(found)
    figures = []
    for span in (UP, FIRST, WHOLE, DOWN):
        medians = {kind: statistics.median(row[span] for row in rows) for kind, rows in measured.items()}
        figures += [Figure(f"{span}: {kind}", seconds, "s") for kind, seconds in medians.items()]
        if span in (FIRST, WHOLE):
            for kind in (ONE_HOST, TWO_HOSTS):
                target = "<= 1.5" if (kind, span) == (TWO_HOSTS, FIRST) else ""
                figures.append(Figure(f"{span}: {kind} / {LOCAL}", medians[kind] / medians[LOCAL], "x", target))
    show(f"Virtual hosts (2 ranks, medians of {told.rounds}, alternating)", figures, json_file=told.json)


if __name__ == "__main__":
    main()
