"""Every verdict on a checkpoint that crosses, by real jobs under two interpreters that have the same torch."""

import json
from dataclasses import replace

import pytest

from chaoskit.job import Job
from chaoskit.studies.upgrade import band
from chaoskit.studies.upgrade.crossing import Crossing, Side, cross, judge, last_error
from chaoskit.studies.upgrade.interpreter import Interpreter
from chaoskit.verdict import Outcome

#: Of a job that knows which interpreter began.
launches = pytest.mark.launches


@pytest.mark.exhaustive
def test_what_resumes_exactly_is_said_to(border):
    runner, both = border()
    crossing = cross(runner, both.old, both.new, both.band)
    assert (crossing.word, crossing.codes, crossing.outcome) == ("exact", (), Outcome.PASS)
    assert crossing.sentence.startswith(f"every component is bitwise equal to that of step {crossing.position}, and")
    assert (crossing.worst, both.band.value) == (0.0, 0.0)
    [run] = runner.runs
    assert [launch.how for launch in run.history.launches] == ["warm", "warm"]
    assert run.job.relaunch_command[0] == both.new.interpreter.path != run.job.command[0]

    # Judged by the record alone: ranks of another version, or of another program, prove nothing.
    other = Interpreter(both.new.interpreter.path, {"torch": "9.9.9"})
    alien = judge(run, both.old, replace(both.new, interpreter=other), both.band)
    assert (alien.word, alien.codes) == ("undecided", ("fault-not-observed",)) and "not 9.9.9" in alien.sentence
    stayed = judge(run, both.old, both.old, both.band)
    assert stayed.word == "undecided" and both.new.interpreter.path in stayed.sentence


@pytest.mark.slow
@launches
def test_what_forgets_a_component_at_the_border_resumes_wrong(border):
    runner, both = border("--border", "forget")
    crossing = cross(runner, both.new, both.old, both.band)
    assert (crossing.word, crossing.outcome) == ("wrong", Outcome.FAIL)
    assert crossing.codes == ("optimizer-not-restored", "lr-schedule-off")  # its groups hold the LR
    assert "optimizer" in crossing.sentence
    assert crossing.phrase == "the checkpoint of new resumes incorrectly under old"


@launches
def test_what_stays_on_its_side_is_not_touched_by_that(border):
    runner, both = border("--border", "forget")
    assert cross(runner, both.old, both.old, both.band).word == "exact"


@launches
def test_what_refuses_a_checkpoint_does_not_load_it(border):
    runner, both = border("--border", "refuse")
    crossing = cross(runner, both.old, both.new, both.band)
    assert (crossing.word, crossing.outcome) == ("no-load", Outcome.FAIL)
    assert crossing.sentence == "RuntimeError: the checkpoints in out are of another <b>version</b>"
    assert json.dumps(crossing.to_json())


@launches
def test_losses_that_are_off_are_held_to_the_band(border):
    runner, both = border("--border", "wobble")
    measured = cross(runner, both.old, both.new, both.band)
    # The uninterrupted runs are equal to the bit: nothing excuses a loss that is not.
    assert (measured.word, measured.codes) == ("wrong", ("loss-diverged",))
    assert 0 < measured.worst < 0.1 and "tolerance of 0 " in measured.sentence
    [run] = runner.runs
    stated = judge(run, both.old, both.new, band.stated(0.5))
    assert (stated.word, stated.codes) == ("within", ())
    assert "within the tolerance of 0.5 (set by --band)" in stated.sentence
    narrow = judge(run, both.old, both.new, band.stated(measured.worst / 2))
    assert narrow.word == "wrong"


def test_without_an_uninterrupted_run_nothing_can_be_told():
    side = Side("old", Interpreter("python", {"torch": "1"}), Job("train.py"), failed="it ended with exit code 1")
    crossing = cross(None, side, side, band.stated(0.1))
    assert (crossing.word, crossing.outcome) == ("undecided", Outcome.INCONCLUSIVE)
    assert "it ended with exit code 1" in crossing.sentence


RANK = "[default{0}]:[rank{0}]: "


@pytest.mark.parametrize(
    "lines, said",
    [
        ([], "it ended without any output"),
        (["one", "two", " "], "the last line of its log: two"),
        (["Traceback (most recent call last):", "  File x", "Odd: <b>", "  more"], "Odd: <b>"),
        (
            ["W1122 torchrun", RANK.format(1) + "Traceback (most recent call last):", RANK.format(0) + "Traceback",
             RANK.format(1) + "  File x", RANK.format(0) + "KeyError: 0", RANK.format(1) + "OSError: no", "",
             RANK.format(1) + "The above exception was the direct cause of the following exception:",
             RANK.format(1) + "Traceback (most recent call last):", RANK.format(1) + "    at y",
             RANK.format(1) + "ValueError: bad", "Traceback (most recent call last):", "  z", "ChildFailedError:"],
            "ValueError: bad",
        ),
        ([RANK.format(0) + "Traceback (most recent call last):", RANK.format(0) + "  File x"], "its log ends within"),
    ],
)  # fmt: skip
def test_the_exception_of_a_rank_is_what_a_launch_died_of(lines, said, tmp_path):
    (tmp_path / "log").write_text("\n".join(lines))
    assert last_error(tmp_path / "log").startswith(said)
    assert last_error(tmp_path / "absent") == "it ended without any output"


def test_a_distance_without_end_is_json():
    crossing = Crossing("old", "new", "wrong", "x", worst=float("inf"))
    assert json.loads(json.dumps(crossing.to_json()))["worst"] == "inf"
