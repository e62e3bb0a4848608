"""Many nights in a terminal: since when, why, and what was changed; nothing where nothing did."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from chaoskit.report.terminal import history_report
from chaoskit.studies.nights.findings import Findings
from chaoskit.studies.nights.suite_history import SuiteHistory
from tests.studies.nights.made import HOSTILE
from tests.studies.nights.nights import JOB, MACHINE, night, result, timed, verdicts


def shown(suites, *, width=80, encoding="utf-8"):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, color_system=None)
    history_report.show(findings(suites), console)
    file.flush()
    return file.buffer.getvalue().decode(encoding)


def findings(suites):
    return Findings.of(SuiteHistory.of(suites))


def test_where_nothing_changed_nothing_is_told():
    text = shown([night(at, result(recovery_seconds=1.5, launch_seconds=0.4)) for at in range(3)])
    first, *_, row, blank, times, total = text.splitlines()
    assert first == f"job {JOB}" and blank == "" and total == "Nothing changed (3 nights)"
    assert row.split() == ["test_kill", "✓✓✓", "1.5", "s", "1.5", "s", "5", "5", "0.4", "s", "0.4", "s"]
    assert times == "times: too few nights to test for a change (at least 12 are needed)"


def test_what_became_red_is_told_with_its_night_and_its_cause():
    suites = [
        night(at, result("f" if at > 2 else "p"), settings={"torch": "2.14.1" if at > 2 else "2.13.0"})
        for at in range(5)
    ]
    lines = shown(suites).splitlines()
    at = lines.index("RED test_kill since 2026-01-04 02:30 (suite 20260104-023000-003): rng-not-restored")
    assert lines[at + 1 : at + 3] == [
        "  The RNG was not restored.",
        "  changed since the previous night: torch 2.13.0 -> 2.14.1",
    ]
    assert "changed 2026-01-04 02:30 (suite 20260104-023000-003): torch 2.13.0 -> 2.14.1" in lines
    assert lines[-1] == "1 experiment became red (5 nights)"


def test_green_flaky_undecided():
    suites = [
        night(at, *(result(letters[at], name) for name, letters in
                    (("test_a", "ffpp"), ("test_b", "pfpp"), ("test_c", "ppii"))))
        for at in range(4)
    ]  # fmt: skip
    text = shown(suites)
    assert "GREEN test_a since 2026-01-03" in text and "before: The RNG was not restored." in text
    assert "FLAKY test_b 1 of 4 nights with the same sources, options, versions and machine did not pass" in text
    assert "UNDECIDED test_c since 2026-01-03" in text
    assert text.count("nothing that is recorded changed since the previous night") == 2
    assert text.splitlines()[-1] == ("1 experiment can no longer be decided, 1 flaky, 1 became green (4 nights)")


def test_what_became_slow_is_told_with_its_ratio():
    text = shown(timed(30, step=(2.0, 20)))
    assert "SLOW recovery of test_0 since 2026-01-21 02:30" in text
    assert "times the former value (" in text and "wall time: " in text
    assert text.splitlines()[-1] == "1 duration became longer (30 nights)"


def test_what_was_not_run_lately_says_so():
    text = shown([*verdicts("pf"), night(2, result(name="test_other"))])
    assert "RED test_kill" in text and "  not run since 2026-01-02 02:30" in text
    assert "✓✗·" in text


def test_two_machines_are_named():
    suites = [
        replace(one, machine={**MACHINE, "host": f"box{at % 2}"})
        for at, one in enumerate(timed(60, step=(3.0, 30)))
    ]
    assert "  on box0, x86_64 processor, 8 cores" in shown(suites)


def test_what_is_usual_is_of_the_nights_that_passed():
    suites = [
        night(at, result("f" if at == 1 else "p", recovery_seconds=t)) for at, t in enumerate([1.0, 9.0, 2.0, 7.0])
    ]
    figure = findings(suites).figure(findings(suites).history.tracks[0], "recovery")
    assert (figure.last, figure.usual) == (7.0, 1.5)


def test_a_terminal_that_knows_no_signs_gets_letters():
    text = shown(verdicts("pfs p"), encoding="ascii")
    assert "+x-.+" in text


def test_names_cannot_act_on_the_terminal():
    text = shown(
        [night(0, result("p", HOSTILE)), night(1, result("f", HOSTILE, sentences=("\x1b[2Jgone \ud800",)))]
    )
    assert "\x1b" not in text and "\\x1b[2Jgone \\ud800" in text


@pytest.mark.parametrize("suites", [[night(0)], verdicts("s"), [night(0, result("i", job=""))]])
def test_next_to_nothing(suites):
    assert "Nothing changed (1 night)" in shown(suites)


def test_json_has_every_night():
    told = history_report.document(findings(timed(30, experiments=6, step=(2.0, 20))), damaged=["x is damaged"])
    assert json.loads(json.dumps(told)) == told
    assert told["schema"] == 1 and len(told["nights"]) == 30 and told["damaged"] == ["x is damaged"]
    assert len(told["experiments"][0]["recovery"]) == len(told["experiments"][0]["verdicts"]) == 30
    (shift,) = [shift for shift in told["shifts"] if shift["name"] == "test_0" and shift["measure"] == "recovery"]
    assert shift["slower"] and shift["last"] and shift["interval"][0] < 2 < shift["interval"][1]
    assert told["turns"] == []


def test_json_has_what_turned():
    (turn,) = history_report.document(findings(verdicts("pf")))["turns"]
    assert turn["kind"] == "red" and turn["codes"] == ["rng-not-restored"] and turn["nothing_changed"]
