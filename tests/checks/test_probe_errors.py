"""What the probe failed to read: no verdict rests on it, and whoever looks at the run is told."""

import io

import pytest
from rich.console import Console

from chaoskit import checks
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case
from chaoskit.engine.result import Result, of_verdicts
from chaoskit.report.story import story
from chaoskit.report.terminal.table import show
from chaoskit.verdict import Outcome
from tests.history_writer import Writer


def told(where, *, off=None, control=False, times=3):
    """A run that resumes with these components off; the probe failed at `where`, in the run or in a control."""
    good = Writer().control()
    run = Writer().launch().live(until=25).fault().died().launch().live(base=20, off=off, ends=True).exit(0).end()
    broken = good if control else run
    source = next(event.source for event in broken.events if event.kind == "step")
    for _ in range(times):
        broken.say("probe.error", source, where=where, error="AttributeError: 'Image' object has no attribute 'x'")
    clean = Writer().control().history()
    return Case(run.history(), Reference.of([clean, good.history() if control else clean]))


def judged(case, *which):
    return {one.check: one for one in checks.judge(case, [check() for check in which])}


@pytest.mark.parametrize("control", [False, True])
@pytest.mark.parametrize(
    ("where", "check"),
    [
        ("forward", checks.same_data), ("batch", checks.state_restored), ("backward", checks.matches_reference),
        ("rng", checks.state_restored), ("content", checks.resumed_from_last_valid), ("step", checks.same_data),
        ("heard of by nobody", checks.state_restored), ("replicas", checks.replicas_agree),
    ],
)  # fmt: skip
def test_a_pass_does_not_rest_on_what_could_not_be_read(where, check, control):
    verdict = judged(told(where, control=control), check)[check().name]
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("probe-blind",))
    assert "'Image' object" in verdict.sentence


@pytest.mark.parametrize(
    ("where", "check"),
    [
        ("loading", checks.same_data), ("replicas", checks.same_data), ("tensors", checks.state_restored),
        ("settings", checks.matches_reference), ("forward", checks.completed), ("save", checks.same_data),
        ("corrupt", checks.matches_reference),
    ],
)  # fmt: skip
def test_a_pass_stands_on_what_was_read(where, check):
    assert judged(told(where), check)[check().name].outcome is Outcome.PASS


def test_a_fail_stands_as_long_as_one_of_its_codes_does():
    both = {"optimizer": 0, "batch": 0}
    for where, off, outcome in (
        ("forward", {"batch": 0}, Outcome.INCONCLUSIVE),
        ("loading", {"batch": 0}, Outcome.INCONCLUSIVE),
        ("forward", both, Outcome.FAIL),
        ("optimizer", both, Outcome.FAIL),
        ("optimizer", {"optimizer": 0}, Outcome.INCONCLUSIVE),
        ("rng", {"optimizer": 0}, Outcome.FAIL),
    ):
        case = told(where, off=off)
        assert judged(case, checks.state_restored)["state_restored"].outcome is outcome, (where, off)


def test_it_is_in_the_story_in_the_terminal_and_in_the_json():
    case = told("forward", times=720)
    expected = "rank 0, forward: AttributeError: 'Image' object has no attribute 'x' (720 times)"
    assert [str(error) for error in case.probe_errors] == [expected]
    assert any(expected in entry.text for entry in story(case))
    errors = tuple(str(error) for error in case.probe_errors)
    result = Result("test_x", "pass", probe_errors=errors)
    console = Console(file=io.StringIO(), width=200, color_system=None)
    show([result], console)
    assert expected in console.file.getvalue()
    assert result.to_json()["probe_errors"] == [expected]
    assert Result.from_json(result.to_json()) == result
    older = {name: value for name, value in result.to_json().items() if name != "probe_errors"}
    assert Result.from_json(older).probe_errors == ()
    assert of_verdicts("x", checks.judge(case, [checks.same_data()])).verdict == "inconclusive"


def test_errors_that_touch_nothing_are_not_shown():
    assert told("settings").probe_errors == ()
    assert [one.control for one in told("rng", control=True).probe_errors] == [2]
