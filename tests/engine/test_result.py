"""Results: how verdicts and errors become one line, what all of them come to, and what JSON says of it."""

import io
import json
import re
from dataclasses import dataclass, field, replace

import pytest
from rich.console import Console

from chaoskit import Job
from chaoskit.analysis.record.rank_lifetime import COMPONENTS
from chaoskit.engine import result as results
from chaoskit.engine.result import Result
from chaoskit.errors import (
    ChaoskitError,
    ExitCode,
    Inconclusive,
    MissingCapability,
    ReferenceFailed,
    StoreError,
    UsageError,
)
from chaoskit.report.machine import json_report
from chaoskit.report.terminal import table
from chaoskit.verdict import failed, inconclusive, passed

GOOD = passed("completed", "The job ended.")
TABLE = [
    {"incarnation": 1, "rank": r, "cells": {"model": "40", "batch": "14, 40", "rng.torch": "0"}, "expected": 40}
    for r in range(2)
]
BAD = failed("state_restored", "The RNG was not restored.", "rng-not-restored", table=TABLE)
OPEN = inconclusive("matches_reference", "Not seen.", "fault-not-observed")


@dataclass
class Summary:
    resumed_from: int | None = 20
    last_valid: int | None = 30
    steps_lost: int | None = 5
    noticed_seconds: float | None = 1.0
    stopped_seconds: float | None = 1.5
    saved_seconds: float | None = None
    sufficient_grace: float | None = None
    launch_seconds: float | None = None
    step_seconds: float | None = None
    recovery_seconds: float | None = 2.5
    waited_seconds: float = 0.0
    probe_errors: tuple = ()
    throughput: tuple = ()


@dataclass
class Launch:
    how: str = "warm"


@dataclass
class Launches:
    launches: tuple = (Launch(),)
    faults: tuple = ()
    window: None = None


@dataclass
class Run:
    verdicts: tuple
    dir: str = "/store/runs/1"
    summary: Summary = field(default_factory=Summary)
    history: Launches = field(default_factory=Launches)
    job: Job = field(default_factory=lambda: Job("train.py"))
    reference: None = None
    ruling: None = None
    audited: bool = False


def shown(found, width=80, **options):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    table.show(found, console, **options)
    return console.file.getvalue()


def test_a_result_survives_json():
    result = results.of_runs("x", [Run((GOOD, BAD))])
    assert Result.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_a_fail_hides_what_was_inconclusive():
    result = results.of_verdicts("x", [GOOD, OPEN, BAD])
    assert (result.verdict, result.codes) == ("fail", ("rng-not-restored",))
    assert result.sentences == ("The RNG was not restored.",)
    assert len(result.table) == 2


def test_the_summary_says_what_was_watched():
    def result(name, *watched):
        return Result(
            name,
            "pass",
            runs=("/a",),
            watched=[dict(zip(("first", "last", "of"), one, strict=True)) for one in watched],
        )

    found = [result("a", (21, 44, 6000)), result("b", (31, 91, 6000)), result("c", (1, 6000, 6000))]
    found += [result("d", (5951, 6000, 6000)), result("e"), Result("f", "skipped")]
    text = (
        "4 experiments in windows of 24 to 61 steps of 6,000, 1 of them also whole, 1 trained to the end, 1 whole"
    )
    assert table.windows(found) == text and table.windows(found[4:]) == ""
    assert table.windows(found[:1]) == "1 experiment in windows of 24 steps of 6,000"
    assert table.windows(found[2:3]) == "1 experiment in windows of up to 6,000 steps, 1 of them also whole"


HOSTILE = "a[<b>]\n\x1b[31mred\r\x07\t\ud800"


def test_nothing_that_a_terminal_would_obey_is_printed():
    one = Result(HOSTILE, "fail", codes=(HOSTILE,), sentences=(HOSTILE,), stacks={"0": HOSTILE})
    for text in (shown([one]), table.explanation(one)):
        text.encode()
        assert not any(ord(letter) < 32 for letter in text.replace("\n", ""))
    assert "FAIL a[<b>]\\n\\x1b[31mred\\r\\x07" in shown([one])
    assert "\n  a[<b>]\n  \\x1b[31mred\\r\\x07 " in shown([one])


def test_how_to_look_at_it_is_said_last_where_something_did_not_pass():
    good, bad = Result("x", "pass"), Result("y", "inconclusive")
    assert shown([good, bad], look="HTML report: so").endswith("inconclusive\nHTML report: so\n")
    assert "to look at it" not in shown([good, Result("z", "skipped")], look="HTML report: so")


def test_a_sentence_that_another_begins_with_is_said_once():
    longer = failed("matches_reference", BAD.sentence + "; first wrong loss at step 41", "rng-not-restored")
    assert results.of_verdicts("x", [BAD, longer]).sentences == (longer.sentence,)


