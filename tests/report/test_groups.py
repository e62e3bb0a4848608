"""Each experiment of a suite stands in one group of its page, and has an address of its own."""

from dataclasses import replace

import pytest

from chaoskit.report.html.groups import anchors, groups
from chaoskit.studies.problems.problem import Problem
from tests.report.five_problems import PROBLEMS, RANDOM, REPLAYED, suite
from tests.studies.nights.made import result


def named(found):
    return {group.anchor: [one.name for one in group.results] for group in found}


def test_every_experiment_stands_once_under_the_first_problem_that_it_shows():
    found = groups(suite().results, PROBLEMS)
    placed = [id(one) for group in found for one in group.results]
    assert len(placed) == len(set(placed)) == len(suite().results) == 34
    names = named(found)
    assert [*names] == [
        "problem-data-replayed", "problem-rng-not-restored", "problem-torn-checkpoint", "problem-nonfinite-accepted",
        "problem-crash-loop", "verdict-accepted", "verdict-pass", "verdict-skipped",
    ]  # fmt: skip
    assert names["problem-data-replayed"] == ["test_resume", *REPLAYED]
    assert names["problem-rng-not-restored"] == list(RANDOM)
    also = next(group.also for group in found if group.anchor == "problem-rng-not-restored")
    assert [one.name for one in also] == [*REPLAYED, "test_dropout"]


def test_problems_are_counted_and_weaknesses_are_not():
    found = groups(suite().results, [*reversed(PROBLEMS)])
    assert [(group.title, group.number) for group in found if group.problem] == [
        ("torn-checkpoint", 1), ("rng-not-restored", 2), ("data-replayed", 3), ("crash-loop", 0),
        ("nonfinite-accepted", 0),
    ]  # fmt: skip


def test_what_shows_no_problem_stands_by_its_verdict():
    some = [result(f"test_{n}", verdict) for n, verdict in enumerate(("pass", "fail", "inconclusive", "skipped"))]
    assert named(groups(some)) == {
        "verdict-fail": ["test_1"], "verdict-inconclusive": ["test_2"], "verdict-pass": ["test_0"],
        "verdict-skipped": ["test_3"],
    }  # fmt: skip
    assert [group.open for group in groups(some)] == [True, True, False, False]
    other = groups(some, [Problem("hang", "It hung.", "", ("test_2",))])
    assert [group.title for group in other][:2] == ["hang", "Failed for another reason"]


def test_a_group_that_is_alone_is_open():
    assert [group.open for group in groups([result()])] == [True]
    assert groups([]) == []


def test_results_of_one_name_are_not_taken_for_each_other():
    twins = [result(nodeid=""), result(nodeid="", verdict="fail"), replace(result(nodeid=""), seconds=9.0)]
    assert sum(len(group.results) for group in groups(twins, [Problem("hang", "", "", ("test_x",))])) == 3


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["a", "a", "a-2"], ["a", "a-2", "a-2-2"]),
        (["test_x[<b>, 1]"], ["test_x-b-1"]),
        (["", "   ", "x" * 500], ["unnamed", "unnamed-2", "x" * 120]),
    ],
)
def test_ids_are_plain_and_each_is_there_once(names, found):
    assert anchors(names) == found
