"""What a forecast costs: 100,000 GPUs for 90 days, 1,000 simulated jobs, each in a process of its own.

The growth is the processor time of a trial with twice as many trials, beside that with as many: 1.0 is linear. The
last rows are published figures that the simulation has to give back, by all defaults of a forecast but the interval.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
from table import Figure, parser, show

from chaoskit.studies.forecast.inputs import ForecastRequest, inputs
from chaoskit.studies.forecast.intervals import daly, young
from chaoskit.studies.forecast.plan import Checkpointing, Cluster, Plan, RecoveryCosts
from chaoskit.studies.forecast.presets import LLAMA_DAYS, LLAMA_GPUS, LLAMA_INTERRUPTIONS, preset
from chaoskit.studies.forecast.simulation import simulate

GPUS, DAYS, TRIALS, MTBF = 100_000, 90.0, 1000, 50_000.0
SAVE_SECONDS = 10.0


def plan(gpus: int, days: float, mtbf_gpu_hours: float) -> Plan:
    """A job that saves at the interval of Daly's formula, with a spare for each 20 nodes."""
    classes = preset("llama3", gpus=gpus).scaled(mtbf_gpu_hours).classes
    recovery = RecoveryCosts(
        60, 600, 300, 60, silent_hours=4, failed_share=3 / LLAMA_INTERRUPTIONS, failed_seconds=3600
    )
    interval = daly(SAVE_SECONDS, mtbf_gpu_hours / gpus * 3600)
    cluster = Cluster(gpus, spares=-(-gpus // 160), spare_seconds=120)
    return Plan(days, cluster, Checkpointing(interval, SAVE_SECONDS), recovery, classes)


def llama() -> Plan:
    """Llama 3's 54 days on the clock, by the defaults of a forecast and the interval of Daly's formula."""
    found = inputs(ForecastRequest(LLAMA_GPUS, LLAMA_DAYS)).plan
    best = daly(found.checkpointing.blocking_seconds, found.mtbf_seconds)
    found = replace(found, checkpointing=replace(found.checkpointing, interval_seconds=best))
    return replace(found, days=LLAMA_DAYS * found.share)


def measure(gpus: int, days: float, trials: int) -> dict[str, float]:
    """One simulation in this process."""
    since, began = time.process_time(), time.monotonic()
    outcome = simulate(plan(gpus, days, MTBF), trials=trials)
    return {
        "cpu": time.process_time() - since, "wall": time.monotonic() - began,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "interruptions": float(outcome.interruptions.mean()), "goodput": float(outcome.goodput.mean()),
    }  # fmt: skip


def measured(gpus: int, days: float, trials: int) -> dict[str, float]:
    """The same in a process of its own, the best of two."""
    words = [sys.executable, __file__, "--one", str(gpus), str(days), str(trials)]
    runs = [json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout) for _ in range(2)]
    return min(runs, key=lambda each: float(each["cpu"]))


def figures(gpus: int, days: float, trials: int) -> list[Figure]:
    """Every figure with its target."""
    once, twice = (measured(gpus, days, trials * times) for times in (1, 2))
    size = f"{gpus:,} GPUs, {days:g} days, {trials:,} trials"
    outcome = simulate(llama(), trials=300)
    low, high = np.percentile(outcome.interruptions, [5, 95])
    alone = simulate(plan(8000, 1, -24 / math.log1p(-0.001) * 8), trials=2000).interruptions == 0
    return [
        Figure(f"{size}: processor time", once["cpu"], "s", "<= 10"),
        Figure(f"{size}: on the clock", once["wall"], "s"),
        Figure(f"{size}: peak of the process", once["peak"] / 2**30, "GiB", "<= 1"),
        Figure(f"{size}: interruptions of a trial", once["interruptions"], ""),
        Figure(f"{size}: time that trains", once["goodput"], ""),
        Figure("growth for each trial, twice as many trials", twice["cpu"] / once["cpu"] / 2, "", "<= 1.2"),
        Figure("Llama 3, 54 days: interruptions (419)", float(outcome.interruptions.mean()), ""),
        Figure("Llama 3: 5th percentile of interruptions", float(low), "", f"<= {LLAMA_INTERRUPTIONS}"),
        Figure("Llama 3: 95th percentile of interruptions", float(high), "", f">= {LLAMA_INTERRUPTIONS}"),
        Figure("Llama 3: effective training time", float(outcome.goodput.mean()), "", ">= 0.9"),
        Figure("Young: save of 5 min, failure every 12 h", young(300, 12 * 3600) / 3600, "h", ">= 1.41"),
        Figure("1,000 nodes of 0.1 % a day: a day without a failure (0.37)", float(alone.mean()), ""),
    ]


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--gpus", type=int, default=GPUS)
    made.add_argument("--days", type=float, default=DAYS)
    made.add_argument("--trials", type=int, default=TRIALS)
    made.add_argument("--one", nargs=3, metavar=("GPUS", "DAYS", "TRIALS"), help="measure once, in this process")
    args = made.parse_args()
    if args.one:
        gpus, days, trials = args.one
        print(json.dumps(measure(int(gpus), float(days), int(trials))))
        return
    found = figures(args.gpus, args.days, args.trials)
    show("forecast", found, json_file=args.json)


if __name__ == "__main__":
    main()