def test_the_figures_are_those_of_the_run_that_failed():
    runs = [Run((GOOD,), "/a"), Run((BAD,), "/b", Summary(resumed_from=1)), Run((GOOD,), "/c")]
    result = results.of_runs("x", runs)
    assert (result.run, result.resumed_from) == ("/b", 1)
    assert results.of_runs("x", runs[::2]).run == "/c"


@pytest.mark.parametrize(
    ("error", "verdict", "trouble", "code"),
    [
        (AssertionError("assert 5 < 3"), "fail", "", ()),
        (Inconclusive("no check was applied"), "inconclusive", "", ()),
        (ReferenceFailed("it crashed", code="probe-blind"), "inconclusive", "", ("probe-blind",)),
        (MissingCapability("it needs", capability="C", remedy="do that"), "inconclusive", "", ()),
        (UsageError("no such rank"), "inconclusive", "usage", ()),
        (StoreError("not ours"), "inconclusive", "usage", ()),
        (StoreError("disk full", exit_code=ExitCode.EXHAUSTED), "inconclusive", "exhausted", ()),
        (MemoryError(), "inconclusive", "exhausted", ()),
        (ChaoskitError("odd"), "inconclusive", "environment", ()),
        (KeyError("odd"), "inconclusive", "internal", ()),
    ],
)
def test_errors(error, verdict, trouble, code):
    result = results.of_error("x", error, [])
    assert (result.verdict, result.trouble, result.codes) == (verdict, trouble, code)
    assert str(error).strip() in result.sentences[0]


@pytest.mark.parametrize(
    ("verdicts", "overall", "code"),
    [
        ("pass pass", "pass", 0),
        ("pass skipped", "pass", 0),
        ("pass inconclusive", "inconclusive", 3),
        ("inconclusive fail pass", "fail", 1),
        ("skipped", "inconclusive", 3),
        ("", "inconclusive", 3),
    ],
)
def test_overall(verdicts, overall, code):
    found = [Result(f"x{i}", verdict) for i, verdict in enumerate(verdicts.split())]
    assert json_report.document(found)["verdict"] == overall
    assert results.exit_code(found) == code


def test_trouble_goes_before_verdicts():
    assert results.exit_code([Result("x", "fail"), Result("y", "inconclusive", trouble="usage")]) == 2
    for trouble in ("environment", "internal"):
        assert results.exit_code([Result("x", "fail"), Result("y", "inconclusive", trouble=trouble)]) == 4
    lacking = Result("z", "inconclusive", trouble="exhausted")
    assert results.exit_code([Result("y", "inconclusive", trouble="environment"), lacking]) == 5
    assert results.exit_code([Result("y", "inconclusive", trouble="internal"), lacking]) == 4


def test_schema_1_of_the_json():
    document = json_report.document([results.of_runs("x", [Run((GOOD,))]), Result("y", "skipped")])
    assert list(document) == ["schema", "verdict", "problems", "undecided", "experiments"]
    assert document["schema"] == 1
    promised = ["name", "verdict", "codes", "resumed_from", "last_valid", "steps_lost", "recovery_seconds", "run"]
    first, second = document["experiments"]
    assert list(first)[:8] == list(second)[:8] == promised
    assert [first[key] for key in promised] == ["x", "pass", [], 20, 30, 5, 2.5, "/store/runs/1"]
    assert [second[key] for key in promised] == ["y", "skipped", [], None, None, None, None, None]


def test_the_table_fits_80_columns():
    found = [Result("test_before_first_collective", "inconclusive", (), 1000, 1000, 1000, 100.25, seconds=1000.0)]
    lines = shown(found, seconds=12.34).splitlines()
    assert max(map(len, lines)) <= 80
    assert "1000.0 s" in lines[2]
    assert "1 experiment in 12.3 s: 1 inconclusive" in lines


def test_a_wide_table_says_when_it_was_noticed():
    found = [results.of_runs("x", [Run((GOOD,))])]
    assert "noticed" not in shown(found, width=109)
    lines = shown(found, width=110).splitlines()
    assert lines[1].split()[-4:] == ["noticed", "stopped", "recovery", "time"]
    assert lines[2].split() == ["x", "pass", "20", "30", "5", "1.0", "s", "1.5", "s", "2.5", "s", "-"]


def test_notices_of_preemption_have_columns_of_their_own():
    plain = results.of_runs("x", [Run((GOOD,))])
    assert "grace" not in shown([plain])
    told = replace(plain, name="y", saved_seconds=0.7, sufficient_grace=0.8)
    lines = shown([plain, told]).splitlines()
    assert lines[1].split()[-4:] == ["after", "needed", "recovery", "time"]
    assert lines[3].split() == ["y", "pass", "20", "30", "5", "0.7", "s", "0.8", "s", "2.5", "s", "-"]


