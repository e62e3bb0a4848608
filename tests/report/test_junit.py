"""What JUnit is told of an experiment: what there is, and nothing more."""

from pathlib import Path

from chaoskit.report.machine import junit
from tests.studies.nights.made import HOSTILE, result


def test_everything_that_there_is():
    one = result(
        verdict="fail", codes=("a", "b"), sentences=("One", "Two."), run="/here/.chaoskit/runs/1",
        resumed_from=0, steps_lost=0, recovery_seconds=1.23456,
    )  # fmt: skip
    assert junit.properties(one, base=Path("/here")) == [
        ("chaoskit.verdict", "fail"),
        ("chaoskit.codes", "a b"),
        ("chaoskit.sentence", "One. Two."),
        ("chaoskit.run", ".chaoskit/runs/1"),
        ("chaoskit.resumed_from", "0"),
        ("chaoskit.steps_lost", "0"),
        ("chaoskit.recovery_seconds", "1.235"),
    ]


def test_nothing_that_there_is_not():
    assert junit.properties(result(), base=Path("/here")) == [("chaoskit.verdict", "pass")]


def test_a_run_elsewhere_is_told_in_full():
    assert ("chaoskit.run", "/there/runs/1") in junit.properties(result(run="/there/runs/1"), base=Path("/here"))


def test_a_hostile_sentence_is_told_as_it_is():
    # pytest escapes it for XML.
    told = dict(junit.properties(result(verdict="fail", sentences=(HOSTILE,)), base=Path()))
    assert told["chaoskit.sentence"] == HOSTILE
