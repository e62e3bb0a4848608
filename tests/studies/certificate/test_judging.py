"""What the evidence comes to: each row is proven only by all that it needs, and each is seen to fail."""

from dataclasses import replace
from datetime import date

import pytest

from chaoskit.engine.coded_finding import CodedFinding
from chaoskit.engine.result import NOT_RUN
from chaoskit.nodes import Nodes
from chaoskit.studies.certificate.rows import ROWS
from chaoskit.studies.problems.acceptance import Acceptance
from tests.studies.certificate.by_hand import CELLS, TABLE, evidence, names, refuting, states, trial, verdict

#: Each row with each experiment and check that it needs.
PARTS = [
    pytest.param(row, name, check, id=f"{row.id}-{name.rpartition('::')[2]}-{check}")
    for row in ROWS for need in row.needs if need.least is None for name in names(need) for check in need.checks
]  # fmt: skip
EXPERIMENTS = [
    pytest.param(row, name, id=f"{row.id}-{name.rpartition('::')[2]}")
    for row in ROWS for need in row.needs if need.least is None for name in names(need)
]  # fmt: skip
#: Rows that apply in this evidence only where something is given: monitoring rules.
NEVER = {"rules"}


def test_complete_evidence_proves_every_row():
    found = states(evidence())
    assert {id for id, row in found.items() if row.state != "proven"} == NEVER
    assert all(row.runs for id, row in found.items() if id not in (*NEVER, "interval"))
    assert found["hang"].figures["noticed_seconds"] == 4.0 and found["disaster"].figures["steps_lost"] == 4


def test_no_evidence_proves_nothing():
    found = states(evidence(dict.fromkeys(evidence().trials), maps=(), costs=()))
    assert {row.state for id, row in found.items() if id not in NEVER} == {"not-tested"}
    assert all(row.how and row.sentence for row in found.values() if row.state == "not-tested")


@pytest.mark.parametrize(("row", "name", "check"), PARTS)
def test_a_check_that_fails_fails_its_rows(row, name, check):
    code = refuting(row, check)
    given = [verdict(each, "fail" if each == check else "pass", *([code] if each == check else []))
             for each in {v.check for v in trial(name).runs[0].verdicts}]  # fmt: skip
    found = states(evidence({name: trial(name, "fail", verdicts=given, codes=(code,))}))
    assert found[row.id].state == "failed" and found[row.id].codes == (code,)
    assert found[row.id].runs and name.rpartition("::")[2] in found[row.id].sentence


@pytest.mark.parametrize(("row", "name"), EXPERIMENTS)
@pytest.mark.parametrize(
    "change",
    [
        None,
        {"outcome": "skipped", "sentences": ("this machine lacks FUSE",)},
        {"outcome": "skipped", "sentences": (f"{NOT_RUN}: it takes about 20 s, and 5 s were left",)},
        {"outcome": "inconclusive"},
        {"outcome": "inconclusive", "trouble": "environment"},
        {"gap": "its run is no longer stored"},
        {"verdicts": ()},
    ],
    ids=["absent", "skipped", "budget", "inconclusive", "trouble", "gap", "unjudged"],
)
def test_a_gap_in_the_evidence_leaves_its_rows_untested(row, name, change):
    given = None if change is None else trial(name, **change)
    found = states(evidence({name: given}))[row.id]
    assert found.state == "not-tested" and found.how == row.how


@pytest.mark.parametrize(("row", "name", "check"), PARTS)
def test_an_inconclusive_check_proves_nothing(row, name, check):
    given = [verdict(each, "inconclusive" if each == check else "pass") for each in
             {v.check for v in trial(name).runs[0].verdicts}]  # fmt: skip
    assert states(evidence({name: trial(name, verdicts=given)}))[row.id].state == "not-tested"


def test_a_row_names_the_codes_of_all_its_checks_that_failed():
    name = "test_preemption.py::test_preempted[aws]"
    given = [verdict("completed"), verdict("emergency_checkpoint", "fail", "no-emergency-checkpoint"),
             verdict("stopped_cleanly", "fail", "notice-ignored")]  # fmt: skip
    codes = ("no-emergency-checkpoint", "notice-ignored")
    found = states(evidence({name: trial(name, "fail", verdicts=given, codes=codes)}))
    assert found["preemption"].codes == codes and found["rest"].state == "proven"


def test_one_lost_component_fails_its_row_and_not_the_others():
    """The alignment says of each component on its own where it stands."""
    name = "test_resume.py::test_resume"
    table = [{**entry, "cells": {**CELLS, "rng.torch": "0"}} for entry in TABLE]
    given = [
        verdict("state_restored", "fail", "rng-not-restored", table=table),
        verdict("same_data"), verdict("completed"), verdict("matches_reference", "fail", "rng-not-restored"),
    ]  # fmt: skip
    found = states(evidence({name: trial(name, "fail", verdicts=given, codes=("rng-not-restored",))}))
    failed = {id for id, row in found.items() if row.state == "failed"}
    assert failed == {"random-streams", "resume-losses"}
    assert found["resume-model"].state == found["resume-optimizer"].state == "proven"
    assert found["rest"].state == "proven"


