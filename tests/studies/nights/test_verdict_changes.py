"""Turns: red and green since the right night; what alternates without cause is flaky; what stays is not told."""

from dataclasses import replace

import pytest

from chaoskit.studies.nights.conditions import Conditions
from chaoskit.studies.nights.suite_history import SuiteHistory
from chaoskit.studies.nights.verdict_changes import turns
from tests.studies.nights.nights import MACHINE, night, result, verdicts


def told(letters, **fields):
    return [(turn.kind, turn.since) for turn in turns(SuiteHistory.of(verdicts(letters, **fields)))]


@pytest.mark.parametrize("letters", ["", "p", "f", "pppp", "ffff", "iiii", "ssss", "ps s", "fsf", "    "])
def test_what_stays_as_it_is_is_not_told(letters):
    assert told(letters) == []


@pytest.mark.parametrize(
    ("letters", "kind", "since"),
    [
        ("ppf", "red", 2),
        ("pfff", "red", 1),
        ("ppifi", "red", 2),
        ("p s f", "red", 4),
        ("pf  ", "red", 1),
        ("ppii", "undecided", 2),
        ("fp", "green", 1),
        ("iipp", "green", 2),
        ("fs p", "green", 3),
    ],
)
def test_what_turned_did_so_on_that_night(letters, kind, since):
    assert told(letters) == [(kind, since)]


def test_the_sentence_and_the_codes_are_those_of_the_last_failure():
    nights = [
        *verdicts("pp"),
        night(2, result("f", sentences=("Old.",))),
        night(3, result("f")),
        night(4, result("i")),
    ]
    (turn,) = turns(SuiteHistory.of(nights))
    assert turn.result.codes == ("rng-not-restored",) and turn.result.sentences == ("The RNG was not restored.",)
    assert turn.same and not turn.changes


def test_what_was_changed_that_night_is_told():
    old, new = ({"torch": version} for version in ("2.13.0", "2.14.1"))
    nights = [night(0, result(), settings=old), night(1), night(2, result("f"), settings=new)]
    (turn,) = turns(SuiteHistory.of(nights))
    assert [str(change) for change in turn.changes] == ["torch 2.13.0 -> 2.14.1"] and not turn.same


def test_what_is_no_longer_accepted_is_a_change_of_the_list():
    def accepted():
        return result("a", codes=(), accepted=("rng-not-restored",))

    def told(*nights):
        (turn,) = turns(SuiteHistory.of([night(at, one) for at, one in enumerate(nights)]))
        return turn.kind, [str(change) for change in turn.changes], turn.same

    kind, (change,), same = told(accepted(), result("f"))
    assert (kind, same) == ("red", False) and change.startswith("accepted rng-not-restored")
    # A loss that is new is one of the job, and never flaky for another list.
    assert told(accepted(), result("f", codes=("optimizer-not-restored",)))[1:] == ([], True)
    assert told(accepted(), result("f"), accepted(), result("f"))[0] == "red"


def test_an_uninterrupted_run_under_another_name_is_not_the_same():
    """It is named by all that it rests on, variables of the environment too."""
    (turn,) = turns(SuiteHistory.of([night(0, result()), night(1, result("f", references=("another",)))]))
    assert [str(change) for change in turn.changes] == ["reference ref -> another"] and not turn.same


GOOD, BAD = (Conditions({}, {"train.py": digest, "data.py": "1"}) for digest in ("aa", "bb"))


def alternating(letters, of):
    """Nights whose experiments rest on what their letter stands for."""
    return [night(at, result(letter), conditions=of[letter]) for at, letter in enumerate(letters)]


@pytest.mark.parametrize(("letters", "kind"), [("pfpf", "red"), ("pfpfp", "green"), ("ppffppff", "red")])
def test_a_good_and_a_bad_script_in_turn_are_a_regression_and_not_flaky(letters, kind):
    """The uninterrupted run is equal: only code that resumes has changed."""
    (turn,) = turns(SuiteHistory.of(alternating(letters, {"p": GOOD, "f": BAD})))
    pair = ("aa", "bb") if kind == "red" else ("bb", "aa")
    assert turn.kind == kind and [str(change) for change in turn.changes] == ["train.py {} -> {}".format(*pair)]
    assert not turn.same


