"""Two suites for people, for machines and as a page: what differs is said in full, and what does not is not."""

import io
import json
import math
import re
from dataclasses import replace

import pytest
from rich.console import Console

from chaoskit.report.html import compare_page
from chaoskit.report.machine import compare_json
from chaoskit.report.svg.gap_picture import LEFT, MOST, RIGHT, TOP, WIDTH, picture
from chaoskit.report.terminal import compare_report
from chaoskit.studies.nights.comparison import compare_suites
from chaoskit.studies.nights.drift import drift
from tests.two_suites import SETTINGS, baseline, drifted, result, suite

A, B = result("test_a"), result("test_b")
EVIL = '<script>alert("1")</script> [bold]x[/bold]'


def shown(one, *, width=80, times=False):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    compare_report.show(one, console, times=times)
    return console.file.getvalue()


def worse():
    bad = replace(B, verdict="fail", codes=("hang",), sentences=("Rank 1 hung.",))
    settings = {**SETTINGS, "torch": "2.14.1"}
    new = {"ref": drifted(baseline(), since=4, by=lambda step: 4**step, settings=settings)}
    return compare_suites(suite(A, B), suite(A, bad, baselines=new))


def slower(factor=2.0, count=12):
    old = [result(f"test_{i}") for i in range(count)]
    new = [replace(one, launch_seconds=factor + i / 100) for i, one in enumerate(old)]
    return compare_suites(suite(*old), suite(*new))


def test_what_became_worse_is_said_in_full():
    said = shown(worse())
    assert "WORSE test_it.py::test_b: pass → fail (hang)\n  Rank 1 hung." in said
    assert "the references of 2 experiments (test_a, test_b) diverge at step 4, rank 0, in loss" in said
    assert re.search(
        r"first loss that differs: step 4, rank 0: 0\.25 → 0\.2500\d+, 256 ulps of float32, relative [\d.e-]+",
        said,
    )
    assert re.search(r"largest difference: step 12, .*; the difference grows over the following steps", said)
    assert re.search(r"^torch +ranks +2\.13\.0 +2\.14\.1", said, re.M)
    assert said.splitlines()[-1].startswith(
        "WORSE: 2 experiments compared: 1 became worse, 1 pair of references diverges;"
    )


def test_of_equal_suites_nothing_is_said_but_that():
    said = shown(compare_suites(suite(A, B), suite(A, B)))
    assert "are bitwise equal: 12 steps, 2 ranks" in said
    for word in ("WORSE test", "BETTER", "UNKNOWN", "part at", "differs  of", "slower", "only in"):
        assert word not in said
    last = said.splitlines()[-1]
    assert last.startswith(
        "NOTHING IS WORSE: 2 experiments compared: no verdict differs, their references are bitwise equal"
    )
    assert last.endswith("too few experiments to compare times")


def test_what_could_not_be_compared_is_said():
    said = shown(
        compare_suites(suite(A, B), suite(A, baselines={"ref": baseline(deterministic=False)}, status="running"))
    )
    last = said.splitlines()[-1]
    assert last.startswith("INCONCLUSIVE: 1 experiment compared")
    assert "the new suite did not finish (running)" in last and "lacks 1 experiment" in last
    assert (
        "cannot be compared: the new one is not deterministic" in said
        and "only in the old suite: test_it.py::test_b" in said
    )


def test_the_table_of_times_fits_a_terminal_and_shows_its_intervals():
    said = shown(slower())
    assert all(len(line) <= 80 for line in said.splitlines() if line.startswith(("time of", "launch", "step")))
    assert re.search(
        r"^launch +12 +1\.00 s +2\.05 s +2\.0\d \(2\.0\d-2\.0\d\) +2\.0\d \(2\.0\d-2\.0\d\) +slower", said, re.M
    )
    assert "launch is slower by more than 10%, both measured and pace-adjusted (p 0.00049)" in said
    assert said.splitlines()[-1].endswith("launch is slower (a failure only with --times)")
    assert shown(slower(), times=True).splitlines()[-1].startswith("WORSE")


def test_times_that_differ_by_noise_alone_are_not_called_slower():
    said = shown(slower(1.0))
    assert said.count("  noise") == 2 and "slower" not in said and "by no more than noise" in said


def test_few_experiments_are_said_to_be_few():
    said = shown(slower(count=3))
    assert "too few" in said and "the test needs 9 experiments with the same verdict in both" in said
    assert "launch 75 %" in said
    assert re.search(r"^launch +1 .* 2\.00 +2\.00 +too few", shown(slower(count=1)), re.M)


def test_a_change_for_the_better():
    said = shown(compare_suites(suite(replace(A, verdict="fail", codes=("hang",))), suite(A)))
    assert "BETTER test_it.py::test_a: fail (hang) → pass" in said
    assert said.splitlines()[-1].startswith("BETTER: 1 experiment compared: 1 became better")


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (baseline(steps=15), "equal up to the end of the shorter one (old 12 steps, new 15)"),
        (baseline(models={(0, 4): "f" * 32}), "fingerprints: model 00000000… → ffffffff…"),
        (baseline(models={(0, 4): "f" * 32}), "the losses are bitwise equal in all steps that both have"),
        (baseline(losses={(0, 4): "nan"}), "0.25 → nan, one of them not finite"),
        (baseline(losses={(0, 4): "0x1.0p-2 0x1.0p-2"}), "diverge at step 4, rank 0, in loss"),
        (baseline(settings={**SETTINGS, "device": "A"}), "only losses are compared"),
    ],
)
def test_every_kind_of_parting_has_its_words(new, said):
    assert said in shown(compare_suites(suite(A), suite(A, baselines={"ref": new})))