def test_detection_is_in_the_json():
    (told,) = json_report.document([results.of_runs("x", [Run((GOOD,))])])["experiments"]
    assert (told["noticed_seconds"], told["stopped_seconds"], told["recovery_seconds"]) == (1.0, 1.5, 2.5)


def test_a_fail_says_why_and_how_to_repeat_it_and_wraps_no_path():
    run = "/a/" + "very-long-name/" * 12 + "runs/1"
    said = shown([results.of_runs("lost [rank]", [Run((GOOD, BAD), run)])])
    assert "FAIL lost [rank]: rng-not-restored" in said
    assert f"  run     {run}\n" in said
    assert f"  repeat  chaoskit replay {run}\n" in said
    rows = [line.split() for line in said.splitlines() if line.strip().startswith("1 ")]
    assert rows[0] == ["1", "0", "40", "40", "0!", "14,", "40"]


def test_a_wide_alignment_fits_80_columns():
    names = [*COMPONENTS[:-2], "rng.python", "rng.numpy", "rng.torch", "batch"]
    rows = [{"incarnation": 1, "rank": 0, "cells": dict.fromkeys(names, "none"), "expected": 40}]
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(table.alignment_table(rows))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].split() == ["1", "0", "40", *["none!"] * len(names)]


def test_alike_failures_are_explained_once():
    found = [Result(name, "inconclusive", ("reference-failed",), sentences=("It crashed.",)) for name in "abc"]
    said = shown(found)
    assert said.count("It crashed.") == 1
    assert "INCONCLUSIVE a, b, c: reference-failed" in said


def test_a_reference_that_failed_is_explained_once_and_not_to_be_replayed():
    error = ReferenceFailed("Crashed:\n  Error", run="/references/x/control-0")
    said = shown([results.of_error(name, error, []) for name in "ab"])
    assert "INCONCLUSIVE a, b: reference-failed\n  Crashed:\n    Error\n" in said
    assert said.count("  run     /references/x/control-0\n") == 1
    assert "replay" not in said


def test_stacks_of_a_hang_are_shown():
    hang = failed("completed", "It hung.", "hang", stacks={"0": "train.py:12 in step"})
    assert "stack of rank 0:\n    train.py:12 in step" in shown([results.of_verdicts("x", [hang])])


@pytest.mark.parametrize(("fail_on", "code"), [("weaknesses", 1), ("problems", 0)])
def test_weaknesses_alone_fail_unless_problems_alone_are_to(fail_on, code):
    weak = results.of_verdicts("x", [failed("ridden_out", "It restarted.", "needless-restart")])
    assert weak.weakness and results.exit_code([weak, Result("y", "pass")], fail_on=fail_on) == code
    assert results.exit_code([weak], fail_on=fail_on) == code
    bad = results.of_verdicts("z", [BAD])
    assert results.exit_code([weak, bad], fail_on=fail_on) == 1
    assert results.exit_code([weak, Result("y", "inconclusive")], fail_on=fail_on) == (1 if code else 3)


def test_an_experiment_that_ended_with_an_exception_is_an_error():
    error = results.of_error("x", TypeError("no such argument"), [])
    assert error.word == "error" and "1 error" in table.total([error])
    assert re.search(r"^x +error", shown([error]), re.M) and "ERROR x" in shown([error])


def test_what_keeps_every_check_from_a_judgement_is_said_once():
    verdicts = [inconclusive(name, f"{name}: not seen", "fault-not-observed") for name in ("a", "b", "c")]
    assert results.of_verdicts("x", verdicts).sentences == ("a: not seen",)
    other = inconclusive("d", "no loss", "probe-blind")
    assert results.of_verdicts("x", [*verdicts, other]).sentences == ("a: not seen", "no loss")


def test_the_end_of_a_job_is_told_once():
    end = "the job did not recover in 3 relaunches"
    verdicts = [
        failed("completed", end, "crash-loop"),
        failed("resumed_from_last_valid", end, "crash-loop"),
        failed("same_data", f"the data of step 21 was never consumed: {end}", "crash-loop"),
    ]
    assert results.of_verdicts("x", verdicts).sentences == (end,)


def test_losses_are_decimals():
    one = Result("x", "fail", codes=("loss-diverged",), sentences=("step 21: 0x1.8p+1 instead of 0x1.0p+1",))
    assert "Step 21: 3 instead of 2." in shown([one]) and "0x1" not in table.explanation(one)


@pytest.mark.parametrize(("cell", "said"), [("any", True), ("10 (10…20)", True), ("0, 10", True), ("10", False)])
def test_a_cell_that_matches_several_steps_is_explained(cell, said):
    rows = [{"incarnation": 1, "rank": 0, "expected": 10, "cells": {"model": "10", "lr": cell}}]
    stream = io.StringIO()
    table.explain([Result("test_x", "fail", table=tuple(rows))], table.console_for(stream))
    assert table.MARKS in stream.getvalue()
    assert (table.SEVERAL in stream.getvalue()) is said
