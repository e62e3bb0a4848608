"""Results, suites and stored runs made by hand, for tests that read, show or compare them."""

from dataclasses import replace

from chaoskit.engine.result import Result
from chaoskit.engine.run_store import Store
from chaoskit.studies.nights.archive import unkept
from chaoskit.studies.nights.baseline import Baseline
from chaoskit.verdict import failed, passed

#: A name that tries to be a script, a table, a heading and an escape sequence.
HOSTILE = "test_x[<script>alert(1)</script>|a&b\n# _c_ `d` $e$ [f](g) \x1b[31mred \ud800]"
BASELINE = Baseline(
    ("train.py",),
    2,
    True,
    {0: {"loss": ("0x1p+0", "0x1p-1"), "ema": (None, "ab")}},
    ("rng.numpy",),
    {"torch": "2.13"},
)
GOOD = passed("completed", "It ended.")
BAD = failed("state_restored", "The RNG was not restored.", "rng-not-restored")


def result(name="test_x", verdict="pass", **fields):
    """One that passed, or that came to what it says."""
    if verdict == "fail":
        fields = {"codes": ("rng-not-restored",), "sentences": ("The RNG was not restored.",), **fields}
    return Result(name, verdict, **{"nodeid": f"test_a.py::{name}", "seconds": 2.0, **fields})


def suite(*results, **fields):
    """A suite that finished."""
    return replace(unkept(["chaoskit", "run"], results), **{"seconds": 10.0, **fields})


def stored_run(store: Store, *, experiment="test_x", verdicts=(GOOD,)):
    """The directory of a run whose record is empty, judged so."""
    run_dir = store.new_run(job={"command": ["python", "{out}"]}, experiment=experiment, reference="ab")
    store.finish(run_dir, "finished")
    if verdicts:
        store.write_verdicts(run_dir, checks=[], verdicts=verdicts)
    return run_dir