@pytest.mark.parametrize("cell", ["0", "none", "2", "200"])
def test_a_component_that_stands_elsewhere_is_not_proven_beside_another_one_that_is_lost(cell):
    name = "test_resume.py::test_resume"
    table = [{**entry, "cells": {**CELLS, "optimizer": cell}} for entry in TABLE]
    given = [verdict("state_restored", "fail", "rng-not-restored", table=table)]
    found = states(evidence({name: trial(name, "fail", verdicts=given, codes=("rng-not-restored",))}))
    assert (
        found["resume-optimizer"].state == "not-tested" and "another reason" in found["resume-optimizer"].sentence
    )


def test_a_job_that_began_again_proves_no_component():
    name = "test_resume.py::test_resume"
    given = [verdict("state_restored", "fail", "restarted-from-scratch")]
    found = states(evidence({name: trial(name, "fail", verdicts=given, codes=("restarted-from-scratch",))}))
    assert found["resume-model"].state == found["random-streams"].state == "not-tested"
    assert found["rest"].state == "failed" and "restarted-from-scratch" in found["rest"].codes


def test_without_a_resume_no_component_was_compared():
    name = "test_resume.py::test_resume"
    found = states(evidence({name: trial(name, verdicts=[verdict("state_restored", table=[])])}))
    assert found["resume-model"].state == found["resume-scaler"].state == "not-tested"


def test_a_component_that_the_job_does_not_have_makes_its_row_not_apply():
    cells = {name: cell for name, cell in CELLS.items() if name not in ("scaler", "ema", "rng.torch")}
    table = [{**entry, "cells": cells} for entry in TABLE]
    changed = {
        name: trial(name, verdicts=[verdict(v.check, table=table) for v in trial(name).runs[0].verdicts])
        for name in evidence().trials
    }
    found = states(evidence(changed))
    assert found["resume-scaler"].state == found["resume-average"].state == "not-applicable"
    assert "no gradient scaler" in found["resume-scaler"].sentence
    # A job without any random stream cannot be: the record lacks it.
    assert found["random-streams"].state == "not-tested"


def test_a_skip_for_a_property_of_the_job_is_no_gap():
    name = "test_checkpoints.py::test_last_writer"
    alone = trial(name, "skipped", sentences=("one rank alone writes a checkpoint",), verdicts=())
    found = states(evidence({name: alone}))["sharded"]
    assert found.state == "not-applicable" and found.sentence == "one rank alone writes a checkpoint"
    # The same words of a job that ran on one rank say nothing of many.
    single = {
        key: tuple(replace(one, runs=tuple(replace(run, ranks=1) for run in one.runs)) for one in several)
        for key, several in evidence({name: alone}).trials.items()
    }
    assert states(replace(evidence(), trials=single))["sharded"].state == "not-tested"


def test_a_job_of_a_fixed_size_is_not_elastic():
    absent = {"test_elastic.py::test_shrink": None, "test_elastic.py::test_shrink_and_grow": None}
    assert states(evidence(absent, nodes=Nodes(2, 2)))["elastic"].state == "not-applicable"
    assert states(evidence(absent, nodes=Nodes(1, 1)))["elastic"].state == "not-tested"
    assert states(evidence(absent, nodes=Nodes(1, 2)))["elastic"].state == "not-tested"
    assert states(evidence(nodes=Nodes(2, 2)))["elastic"].state == "proven"


def test_a_hang_without_a_time_is_not_proven():
    names_ = ("test_network_partition.py::test_longer_than_the_timeout", "test_network_partition.py::test_one_way")
    found = states(evidence({name: trial(name, noticed_seconds=None) for name in names_}))
    assert found["hang"].state == "not-tested" and found["network-partition"].state == "proven"


def test_some_of_several_experiments_are_enough_where_a_row_says_so():
    one, two, three = (
        "test_node_loss.py::test_every_so_often", "test_schedule.py::test_killed_again_and_again",
        "test_stale_rendezvous.py::test_a_subset_again_and_again",
    )  # fmt: skip
    assert states(evidence({one: None, two: None}))["restart-budget"].state == "proven"
    assert states(evidence({one: None, two: None, three: None}))["restart-budget"].state == "not-tested"
    bad = trial(one, "fail", verdicts=[verdict("completed", "fail", "crash-loop")], codes=("crash-loop",))
    assert states(evidence({one: bad}))["restart-budget"].state == "failed"


