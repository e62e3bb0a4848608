"""Kills around saves that no barrier guards: a correct trainer must never be accused.

Rank 0 of the trainer saves right after its own step and waits for nobody. Each run draws by a seed which rank is late,
where in the step and for how long, and kills a rank at three saves, some microseconds after a rank came to that step.
All runs share one reference: it does not depend on who is late.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from table import Figure, parser, show

from chaoskit import Job, checks, faults
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Run, Runner
from chaoskit.verdict import Outcome

TRAINER = Path(__file__).resolve().parents[1] / "tests" / "trainers" / "skewed.py"
PLACES = [f"{side}{what}" for what in ("backward", "reduce", "step", "save") for side in "-+"]
SAVES = (4, 8, 12)
#: The longest that a rank is late, and the longest from a step to the kill, in seconds: after the last step less time
#: is left.
LATE, SPAN, LAST_SPAN = 0.1, 0.3, 0.1
CHECKS = (
    checks.completed(),
    checks.resumed_from_last_valid(),
    checks.state_restored(),
    checks.same_data(),
    checks.samples_exactly_once(),
    checks.checkpoints_faithful(),
    checks.no_checkpoint_lost(),
    checks.matches_reference(),
    checks.stays_finite(),
)


def skews(draw: random.Random) -> list[str]:
    """One to three ranks that are late, and where, as the trainer reads it."""
    chosen = draw.sample([(rank, place) for rank in (0, 1) for place in PLACES], draw.randint(1, 3))
    return [f"{rank} {place} {draw.uniform(0, LATE):.6f}" for rank, place in chosen]


def tell(directory: Path, late: list[str]) -> None:
    """Make the ranks late. It is told by the names of empty files: a file that a rank reads belongs to the reference,
    which would be made anew."""
    for path in directory.iterdir():
        path.unlink()
    for name in late:
        (directory / name).touch()


def plan(draw: random.Random, kills: int) -> list[faults.Fault]:
    """That many kills, each after a moment at which a rank comes to the step of a save."""
    planned = []
    for step in SAVES[-kills:]:
        planned.append(faults.noop().at_step(step))
        span = LAST_SPAN if step == SAVES[-1] else SPAN
        planned.append(faults.kill(rank=draw.choice((1, 1, 1, 0))).after(round(draw.uniform(0, span), 6)))
    return planned


def struck(run: Run) -> int:
    """How many of the kills hit a rank: the job may have ended before the last."""
    return sum(one.observed is not None for one in run.history.faults if one.name.startswith("kill"))


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--kills", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--store", type=Path, help="keep the runs there (default: a temporary directory)")
    told = arguments.parse_args()
    draw = random.Random(told.seed)
    kills = alarms = undecided = runs = 0
    with tempfile.TemporaryDirectory() as place:
        directory = Path(told.store or place, "skews")
        directory.mkdir(parents=True, exist_ok=True)
        tell(directory, [])
        runner = Runner(Store(told.store or Path(place, "runs")), launch="auto", relaunches=6)
        job = Job(str(TRAINER), ["--out", "{out}", "--skews", str(directory)])
        runner.reference(job)  # while nobody is late
        while kills < told.kills:
            late = skews(draw)
            tell(directory, late)
            run = runner.run(job, *plan(draw, min(len(SAVES), told.kills - kills)))
            verdicts = run.judge(*CHECKS)
            runs += 1
            hit = struck(run)
            kills += hit
            codes = [f"{one.check}: {', '.join(one.codes)}" for one in verdicts if one.codes]
            missed = hit < sum(one.name.startswith("kill") for one in run.history.faults)
            alarms += run.outcome is Outcome.FAIL
            undecided += run.outcome is Outcome.INCONCLUSIVE and not missed
            print(f"run {runs}, {kills} kills: {run.outcome} {codes} {run.id} {late}", file=sys.stderr)
    figures = [
        Figure("kills", kills, ""),
        Figure("runs", runs, ""),
        Figure("false alarms", alarms, "runs", "<= 0"),
        Figure("inconclusive, though every kill was seen", undecided, "runs", "<= 0"),
    ]
    show(f"A correct trainer, killed around {kills} saves without a barrier", figures, json_file=told.json)


if __name__ == "__main__":
    main()
