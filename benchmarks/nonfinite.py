"""Numbers that are none, in every place of the bundled trainer, on either rank, however it is parallel and precise.

Each is one run: noticed within a step, in no checkpoint, recovered from as the job promises, and never passed where the
trainer's guards are switched off. `--quick` takes one rank and one value.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chaoskit import Job, checks, faults, targets
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.protocol.targets import InjectionTarget
from chaoskit.verdict import Outcome

REPOSITORY = Path(__file__).resolve().parents[1]
STEP = 22  # two past a save
PARALLEL = {"ddp": [], "fsdp": ["--parallel", "fsdp"]}
PRECISION = {"fp32": [], "bf16": ["--bf16"], "amp": ["--amp"]}
GUARDED = ["--check-finite", "1"]
UNGUARDED = ["--on-nonfinite", "off", "--allow-nonfinite-saves"]


@dataclass(frozen=True)
class Trial:
    """One value in one place, on one rank of one job."""

    parallel: str
    precision: str
    place: InjectionTarget
    value: str
    rank: int
    guarded: bool

    def __str__(self) -> str:
        guards = "" if self.guarded else ", no guards"
        return f"{self.parallel} {self.precision}{guards}: {self.value} in {self.place} of rank {self.rank}"

    def job(self) -> Job:
        """The trainer, as this trial has it."""
        flags = [*PARALLEL[self.parallel], *PRECISION[self.precision], *(GUARDED if self.guarded else UNGUARDED)]
        # Three epochs have saves enough; one is quicker.
        args = ["--out", "{out}", "--samples", "400", *flags]
        return Job("tinymodels.train", args, module=True, nproc_per_node=2, cwd=str(REPOSITORY))


def where(parallel: str, precision: str) -> list[InjectionTarget]:
    """Every place that can hold such a number: the batch are whole numbers, and only AMP has a scale."""
    ops = ["all_reduce"] if parallel == "ddp" else ["all_reduce", "all_gather", "reduce_scatter"]
    scaler = [targets.scaler()] if precision == "amp" else []
    return [
        targets.activation("*"),
        targets.loss(),
        targets.gradient(),
        targets.gradient(reduced=True),
        targets.parameter(),
        targets.optimizer(),
        targets.learning_rate(),
        *scaler,
        *(targets.collective(op) for op in ops),
    ]


def trials(quick: bool) -> Iterator[Trial]:
    """All of them, with the guards on and, on one rank and with one value, off."""
    for parallel in PARALLEL:
        for precision in PRECISION:
            for place in where(parallel, precision):
                for value in ("nan",) if quick else ("nan", "inf"):
                    for rank in (1,) if quick else (0, 1):
                        yield Trial(parallel, precision, place, value, rank, True)
                yield Trial(parallel, precision, place, "nan", 1, False)


def judge(runner: Runner, trial: Trial) -> tuple[str, str]:
    """What became of it: as it should, or what went wrong."""
    fault = getattr(faults, trial.value)(rank=trial.rank, into=trial.place)
    run = runner.run(trial.job(), fault.at_step(STEP))
    verdicts = run.judge(
        checks.completed(),
        checks.detected_within(steps=1),
        checks.no_poisoned_checkpoint(),
        checks.rolled_back_cleanly(),
        checks.stays_finite(),
        checks.no_orphans(),
    )
    codes = sorted({code for verdict in verdicts for code in verdict.codes})
    outcome = "passed" if all(verdict.outcome is Outcome.PASS for verdict in verdicts) else " ".join(codes)
    told = next((verdict.sentence for verdict in verdicts if verdict.check == "rolled_back_cleanly"), "")
    return outcome, told


def main() -> None:
    """Run them all, and count."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="one rank, one value")
    options.add_argument("--only", default="", help="only trials whose names hold this")
    options.add_argument("--json", type=Path, help="keep the outcomes here")
    args = options.parse_args()
    found: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        runner = Runner(Store(Path(place)), experiment="numbers")
        for trial in trials(args.quick):
            if args.only not in str(trial):
                continue
            outcome, told = judge(runner, trial)
            found[str(trial)] = [outcome, told]
            # A gradient scaler cannot be switched off: it leaves such an update out by itself.
            scaled = trial.precision == "amp" and "update-skipped" in told
            right = outcome == "passed" if trial.guarded or scaled else outcome != "passed"
            counts["right" if right else "wrong"] += 1
            print(f"{'   ' if right else '!! '}{trial}: {outcome}", flush=True)
            if args.json:
                args.json.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{counts['right']} of {counts.total()} as they should be, in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
