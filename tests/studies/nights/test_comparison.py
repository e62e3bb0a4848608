"""Two suites: nothing is reported of equal ones; of others exactly what differs, and the exit code that follows."""

from dataclasses import replace

import pytest

from chaoskit.errors import ExitCode, UsageError
from chaoskit.studies.nights.comparison import Setting, compare_suites
from chaoskit.studies.nights.conditions import Conditions
from tests.two_suites import MACHINE, SETTINGS, baseline, drifted, result, suite

A, B, C = (result(name) for name in ("test_a", "test_b", "test_c"))


def bad(one, *codes, verdict="fail"):
    return replace(one, verdict=verdict, codes=codes or ("hang",), sentences=("It hung.",))


def test_of_equal_suites_nothing_is_reported():
    one = compare_suites(suite(A, B, bad(C)), suite(A, B, bad(C), id="later"))
    assert not one.changes and not one.parted and not one.gaps and not one.settings and not one.slower
    assert one.exit_code() == one.exit_code(times=True) == ExitCode.PASS
    assert [drift.experiments for drift in one.drifts] == [
        ("test_it.py::test_a", "test_it.py::test_b", "test_it.py::test_c")
    ]


def test_exactly_the_experiment_that_became_worse_is_reported():
    one = compare_suites(suite(A, B, C), suite(A, bad(B), C))
    (change,) = one.changes
    assert (
        change.name == "test_it.py::test_b"
        and change.direction == "worse"
        and change.new.sentences == ("It hung.",)
    )
    assert not one.parted and not one.gaps and one.exit_code() == ExitCode.FAIL


@pytest.mark.parametrize(
    ("old", "new", "direction", "code"),
    [
        (A, bad(A), "worse", 1),
        (bad(A, verdict="inconclusive"), bad(A), "worse", 1),
        (bad(A, verdict="skipped"), bad(A), "worse", 1),
        (bad(A, "hang"), bad(A, "hang", "orphans"), "worse", 1),
        (bad(A, "hang"), bad(A, "orphans"), "worse", 1),
        (bad(A, "hang", "orphans"), bad(A, "hang"), "better", 0),
        (bad(A), A, "better", 0),
        (bad(A, verdict="inconclusive"), A, "better", 0),
        (bad(A, verdict="skipped"), A, "better", 0),
        (A, bad(A, "probe-blind", verdict="inconclusive"), "unknown", 3),
        (A, bad(A, verdict="skipped"), "unknown", 3),
        (bad(A), bad(A, verdict="inconclusive"), "unknown", 3),
    ],
)
def test_what_a_change_is(old, new, direction, code):
    one = compare_suites(suite(old, B), suite(new, B))
    assert [change.direction for change in one.changes] == [direction] and one.exit_code() == code


@pytest.mark.parametrize(
    "other",
    [
        replace(bad(A), sentences=("It hung somewhere else.",)),
        replace(bad(A, "hang"), run="/elsewhere", seconds=3.0, steps_lost=7),
    ],
)
def test_another_sentence_or_place_is_no_change(other):
    assert not compare_suites(suite(bad(A)), suite(other)).changes


def test_the_order_of_the_codes_is_no_change():
    assert not compare_suites(suite(bad(A, "hang", "orphans")), suite(bad(A, "orphans", "hang"))).changes


def test_experiments_that_only_one_of_them_has():
    one = compare_suites(suite(A, B), suite(A, C))
    assert one.gone == ("test_it.py::test_b",) and one.added == ("test_it.py::test_c",)
    assert one.exit_code() == ExitCode.INCONCLUSIVE and "lacks 1 experiment" in one.gaps[0]
    assert compare_suites(suite(A), suite(A, C)).exit_code() == ExitCode.PASS


@pytest.mark.parametrize("status", ["interrupted", "running"])
def test_a_suite_that_did_not_finish(status):
    for pair in ((suite(A, status=status), suite(A)), (suite(A), suite(A, status=status))):
        one = compare_suites(*pair)
        assert one.exit_code() == ExitCode.INCONCLUSIVE and status in one.gaps[0]
    assert compare_suites(suite(A, status=status), suite(bad(A))).exit_code() == ExitCode.FAIL


def test_references_that_part_are_told_once():
    new = {"ref": drifted(baseline(), since=4)}
    one = compare_suites(suite(A, B), suite(A, B, baselines=new))
    (drift,) = one.parted
    assert drift.step == 4 and len(drift.experiments) == 2 and not one.changes and not one.gaps
    assert one.exit_code() == ExitCode.FAIL


def test_references_of_other_digests_and_the_same_content_are_one_pair():
    other = replace(B, references=("ref2",))
    both = {"ref": baseline(), "ref2": baseline()}
    assert len(compare_suites(suite(A, other, baselines=both), suite(A, other, baselines=both)).drifts) == 1
    both = {"ref": baseline(), "ref2": drifted(baseline(), since=4)}
    assert len(compare_suites(suite(A, other, baselines=both), suite(A, other, baselines=both)).drifts) == 2


