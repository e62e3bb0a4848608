"""A suite by hand: 34 experiments of a script with five bugs, and the problems and weaknesses that they come to."""

from dataclasses import replace

from chaoskit.engine.result import Result
from chaoskit.studies.nights.suite import Suite
from chaoskit.studies.problems.problem import Problem, Proof
from tests.studies.nights.made import suite as finished

_REPLAYED = (
    "resumed from step 30, the job trained on the batch of step 1 again: sample 0 was consumed twice by rank 1"
)
_RANDOM = "the random stream of torch was not restored: at step 31 it is that of step 0, expected that of step 30"
_TORN = "the newest checkpoint, step-40.pt, was cut short: EOFError: Ran out of input\nTraceback\n boom"
#: The experiments, by what they show.
REPLAYED = tuple(f"test_kill[rank-{n // 4}-at-{10 + n}]" for n in range(22))
RANDOM, TORN = (
    ("test_preempted", "test_reordered_ranks"),
    ("test_truncated", "test_torn_write", "test_between_writes"),
)
NAN, FULL = ("test_nan[gradient-nan]",), ("test_disk_full",)


def _experiment(name, *codes, sentences=(), verdict="fail"):
    run = f"/home/ada/.chaoskit/runs/{name.replace('[', '-').strip(']')}"
    figures = {"steps_lost": 6, "recovery_seconds": 2.1, "launch_seconds": 0.8, "seconds": 7.3}
    known = {**figures, "runs": (run,), "run": run} if verdict != "skipped" else {}
    return Result(name, verdict, codes=codes, sentences=sentences, nodeid=f"a.py::{name}", **known)


def suite() -> Suite:
    """34 experiments: 29 failed, 3 passed, 1 is accepted, 1 was skipped."""
    return finished(
        _experiment("test_resume", "data-replayed", sentences=(_REPLAYED,)),
        *(
            _experiment(name, "data-replayed", "rng-not-restored", sentences=(_REPLAYED, _RANDOM))
            for name in REPLAYED
        ),
        *(_experiment(name, "rng-not-restored", sentences=(_RANDOM,)) for name in RANDOM),
        *(_experiment(name, "torn-checkpoint", "data-replayed", sentences=(_TORN,)) for name in TORN[:2]),
        _experiment(
            "test_nan[gradient-nan]", "nonfinite-accepted", sentences=("the job trained on NaN at step 12",)
        ),
        _experiment("test_disk_full", "crash-loop", sentences=("the job did not recover",)),
        replace(
            _experiment("test_dropout", verdict="accepted", sentences=(_RANDOM,)),
            accepted=("rng-not-restored",),
            reasons={"rng-not-restored": "dropout masks may differ after a resume"},
        ),
        *(_experiment(f"test_passed_{n}", verdict="pass") for n in range(3)),
        _experiment("test_fabric", verdict="skipped", sentences=("it needs CanFly",)),
        command=("chaoskit", "run", "--", "torchrun", "--nproc-per-node", "2", "train.py", "--out", "{out}"),
    )


PROBLEMS = (
    Problem(
        "data-replayed",
        "The position in the data is not restored: resumed from step 30, the job reads epoch 0 again.",
        "save the position in the epoch and continue from it: use a stateful loader, or call the sampler's set_epoch "
        "and skip the micro-batches that the job trained on.",
        ("test_resume", *REPLAYED),
        consequences=("loss-diverged",),
        run="/home/ada/.chaoskit/runs/test_resume",
        repeat="chaoskit run -k test_resume -- torchrun --nproc-per-node 2 train.py --out {out}",
        proof=Proof("proven", "Proven: with the position put back, 22 of 23 experiments pass.", ("data",)),
    ),
    Problem(
        "rng-not-restored",
        "The random stream of torch is not restored: after a resume, dropout draws other masks.",
        "each rank saves the streams that it draws from and restores them last.",
        (*RANDOM, *REPLAYED, "test_dropout"),
        repeat="chaoskit run -k test_preempted -- torchrun --nproc-per-node 2 train.py --out {out}",
        proof=Proof(
            "more-lost", "with the stream put back, the optimizer differs.", ("rng.torch",), ("optimizer-not-restored",)
        ),
    ),
    Problem(
        "torn-checkpoint",
        "A checkpoint that was cut short is taken for a whole one.",
        "write under another name, fsync, then rename.",
        TORN[:2],
        repeat="chaoskit run -k test_truncated -- torchrun --nproc-per-node 2 train.py --out {out}",
        proof=Proof("impossible", "what a file lacks cannot be put back."),
    ),
    Problem(
        "nonfinite-accepted", "no guard against NaN", "stop when a loss is not finite.", NAN, weakness=True,
        repeat="chaoskit run -k test_nan",
    ),
    Problem("crash-loop", "one failed write ends the run", "retry the write.", FULL, weakness=True),
)  # fmt: skip
