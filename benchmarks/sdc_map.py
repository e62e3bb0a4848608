"""How many corruptions `chaoskit sdc-map` tries out in five minutes, on the bundled trainer with two ranks; and whether
those that shared a launch come to the same, to the bit, as faults of ordinary runs do.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from random import Random

from table import Figure, parser, show

from chaoskit import Job, faults
from chaoskit.cli.sdc_map import TOLERANCE, WINDOW
from chaoskit.engine.progress import PhaseLines
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.faults import Fault
from chaoskit.report.machine.json_report import write_text
from chaoskit.report.svg import sdc_picture
from chaoskit.report.terminal import sdc_report
from chaoskit.report.terminal.table import console_for
from chaoskit.studies.sdc import SdcMap, make_map
from chaoskit.studies.sdc.changes import VALUES
from chaoskit.studies.sdc.plan import TrialResult
from chaoskit.studies.sdc.trace import CLASSES, Seen, Trace, judge

REPOSITORY = Path(__file__).resolve().parents[1]


def job(words: list[str]) -> Job:
    """The bundled trainer, as its users would start it."""
    return Job("tinymodels.train", ["--out", "{out}", *words], module=True, nproc_per_node=2, cwd=str(REPOSITORY))


def as_fault(one: TrialResult) -> Fault:
    """The same corruption, in the words of a user."""
    injection = one.injection
    more = {"rank": injection.rank, "into": injection.cell.place, "seed": injection.seed}
    match VALUES[injection.cell.change]["kind"]:
        case "nan":
            fault = faults.nan(**more)
        case "zero":
            fault = faults.zero(**more)
        case _:
            fault = faults.scale(100.0, **more)
    return fault.at_step(injection.window.struck)


def same(runner: Runner, made: Job, one: TrialResult) -> bool:
    """Whether an ordinary run with that fault comes to the same."""
    run, window, trace = runner.run(made, as_fault(one)), one.injection.window, Trace()
    for rank, life in run.history.incarnations[0].ranks.items():
        for step in life.steps:
            if step.n in window.steps:
                trace.add(rank, step.n, Seen(step.losses, step.components, nonfinite=step.nonfinite))
    return judge(trace, window, runner.reference(made), tolerance=TOLERANCE).signature == one.outcome.signature


def compared(runner: Runner, made: Job, found: SdcMap, count: int) -> tuple[int, int]:
    """Of so many that shared a launch, and did not end the job, how many come to the same in ordinary runs."""
    fit = [
        one
        for one in found.results
        if not one.alone and not one.outcome.over and one.injection.cell.change in VALUES
    ]
    chosen = Random(1).sample(fit, min(count, len(fit)))
    return sum(same(runner, made, one) for one in chosen), len(chosen)


def main() -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--seconds", type=float, default=300.0)
    arguments.add_argument("--most", type=int, help="end before that, after so many corruptions")
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--compare", type=int, default=6, help="so many are repeated as ordinary runs")
    arguments.add_argument("--picture", metavar="FILE")
    arguments.add_argument("words", nargs="*", help="further arguments of the trainer, after --")
    told = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place:
        runner, made = Runner(Store(place), progress=PhaseLines(sys.stderr)), job(told.words)
        found = make_map(
            runner,
            made,
            seconds=told.seconds,
            most=told.most,
            window=WINDOW,
            tolerance=TOLERANCE,
            seed=told.seed,
            workers=told.workers,
        )
        sdc_report.show(found, console_for(sys.stdout))
        if told.picture:
            write_text(sdc_picture.svg(found), told.picture)
        alike, of = compared(runner, made, found, told.compare)
    figures = [
        Figure("corruptions tried out", len(found.results), "", ">= 300" if told.seconds == 300 else ""),
        Figure("of these in a state that was put back", found.shared, ""),
        Figure("a minute", 60 * len(found.results) / found.seconds, ""),
        Figure("launches", found.launches, ""),
        Figure("controls, all exact", found.controls, ""),
        Figure("repeated in launches of their own, all the same", found.repeated, ""),
        Figure("compared with ordinary runs", of, ""),
        Figure("of these not the same", of - alike, "", "<= 0"),
        *(Figure(text, found.count(name).hits, "") for name, text in CLASSES.items()),
    ]
    show(f"sdc-map ({told.workers} launches at a time)", figures, json_file=told.json)


if __name__ == "__main__":
    main()
