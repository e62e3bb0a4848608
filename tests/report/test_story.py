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
        "the job is launched",
        "a checkpoint at step 20",
        "fault: kill rank 1, seen to take effect",
        "the launch has ended with code 1",
        "relaunch 1",
        "life 1: 2 of 2 ranks come up",
        "life 1 takes its first step, from step 20; due was 20 (step 25 had been reached)",
        "  rank 1: model, buffers, optimizer, LR, scaler, EMA, RNG python, data from step 20; RNG torch",
        "the job came to its end",
        "first divergence: life 1, step 21, rank 0: loss (loss ",
        "fail state_restored (rng-not-restored): rank 1: RNG not restored",
    ]
    places = [text.index(line) for line in order]
    assert places == sorted(places)
    assert all(str(moment) for moment in story(case))


def test_how_long_it_took():
    lines = told(killed().case())
    at = next(at for at, line in enumerate(lines) if line.startswith("life 1 takes its first step"))
    said = "a rank had noticed after 1.0 s, all ranks had stopped after 1.0 s, back after 1.1 s"
    assert [line for line in lines[at:] if line.startswith("  of ")] == [f"  of 'kill rank 1': {said}"]


def test_a_wrong_number_that_nobody_noticed():
    lines = told(unnoticed(ranks=(1,)).case())
    at = next(at for at, line in enumerate(lines) if line.startswith("corruption: "))
    assert lines[at : at + 6] == [
        "corruption: the gradient of head.weight[3, 7] of rank 1 was corrupted in step 25 (1.5 became 1e+20)",
        "  the run left the reference in step 26, in model, optimizer, EMA, loss of rank 1",
        "  the first wrong loss is that of rank 1 in step 26: 7 against 0.0357143, 2e+02 of it off",
        "  nobody noticed in 35 more steps, by when model, optimizer, EMA, loss of rank 1 were off",
        "  step 26: model, optimizer, EMA, loss of rank 1",
        "  step 27: model, optimizer, EMA, loss of rank 1",
    ]
    assert "  and so on, to step 60" in lines


def test_a_rollback_in_the_processes():
    lines = told(rolled_back().case())
    assert "life 1: 2 of 2 ranks go back to a checkpoint, in their processes" in lines
    noticed = (
        "  noticed: the job rolled back in its processes before the next step, by when loss of rank 1 was off"
    )
    assert noticed in lines


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
