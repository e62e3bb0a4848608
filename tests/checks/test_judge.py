"""`judge`: what a verdict may rest on; and the registry."""

import pytest

from chaoskit import checks
from chaoskit.analysis.record.history import History
from chaoskit.errors import UsageError
from chaoskit.protocol.events import RecordGap
from chaoskit.verdict import Outcome, passed
from tests.history_writer import Writer, killed


class Broken:
    name = "broken"

    def __call__(self, case):
        raise ZeroDivisionError("oops")

    def to_json(self):
        return {"name": self.name}


class Happy(Broken):
    name = "happy"

    def __call__(self, case):
        return passed(self.name, "fine")


def outcomes(case, *asked):
    return [(v.check, v.outcome.value, v.codes) for v in checks.judge(case, asked)]


def test_the_faults_come_first_whether_asked_for_or_not():
    assert outcomes(killed().case(), Happy())[0][0] == "faults_took_effect"
    asked = outcomes(killed().case(), Happy(), checks.faults_took_effect())
    assert [name for name, _, _ in asked] == ["faults_took_effect", "happy"]
    assert [name for name, _, _ in outcomes(Writer().control().case(), Happy())] == ["happy"]


def test_a_check_that_crashes_is_undecided():
    verdict = checks.judge(killed().case(), [Broken(), Happy()])[1]
    assert verdict.codes == ("probe-blind",)
    assert "ZeroDivisionError: oops" in verdict.sentence


def test_without_any_observed_fault_nothing_was_tested():
    run = Writer().launch().live(until=25).fault(seen=False).died().launch().live(base=0, ends=True).exit(0).end()
    for verdict in checks.judge(run.case(), [checks.completed(), checks.resumed_from_last_valid()]):
        assert verdict.codes == ("fault-not-observed",)
    assert verdict.evidence["original"]["outcome"] == "fail"


def test_with_some_observed_faults_a_fail_stands_and_a_pass_does_not():
    run = Writer().launch().live(until=45).fault().fault(seen=False).died()
    case = run.launch().live(base=20, ends=True).exit(0).end().case()
    asked = outcomes(case, checks.completed(), checks.resumed_from_last_valid())
    told = {name: (outcome, codes) for name, outcome, codes in asked}
    assert told["completed"] == ("inconclusive", ("fault-not-observed",))
    assert told["resumed_from_last_valid"] == ("fail", ("stale-checkpoint",))


def test_a_damaged_record_carries_no_pass():
    case = killed().case()
    damaged = History.of([*killed().events, RecordGap("rank-0-1", 4)])
    assert outcomes(checks.Case(damaged, case.reference), Happy())[1] == (
        "happy", "inconclusive", ("probe-blind",),
    )  # fmt: skip


@pytest.mark.parametrize(
    "check",
    [
        checks.completed(),
        checks.controls_agree(),
        checks.faults_took_effect(),
        checks.log_right(),
        checks.matches_reference(rtol=0.01),
        checks.no_orphans(),
        checks.recovered_within(seconds=3.0, steps=None),
        checks.resumed_from_last_valid(),
        checks.state_restored(),
    ],
)
def test_every_check_comes_back_from_json(check):
    assert checks.from_json(check.to_json()) == check
    assert checks.REGISTRY[check.name]


def test_an_unknown_check_is_named():
    with pytest.raises(UsageError, match="vibes"):
        checks.from_json({"name": "vibes"})


def test_an_empty_history_never_passes_nor_crashes():
    for make in checks.REGISTRY.values():
        check = make(seconds=1) if make is checks.recovered_within else make()
        for reference in (None, killed().case().reference):
            verdict = check(checks.Case(History(), reference))
            if check.name != "controls_agree":
                assert verdict.outcome is Outcome.INCONCLUSIVE, verdict
