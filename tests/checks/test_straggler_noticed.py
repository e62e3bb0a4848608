"""`straggler_noticed`: who says that a rank is slow, or acts, in time; and who does not."""

import pytest

from chaoskit.checks import straggler_noticed
from chaoskit.checks.registry import from_json
from chaoskit.errors import UsageError
from chaoskit.verdict import Outcome
from tests.history_writer import Writer


def slow(*, kind="throttle", seen=True):
    """A job in which rank 1 is slow, up to where the fault has been healed."""
    run = Writer().launch().live(until=25)
    run.say("fault.planned", fault=0, what={"text": "throttle rank 1", "action": {"kind": kind}})
    run.say("fault.applied", fault=0, evidence={})
    if seen:
        run.say("fault.observed", fault=0, evidence={})
    return run


def ends(run):
    """The same job, which goes on to its end."""
    run.say("fault.healed", fault=0, evidence={})
    return run.exit(0).end().case()


def test_a_job_that_says_so():
    run = slow()
    run.t += 2.0
    run.say("notice", launch=0, text="straggler: rank 1")
    verdict = straggler_noticed(within=5)(ends(run))
    assert verdict.outcome is Outcome.PASS and "the job printed: straggler: rank 1" in verdict.sentence
    assert verdict.evidence["said"] == pytest.approx(2.0, abs=0.1)


def test_a_job_that_says_so_too_late():
    run = slow()
    run.t += 20.0
    run.say("notice", launch=0, text="straggler: rank 1")
    verdict = straggler_noticed(within=5)(ends(run))
    assert verdict.codes == ("straggler-unnoticed",) and "the limit is 5 s" in verdict.sentence


def test_what_was_said_before_the_fault_is_no_notice():
    run = Writer().launch().live(until=25).say("notice", launch=0, text="rank 0 is slow")
    run.say("fault.planned", fault=0, what={"text": "throttle rank 1", "action": {"kind": "throttle"}})
    run.say("fault.applied", fault=0, evidence={}).say("fault.observed", fault=0, evidence={})
    assert straggler_noticed()(ends(run)).codes == ("straggler-unnoticed",)


def test_a_job_that_says_nothing():
    verdict = straggler_noticed()(ends(slow()))
    assert verdict.outcome is Outcome.FAIL and verdict.codes == ("straggler-unnoticed",)
    assert "printed nothing" in verdict.sentence


def test_a_job_that_acts():
    run = slow()
    run.t += 3.0
    run.died().launch().live(base=20).exit(0).end()
    verdict = straggler_noticed(within=5)(run.case())
    assert verdict.outcome is Outcome.PASS and "ended or restarted its ranks" in verdict.sentence
    assert straggler_noticed(within=1)(run.case()).codes == ("straggler-unnoticed",)


@pytest.mark.parametrize("run", [slow(seen=False), slow(kind="kill")])
def test_where_nobody_was_slow_nothing_was_tested(run):
    assert straggler_noticed()(ends(run)).codes == ("fault-not-observed",)


def test_it_comes_back_from_json_and_names_bad_arguments():
    assert from_json(straggler_noticed(within=7).to_json()) == straggler_noticed(within=7)
    with pytest.raises(UsageError, match="within must be a positive number"):
        straggler_noticed(within=0)
