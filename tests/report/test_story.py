"""The story of a run: in order, complete, and without a traceback whatever the record lacks."""

import pytest

from chaoskit import checks
from chaoskit.checks import Case, judge
from chaoskit.report.story import story
from tests.checks.corrupted_runs import rolled_back, unnoticed
from tests.history_writer import Writer, killed

CLAIMS = (checks.completed(), checks.resumed_from_last_valid(), checks.state_restored())


def told(case):
    return [moment.text for moment in story(case, judge(case, CLAIMS))]


def test_a_resume_that_lost_something():
    case = killed(off={(1, "rng.torch"): 0}).case()
    lines = told(case)
    text = "\n".join(lines)
    order = [
        "launch",
        "checkpoint at step 20",
        "fault: kill rank 1, observed to take effect",
        "the launch ended with code 1",
        "relaunch 1",
        "incarnation 1: 2 of 2 ranks start",
        "incarnation 1 resumes from step 20; expected: step 20 (the job had reached step 25)",
        "  rank 1: model, buffers, optimizer, LR, scaler, EMA, RNG python, data from step 20; RNG torch",
        "the job finished",
        "first divergence: incarnation 1, step 21, rank 0: loss (loss ",
        "fail state_restored (rng-not-restored): rank 1: RNG not restored",
    ]
    places = [text.index(line) for line in order]
    assert places == sorted(places)
    assert all(str(moment) for moment in story(case))


def test_how_long_it_took():
    lines = told(killed().case())
    at = next(at for at, line in enumerate(lines) if line.startswith("incarnation 1 resumes from"))
    said = "a rank noticed after 1.0 s, all ranks had stopped after 1.0 s, recovered in 1.1 s"
    assert [line for line in lines[at:] if line.startswith("  '")] == [f"  'kill rank 1': {said}"]


def test_a_wrong_number_that_nobody_noticed():
    lines = told(unnoticed(ranks=(1,)).case())
    at = next(at for at, line in enumerate(lines) if line.startswith("corruption: "))
    assert lines[at : at + 6] == [
        "corruption: the gradient of head.weight[3, 7] of rank 1 was corrupted in step 25 (1.5 became 1e+20)",
        "  the run diverged from the reference in step 26, in model, optimizer, EMA, loss of rank 1",
        "  the first wrong loss is that of rank 1 in step 26: 7 instead of 0.0357143, a relative difference of 2e+02",
        "  not detected in 35 more steps; by then model, optimizer, EMA, loss of rank 1 differed from the reference",
        "  step 26: model, optimizer, EMA, loss of rank 1",
        "  step 27: model, optimizer, EMA, loss of rank 1",
    ]
    assert "  ... up to step 60" in lines


def test_a_rollback_in_the_processes():
    lines = told(rolled_back().case())
    assert "incarnation 1: 2 of 2 ranks reload a checkpoint without a restart" in lines
    noticed = (
        "  detected: the job rolled back without a restart before the next step; by then loss of rank 1 differed from "
        "the reference"
    )
    assert noticed in lines


def test_a_log_that_is_not_whole():
    run = Writer().launch().live(ends=True).exit(0)
    run.say("log.cut", file="logs/launch-0.log", left_out=12_345_678, limit=32 << 20)
    assert "12,345,678 bytes of logs/launch-0.log are left out, because chaoskit keeps 32 MiB of a log" in told(
        run.end().case()
    )


def test_a_run_without_a_fault():
    lines = told(Writer().launch().live(ends=True).exit(0).end().case())
    assert any(line.startswith("no divergence: 120 executed steps are equal") for line in lines)


@pytest.mark.parametrize(
    "case",
    [
        lambda: Case(Writer().history()),
        lambda: Case(killed().history()),
        lambda: Writer().launch().live(until=25).fault(seen=False).died().launch().died().end("gave-up").case(),
        lambda: Writer().launch().live(until=30, torn=True).fault().case(),
        lambda: killed(off={"model": "odd", "batch": None, "ema": 0}).case(),
        lambda: (
            Writer().launch().live(until=25).fault().died().launch().live(base=20, only=[0]).exit(0).end().case()
        ),
    ],
)
def test_no_record_is_too_thin(case):
    assert told(case())