def test_a_reference_that_was_not_deterministic_is_no_evidence():
    wobbly = {"ref": baseline(deterministic=False)}
    one = compare_suites(suite(A), suite(A, baselines=wobbly))
    assert one.void and not one.parted and one.exit_code() == ExitCode.INCONCLUSIVE
    assert "cannot be compared" in one.gaps[0]


def test_references_that_are_not_kept():
    one = compare_suites(suite(A, B), suite(A, B, baselines={}))
    assert one.unkept == ("test_it.py::test_a", "test_it.py::test_b") and one.exit_code() == ExitCode.INCONCLUSIVE
    without = replace(A, references=())
    assert compare_suites(suite(without), suite(without, baselines={})).exit_code() == ExitCode.PASS


def test_what_an_older_chaoskit_wrote_has_no_references():
    without = suite(replace(A, references=()), baselines={}, chaoskit="")
    one = compare_suites(without, suite(A))
    assert one.exit_code() == ExitCode.INCONCLUSIVE
    assert "stored no references" in compare_suites(without, without).gaps[0]


def test_of_what_was_not_decided_no_reference_is_missed():
    skipped = bad(B, verdict="skipped")
    assert not compare_suites(suite(A, skipped), suite(A, replace(skipped, references=()))).gaps


def test_where_nothing_was_decided_nothing_is_known():
    skipped = bad(A, verdict="skipped")
    one = compare_suites(suite(skipped), suite(skipped))
    assert not one.changes and one.exit_code() == ExitCode.INCONCLUSIVE
    assert "no decided experiment" in one.gaps[0]
    assert compare_suites(suite(skipped), suite(A)).exit_code() == ExitCode.PASS


def test_settings_that_differ_are_told_once_and_are_no_failure():
    settings = {"torch": "2.14.1", "threads": "1", "cuda": "13"}
    new = suite(
        replace(A, job="python2 train.py"), replace(B, job="python2 train.py"),
        baselines={"ref": baseline(settings=settings)}, chaoskit="0.2.0", machine={**MACHINE, "cores": "64"},
    )  # fmt: skip
    one = compare_suites(suite(A, B), new)
    assert one.settings == (
        Setting("chaoskit", "chaoskit", "0.1.0", "0.2.0"),
        Setting("ranks", "torch", SETTINGS["torch"], "2.14.1"),
        Setting("ranks", "cuda", None, "13"),
        Setting("machine", "cores", "2", "64"),
        Setting("job", "command", "python train.py", "python2 train.py"),
    )
    assert one.exit_code() == ExitCode.PASS


def test_a_library_that_only_one_of_them_had_imported_is_no_difference():
    """The parent of a warm launch may have imported it for another job."""
    for library, told in (("safetensors", 0), ("cuda", 1)):
        new = suite(A, B, baselines={"ref": baseline(settings={**SETTINGS, library: "1"})})
        assert len(compare_suites(suite(A, B), new).settings) == told
    other = suite(A, B, baselines={"ref": baseline(settings={**SETTINGS, "numpy": "2"})})
    same = suite(A, B, baselines={"ref": baseline(settings={**SETTINGS, "numpy": "1"})})
    assert compare_suites(same, other).settings == (Setting("ranks", "numpy", "1", "2"),)


def test_slower_launches_are_a_failure_only_where_that_was_asked_for():
    old = [result(f"test_{i}") for i in range(12)]
    new = [replace(one, launch_seconds=1.5 + i / 100) for i, one in enumerate(old)]
    one = compare_suites(suite(*old), suite(*new))
    assert [each.what for each in one.slower] == ["launch"]
    assert one.exit_code() == ExitCode.PASS and one.exit_code(times=True) == ExitCode.FAIL
    assert compare_suites(suite(*new), suite(*old)).exit_code(times=True) == ExitCode.PASS


def test_results_without_pytest_names_are_paired_by_their_own():
    one = compare_suites(suite(replace(A, nodeid=""), B), suite(A, B))
    assert list(one.pairs) == ["test_a", "test_b"]


def test_equal_names_in_different_files_are_not_mixed_up():
    twin = replace(bad(A), nodeid="test_other.py::test_a")
    one = compare_suites(suite(A, twin), suite(A, twin))
    assert len(one.pairs) == 2 and not one.changes


def test_nothing_to_compare():
    with pytest.raises(UsageError, match=r"the new suite .* has no experiment"):
        compare_suites(suite(A), suite())
    with pytest.raises(UsageError, match="the old suite"):
        compare_suites(suite(), suite(A))
    with pytest.raises(UsageError, match=r"no common experiment .*test_a.*test_b"):
        compare_suites(suite(A), suite(B))


