"""`recoveries_exact` on written records of schedules: which recovery was wrong, and when nothing was tested."""

from __future__ import annotations

import pytest

from chaoskit import checks
from chaoskit.checks.resumed_from_last_valid import ResumedFromLastValid
from chaoskit.verdict import Outcome, inconclusive
from tests.history_writer import Writer

CHECK = checks.recoveries_exact()


def strike(run, n, of, **told):
    """A strike of a schedule that is planned; with `seen` it also strikes."""
    text = f"kill rank 1 after 3 s (strike {n} of {of})"
    trigger = {"kind": "every", "delay": 3.0, "n": n, "of": of}
    run.say("fault.planned", fault=n - 1, what={"text": text, "action": {"kind": "kill"}, "trigger": trigger})
    if told.get("seen"):
        run.say("fault.requested", fault=n - 1)
        run.say("fault.applied", fault=n - 1, evidence={})
        run.say("fault.observed", fault=n - 1)


def schedule(*off, of=None, until=(25, 45, 65, 85), ended=True, **options):
    """A run of 100 steps with a save each 20, which is killed after steps 25, 45, ...; `off` says for each recovery
    what is not restored."""
    of = of or len(off)
    run = Writer(steps=100, **options).launch()
    base = 0
    for number in range(1, len(off) + 1):
        run.live(base=base, off=dict(off[number - 2]) if number > 1 else None, until=until[number - 1])
        strike(run, number, of, seen=True)
        run.died().launch()
        base = until[number - 1] // 20 * 20
    run.live(base=base, off=dict(off[-1]) if off else None, ends=True).exit(0)
    for number in range(len(off) + 1, of + 1):
        strike(run, number, of)
    return run.end() if ended else run


def test_every_recovery_was_exact():
    verdict = CHECK(schedule({}, {}, {}).case())
    assert verdict.outcome is Outcome.PASS
    assert "all 3 recoveries were exact: the job resumed from steps 20, 40, 60" in verdict.sentence
    assert [one["recovery"] for one in verdict.evidence["recoveries"]] == [1, 2, 3]


@pytest.mark.parametrize("wrong", [1, 2, 3])
def test_the_first_wrong_recovery_is_named_by_its_number(wrong):
    off = [{"rng.torch": 0} if number >= wrong else {} for number in (1, 2, 3)]
    verdict = CHECK(schedule(*off).case())
    assert verdict.outcome is Outcome.FAIL and verdict.codes == ("rng-not-restored",)
    assert verdict.sentence.startswith(f"recovery {wrong} of 3, after 'kill rank 1 after 3 s (strike {wrong} of 3)': ")
    assert verdict.evidence["recovery"] == wrong


def test_what_is_unclear_of_one_recovery_hides_no_later_one_that_was_wrong(monkeypatch):
    judge = ResumedFromLastValid.judge

    def unclear(check, case, resume):
        said = inconclusive("resumed_from_last_valid", "nobody knows", "nothing-to-resume")
        return said if resume.incarnation == 1 else judge(check, case, resume)

    monkeypatch.setattr(ResumedFromLastValid, "judge", unclear)
    verdict = CHECK(schedule({}, {}, {"rng.torch": 0}).case())
    assert verdict.outcome is Outcome.FAIL and verdict.sentence.startswith("recovery 3 of 3, ")
    verdict = CHECK(schedule({}, {}, {}).case())
    assert verdict.outcome is Outcome.INCONCLUSIVE and verdict.sentence.startswith("recovery 1 of 3, ")


def test_a_recovery_from_an_older_checkpoint_is_named():
    run = Writer(steps=100).launch().live(until=25)
    strike(run, 1, 2, seen=True)
    run.died().launch().live(base=20, until=65)
    strike(run, 2, 2, seen=True)
    run.died().launch().live(base=40, ends=True).exit(0).end()
    verdict = CHECK(run.case())
    assert verdict.codes == ("stale-checkpoint",) and verdict.sentence.startswith("recovery 2 of 2, after ")


def test_strikes_that_the_end_preceded_are_no_part_of_the_run():
    case = schedule({}, {}, of=12).case()
    assert len(case.history.faults) == 2
    effect, exact = checks.judge(case, [CHECK])
    assert effect.outcome is exact.outcome is Outcome.PASS


def test_a_job_that_ends_before_the_first_strike_tested_nothing():
    case = schedule(of=12).case()
    verdicts = checks.judge(case, [CHECK, checks.matches_reference()])
    assert {verdict.outcome for verdict in verdicts} == {Outcome.INCONCLUSIVE}
    assert {verdict.codes for verdict in verdicts} == {("fault-not-observed",)}
    assert "(strike 1 of 12)" in verdicts[0].sentence


def test_a_strike_that_was_not_seen_spoils_a_pass():
    run = schedule({}, of=3, ended=False)
    run.say("fault.requested", fault=1)
    run.say("fault.applied", fault=1, evidence={})
    _, exact = checks.judge(run.end().case(), [CHECK])
    assert exact.outcome is Outcome.INCONCLUSIVE and exact.codes == ("fault-not-observed",)


def test_a_job_that_does_not_come_back_fails_with_the_number():
    run = Writer(steps=100).launch().live(until=25)
    strike(run, 1, 2, seen=True)
    run.died().launch().live(base=20, until=45)
    strike(run, 2, 2, seen=True)
    run.died().launch().exit(1).end("gave-up")
    verdict = CHECK(run.case())
    assert verdict.outcome is Outcome.FAIL and "crash-loop" in verdict.codes
    assert verdict.sentence.startswith("recovery 2 of 2")


def test_a_run_without_any_fault_is_inconclusive():
    run = Writer().launch().live(ends=True).exit(0).end()
    verdict = CHECK(run.case())
    assert verdict.outcome is Outcome.INCONCLUSIVE and verdict.codes == ("fault-not-observed",)


def test_only_restarts_from_the_beginning_prove_nothing():
    run = Writer(steps=100).launch().live(until=5)
    strike(run, 1, 1, seen=True)
    run.died().launch().live(base=0, ends=True).exit(0).end()
    verdict = CHECK(run.case())
    assert verdict.outcome is Outcome.INCONCLUSIVE and verdict.codes == ("nothing-to-resume",)