USUAL = Conditions({}, {"train.py": "1"}, {"resume.py": "1"})


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (replace(USUAL, options={"resume_args": "--resume"}), "resume_args"),
        (replace(USUAL, sources={"train.py": "1", "extra.py": "2"}), "extra.py"),
        (replace(USUAL, sources={}), "train.py"),
        (replace(USUAL, further={"resume.py": "2"}), "resume.py"),
    ],
)
def test_what_was_changed_is_named(bad, named):
    (turn,) = turns(SuiteHistory.of(alternating("pfpf", {"p": USUAL, "f": bad})))
    assert turn.kind == "red" and [change.name for change in turn.changes] == [named]


def test_another_machine_is_not_alike():
    boxes = {"p": "8", "f": "2"}
    nights = [
        night(at, result(letter), machine={**MACHINE, "cores": boxes[letter]}) for at, letter in enumerate("pfpf")
    ]
    assert [(turn.kind, turn.changes[0].name) for turn in turns(SuiteHistory.of(nights))] == [("red", "machine")]


def test_files_that_only_one_path_through_the_job_reads_make_no_difference():
    """A run that fails imports what writes the error down; one that passes does not."""
    usual, failing = Conditions({}, {"train.py": "1"}), Conditions({}, {"train.py": "1"}, {"errors.py": "1"})
    assert [turn.kind for turn in turns(SuiteHistory.of(alternating("pfpf", {"p": usual, "f": failing})))] == [
        "flaky"
    ]


def test_nights_of_unknown_sources_are_like_no_other():
    (turn,) = turns(SuiteHistory.of(verdicts("pfpf", conditions=None)))
    assert turn.kind == "red" and not turn.same and not turn.changes


@pytest.mark.parametrize(
    ("letters", "bad", "last"), [("pfp", 1, 1), ("fpfp", 2, 2), ("ppfpppfp", 2, 6), ("pip", 1, 1)]
)
def test_what_alternates_is_flaky(letters, bad, last):
    (turn,) = turns(SuiteHistory.of(verdicts(letters)))
    assert (turn.kind, turn.bad, turn.of, turn.since) == ("flaky", bad, len(letters), last)


def test_a_flaky_one_is_red_once_it_stays_so():
    assert told("pfpf") == [("flaky", 3)]
    assert told("pfpff") == [("flaky", 4)]
    assert told("pfpfff") == [("red", 3), ("flaky", 5)]
    assert told("pfffpfff") == [("flaky", 7)]
    assert told("pfffpffff") == [("red", 5), ("flaky", 8)]


def test_a_bug_that_came_and_went_with_a_version_is_not_flaky():
    versions = ["1", "1", "2", "2", "3", "3"]
    nights = [
        night(at, result(letter), settings={"torch": version})
        for at, (letter, version) in enumerate(zip("ppffpp", versions, strict=True))
    ]
    assert [(turn.kind, turn.since) for turn in turns(SuiteHistory.of(nights))] == [("green", 4)]


def test_the_red_ones_come_first():
    a, b = (verdicts(letters, name) for letters, name in (("fp", "test_a"), ("pf", "test_b")))
    nights = [night(at, *a[at].results, *b[at].results) for at in range(2)]
    assert [turn.kind for turn in turns(SuiteHistory.of(nights))] == ["red", "green"]


def test_what_is_accepted_is_no_red():
    """From pass to accepted nothing turns; from accepted to fail it is red."""
    assert turns(SuiteHistory.of(nights_of("ppaa"))) == ()
    (turn,) = turns(SuiteHistory.of(nights_of("paaf")))
    assert turn.kind == "red" and turn.since == 3


def nights_of(letters):
    return [night(at, result(letter)) for at, letter in enumerate(letters)]