def test_what_was_not_held_to_a_reference():
    free = replace(A, references=())
    assert "no experiment has a reference" in shown(compare_suites(suite(free), suite(free)))
    assert "no stored reference for test_a" in shown(compare_suites(suite(A), suite(A, baselines={})))


def test_what_fails_in_both_is_said_to():
    bad = replace(A, verdict="fail", codes=("hang",))
    said = compare_report.answer(compare_suites(suite(bad, B), suite(bad, B)))
    assert "no verdict differs" in said and "1 fail in both" in said and "inconclusive" not in said
    odd = replace(A, verdict="inconclusive")
    assert "no verdict became worse" in compare_report.answer(compare_suites(suite(A, B), suite(odd, B)))


def test_json_holds_all_of_it_and_is_json():
    told = json.loads(json.dumps(compare_json.document(worse()), allow_nan=False))
    assert (told["schema"], told["answer"], told["exit_code"]) == (1, "worse", 1)
    assert [(each["name"], each["direction"]) for each in told["verdicts"]] == [("test_it.py::test_b", "worse")]
    (reference,) = told["references"]
    assert (
        reference["first"]["ulps"] == 256
        and reference["first"]["old"] == (0.25).hex()
        and reference["course"] == "grows"
    )
    assert told["settings"] == [{"source": "ranks", "name": "torch", "old": "2.13.0", "new": "2.14.1"}]
    assert [each["judged"] for each in told["times"]] == ["too few", "too few", "pace"]


def test_json_of_a_loss_that_is_no_number():
    one = compare_suites(suite(A), suite(A, baselines={"ref": baseline(losses={(0, 4): "nan"})}))
    (reference,) = json.loads(json.dumps(compare_json.document(one), allow_nan=False))["references"]
    assert (
        reference["first"]["new"] == "nan" and reference["first"]["relative"] is reference["first"]["ulps"] is None
    )


def test_json_of_equal_suites():
    told = compare_json.document(compare_suites(suite(A), suite(A)))
    assert (told["answer"], told["exit_code"], told["verdicts"], told["gaps"]) == ("same", 0, [], [])


def test_the_page_says_the_same():
    html = compare_page.render(worse())
    assert 'class="verdict fail"' in html and "1 became worse" in html and "Rank 1 hung." in html
    assert html.count('<svg class="gaps"') == 1 and html.count('class="parting"') == 1 and 'data-step="4"' in html
    assert 'id="settings"' in html and "2.14.1" in html and 'id="times"' in html


def test_the_page_of_equal_suites_shows_no_difference():
    html = compare_page.render(compare_suites(suite(A), suite(A)))
    assert (
        'class="verdict pass"' in html and "have the same verdicts and codes" in html and "bitwise equal" in html
    )
    for mark in ('<svg class="gaps"', 'class="reference apart"', 'id="settings"', "verdict fail", "Only in the"):
        assert mark not in html


def test_nothing_that_was_logged_is_taken_for_anything_but_text():
    bad = replace(A, name=EVIL, nodeid=EVIL, verdict="fail", codes=(EVIL,), sentences=(EVIL,), job=EVIL)
    new = suite(bad, machine={"host": EVIL, EVIL: EVIL}, chaoskit=EVIL, id=EVIL)
    one = compare_suites(suite(replace(bad, verdict="pass", codes=(), job="x")), new)
    html = compare_page.render(one)
    assert "<script>alert" not in html and "&lt;script&gt;alert" in html
    assert EVIL in shown(one, width=400)


def test_the_picture_lies_in_its_frame_and_says_what_each_point_is():
    losses = {(0, 7): "nan", (1, 9): (0.5).hex()}
    seen = picture(drift(("a",), baseline(), baseline(losses=losses)))
    assert [point.level for point in seen.points].count("gap") == 1
    assert [point.said for point in seen.points][6:9:2] == ["step 7: not finite", "step 9: 0.8"]
    assert all(LEFT <= p.x <= WIDTH - RIGHT and TOP <= p.y <= seen.bottom for p in seen.points)
    assert seen.parting == seen.points[6].x and seen.thinned == 1 and not seen.lines


def test_larger_gaps_are_higher():
    seen = picture(drift(("a",), baseline(), drifted(baseline(), since=3, by=lambda step: 5**step)))
    heights = [point.y for point in seen.points]
    assert heights[:2] == [seen.bottom] * 2 and heights[2:] == sorted(heights[2:], reverse=True)
    assert len(seen.lines) == 1 and seen.lines[0].count("L") == 9


def test_of_thousands_of_steps_none_of_the_largest_is_lost():
    old = baseline(steps=5000)
    new = baseline(steps=5000, losses={(0, 1234): (0.9).hex(), (1, 4321): "nan"})
    seen = picture(drift(("a",), old, new))
    assert len(seen.points) <= MOST and seen.thinned == 8
    assert [point.level for point in seen.points if point.first <= 1234 <= point.last] == ["gap"]
    assert [point.level for point in seen.points if point.first <= 4321 <= point.last] == ["endless"]
    assert max(point.gap for point in seen.points if point.gap < math.inf) == pytest.approx(
        1 - 1 / 1234 / 0.9, abs=1e-6
    )


def test_where_no_loss_differs_there_is_no_picture():
    assert picture(drift(("a",), baseline(), baseline())) is None
    assert picture(drift(("a",), baseline(), baseline(models={(0, 4): "f" * 32}))) is None
