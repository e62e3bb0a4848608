"""How fast crash states are judged: one save of a 2-rank job with torch.distributed.checkpoint, under DDP and under
FSDP2, recorded once, and the job shown what kills and power cuts could have left of it; and where the time goes.

Visits are not bounded, so that the whole journal of the save is judged.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from table import Figure, parser, show

from chaoskit import Job
from chaoskit.cli.crash_states import PROFILES, visits
from chaoskit.engine.progress import PhaseLines
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.protocol.io_journal import Journal
from chaoskit.studies.crash_states.explore import explore
from chaoskit.studies.crash_states.result import CLASSES, Exploration

REPOSITORY = Path(__file__).resolve().parents[1]


def job(parallel: str) -> Job:
    """The bundled trainer, as its users would start it."""
    arguments = ["--out", "{out}", "--parallel", parallel]
    return Job("tinymodels.train", arguments, module=True, nproc_per_node=2, cwd=str(REPOSITORY))


def figures(parallel: str, found: Exploration) -> list[Figure]:
    """What is told of one save."""
    name = parallel.upper()
    operations = len(Journal.read(found.run.dir).operations)
    told = [
        Figure(f"{name}: operations in the journal", operations, ""),
        Figure(f"{name}: losses that the model offers", found.found.planned, ""),
        Figure(f"{name}: states, distinct by content", found.found.distinct, ""),
        Figure(f"{name}: judged", len(found.judged), ""),
        Figure(f"{name}: shown to the job", found.visited, ""),
        Figure(f"{name}: of these, seemed alike and were shown all the same", found.tried, ""),
        Figure(f"{name}: of those, were not alike", found.unlike, "", "<= 0"),
        *(Figure(f"{name}: {text}", found.count(becomes), "") for becomes, text in CLASSES.items()),
        Figure(f"{name}: judged a minute", found.per_minute, "", ">= 60"),
        Figure(
            f"{name}: shown to the job, a minute",
            60 * found.visited / found.seconds,
            "",
            ">= 60" if parallel == "ddp" else "",
        ),
    ]
    return told + [Figure(f"{name}: a visit: {part}", seconds, "s") for part, seconds in found.time().items()]


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--visits", type=visits, default=None)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--parallel", choices=("ddp", "fsdp"), action="append")
    told = arguments.parse_args()
    every: list[Figure] = []
    with tempfile.TemporaryDirectory() as place:
        for parallel in told.parallel or ("ddp", "fsdp"):
            runner = Runner(Store(place), progress=PhaseLines(sys.stderr, parallel))
            found = explore(runner, job(parallel), profiles=PROFILES, most=told.visits, workers=told.workers)
            every += figures(parallel, found)
            for story in found.stories():
                print(f"{parallel}: {story}", file=sys.stderr)
    show(f"Crash states ({told.workers} at a time)", every, json_file=told.json)


if __name__ == "__main__":
    main()