def test_the_worst_of_several_suites_counts():
    name = "test_debris.py::test_interrupted_saves"
    bad = trial(name, "fail", verdicts=[verdict("no_debris", "fail", "debris-left")], codes=("debris-left",))
    unrun = trial(name, "skipped", sentences=(f"{NOT_RUN}: it takes long",), verdicts=())
    assert states(evidence({name: (trial(name), bad)}))["retention"].state == "failed"
    assert states(evidence({name: (trial(name), trial(name, "inconclusive"))}))["retention"].state == "not-tested"
    assert states(evidence({name: (unrun, trial(name))}))["retention"].state == "proven"


def test_an_assertion_of_the_experiment_itself_fails_its_rows():
    name = "test_elastic.py::test_shrink"
    found = states(evidence({name: trial(name, "fail", sentences=("assert [2, 2] == [2, 1]",))}))
    assert found["elastic"].state == found["rest"].state == "failed"


def lost(**fields):
    name = "test_resume.py::test_resume"
    given = [verdict("state_restored", "fail", "rng-not-restored"), verdict("same_data"), verdict("completed"),
             verdict("matches_reference", "fail", "rng-not-restored", "loss-diverged")]  # fmt: skip
    known = {"accepted": ("rng-not-restored",), "reasons": {"rng-not-restored": "dropout may differ"}, "codes": ()}
    return {name: trial(name, "accepted", verdicts=given, **{**known, **fields})}


STANDING = Acceptance("rng-not-restored", "dropout may differ", date(2099, 1, 1))


def test_an_accepted_loss_is_accepted_and_nothing_else_is():
    found = states(evidence(lost(), standing=(STANDING,)))
    for row in ("random-streams", "resume-losses"):
        assert found[row].state == "accepted" and found[row].reasons == {"rng-not-restored": "dropout may differ"}
    assert found["resume-model"].state == "proven" and found["rest"].state == "proven"


def test_an_acceptance_that_is_no_longer_in_force_accepts_nothing():
    for standing in (
        (),
        (replace(STANDING, experiment="test_twice"),),
        (replace(STANDING, code="ema-not-restored"),),
    ):
        found = states(evidence(lost(), standing=standing))["random-streams"]
        assert found.state == "failed" and "no longer in force" in found.sentence


def test_a_further_loss_beside_an_accepted_one_fails():
    name = "test_resume.py::test_resume"
    (one,) = lost().values()
    given = [*one.runs[0].verdicts[1:], verdict("state_restored", "fail", "rng-not-restored", "lr-schedule-off")]
    more = trial(name, "fail", verdicts=given, codes=("lr-schedule-off",), accepted=("rng-not-restored",))
    found = states(evidence({name: more}, standing=(STANDING,)))
    assert found["resume-schedule"].state == "failed"


def test_what_no_row_names_fails_the_last_row():
    odd = trial("test_loss_spike.py::test_loss_spike[lr_spike]", "fail", codes=("log-wrong",))
    found = states(evidence({"test_loss_spike.py::test_loss_spike[lr_spike]": odd}))["rest"]
    assert found.state == "failed" and found.codes == ("log-wrong",)
    gone = replace(odd, gap="its run is no longer stored", runs=())
    assert states(evidence({"x.py::test_x": gone}))["rest"].state == "failed"
    open_ = trial("x.py::test_x", "inconclusive", verdicts=())
    assert states(evidence({"x.py::test_x": open_}))["rest"].state == "not-tested"
    taken = trial("x.py::test_x", "accepted", accepted=("log-wrong",), reasons={"log-wrong": "known"})
    standing = Acceptance("log-wrong", "known")
    assert states(evidence({"x.py::test_x": taken}, standing=(standing,)))["rest"].state == "accepted"
    assert states(evidence({"x.py::test_x": taken}))["rest"].state == "failed"


def test_what_follows_from_a_named_cause_is_no_further_finding():
    name = "test_checkpoints.py::test_flipped_bit"
    given = [verdict("completed"), verdict("resumed_from_last_valid", "fail", "corrupt-accepted")]
    codes = ("corrupt-accepted", "optimizer-not-restored")
    findings = (
        CodedFinding(codes[0], "It took a corrupt one."),
        CodedFinding(codes[1], "Lost.", follows=codes[0]),
    )
    found = states(evidence({name: trial(name, "fail", verdicts=given, codes=codes, findings=findings)}))
    assert found["corruption-refused"].state == "failed" and found["rest"].state == "proven"
    apart = tuple(replace(one, follows="") for one in findings)
    found = states(evidence({name: trial(name, "fail", verdicts=given, codes=codes, findings=apart)}))
    assert found["rest"].state == "failed" and found["rest"].codes == (codes[1],)