def test_what_failed_and_is_undecided_now_takes_nothing_back_from_what_became_better():
    undecided = bad(B, "nothing-to-resume", verdict="inconclusive")
    one = compare_suites(suite(bad(A), bad(B)), suite(A, undecided))
    assert one.better and not one.gaps and one.exit_code() == ExitCode.PASS
    # One improvement does not outweigh an experiment that had passed and is undecided or fails now.
    assert compare_suites(suite(bad(A), B), suite(A, undecided)).exit_code() == ExitCode.INCONCLUSIVE
    assert compare_suites(suite(bad(A), B), suite(A, bad(B))).exit_code() == ExitCode.FAIL
    same = compare_suites(suite(A, B), suite(A, B))
    assert not same.better and same.exit_code() == ExitCode.PASS


def test_a_job_that_became_deterministic_is_better():
    old = suite(bad(A), baselines={"ref": baseline(deterministic=False)})
    one = compare_suites(old, suite(A))
    assert one.void and one.better and one.exit_code() == ExitCode.PASS
    other = compare_suites(suite(bad(A)), suite(A, baselines={"ref": baseline(deterministic=False)}))
    assert other.exit_code() == ExitCode.INCONCLUSIVE


def resting_on(suite, *, options=None, **sources):
    """The suite with the files that its experiments rest on."""
    one = Conditions(options or {}, {"torch": "2.13.0", **sources})
    return replace(suite, conditions=dict.fromkeys(suite.experiments, one))


def test_a_repair_may_change_what_the_job_computes():
    other = {"baselines": {"ref": drifted(baseline(), since=2)}}
    old = resting_on(suite(bad(A), B), **{"train.py": "1", "data.bin": "1"})
    new = resting_on(suite(A, B, **other), **{"train.py": "2", "data.bin": "1"})
    one = compare_suites(old, new)
    assert one.parted and one.rewritten == ("train.py",) and one.better and one.exit_code() == ExitCode.PASS
    back = compare_suites(new, old)
    assert not back.rewritten and back.exit_code() == ExitCode.FAIL


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        # Nothing became better: then equal references are what the comparison is for.
        ((B,), (B,), {"train.py": "1"}, {"train.py": "2"}),
        # Something became worse, too.
        ((bad(A), B), (A, bad(B)), {"train.py": "1"}, {"train.py": "2"}),
        # The job is what it was.
        ((bad(A),), (A,), {"train.py": "1"}, {"train.py": "1"}),
        # Something else may be the reason.
        ((bad(A),), (A,), {"train.py": "1"}, {"train.py": "2", "torch": "2.14.0"}),
        ((bad(A),), (A,), {"train.py": "1"}, {"train.py": "2", "options": {"nproc_per_node": "3"}}),
        ((bad(A),), (A,), {"train.py": "1", "data.bin": "1"}, {"train.py": "2", "data.bin": "2"}),
        ((bad(A),), (A,), {"/lib/tool.py": "1"}, {"/lib/tool.py": "2"}),
        # It is not known what they rest on.
        ((bad(A),), (A,), None, {"train.py": "2"}),
    ],
)
def test_references_that_diverge_for_another_reason_are_worse(old, new, before, after):
    made = []
    for results, sources, fields in (
        (old, before, {}),
        (new, after, {"baselines": {"ref": drifted(baseline(), since=2)}}),
    ):
        one = suite(*results, **fields)
        made.append(one if sources is None else resting_on(one, **sources))
    one = compare_suites(*made)
    assert not one.rewritten and not one.better and one.exit_code() == ExitCode.FAIL


LOST = {"accepted": ("rng-not-restored",)}


@pytest.mark.parametrize(
    ("old", "new", "direction"),
    [
        (A, replace(A, verdict="accepted", **LOST), "worse"),
        (replace(A, verdict="accepted", **LOST), A, "better"),
        (replace(A, verdict="accepted", **LOST), replace(bad(A, "data-replayed"), **LOST), "worse"),
        (replace(bad(A, "data-replayed"), **LOST), replace(A, verdict="accepted", **LOST), "better"),
        (replace(A, verdict="accepted", **LOST), bad(A, verdict="inconclusive"), "unknown"),
        # The job did not change; only the list of accepted codes did.
        (bad(A, "rng-not-restored"), replace(A, verdict="accepted", **LOST), None),
        (replace(A, verdict="accepted", **LOST), bad(A, "rng-not-restored"), None),
    ],
)
def test_what_is_accepted_is_a_loss_of_the_job_all_the_same(old, new, direction):
    changes = compare_suites(suite(old), suite(new)).changes
    assert [change.direction for change in changes] == ([direction] if direction else [])
