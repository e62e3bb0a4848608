"""`saved_within_grace`: an emergency save that the end of the grace cuts short, and all that only looks like one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaoskit.checks import saved_within_grace
from chaoskit.checks.registry import from_json
from chaoskit.verdict import Outcome
from tests.history_writer import Writer

GRACE = 2.0


def evicted(
    *, before=None, after=None, ended=None, killed=None, used_up=True, observed=True, control=None, node=1,
    kind="evict_node",
):  # fmt: skip
    """A job whose node 1 has rank 1 and gets SIGTERM after step 25; `before` and `after` that, ranks save or do not.
    `control` is how many seconds a save takes in the reference."""
    run = Writer().launch().live(until=25)
    if before is not None:
        run.save(**before)
    run.t += 0.1
    since = run.t
    run.say("fault.planned", fault=0, what={"text": "evict node 1", "action": {"kind": kind, "node": 1}})
    run.say("fault.applied", fault=0, evidence={"node": f"node{node}", "since": since - 1})
    run.t += 0.5
    if after is not None:
        run.save(**after)
    run.t = since + (killed or ended)
    about = {"since": since, "grace": GRACE, "ended": ended, "killed": killed, "grace_used_up": used_up}
    if observed:
        run.say("fault.observed", fault=0, evidence=about)
    run.died().launch().live(base=20, ends=True).exit(0).end()
    run.events = [_on_its_node(event) for event in run.events]
    case = run.case()
    if control is not None:
        for history in case.reference.controls:
            for inc in history.incarnations:
                for lifetime in inc.ranks.values():
                    lifetime.saves = [replace(one, ended=one.begun + control) for one in lifetime.saves]
    return case


def _on_its_node(event):
    if event.kind != "process.start":
        return event
    return replace(event, data={**event.data, "node": f"node{event['rank']}"})


@pytest.mark.parametrize("kind", ["evict_node", "drain_node"])
def test_a_save_that_the_end_of_the_grace_cuts_short(kind):
    verdict = saved_within_grace()(evicted(kind=kind, after={"unfinished": True}, killed=2.1, control=7.5))
    assert verdict.outcome is Outcome.FAIL and verdict.codes == ("grace-too-short",)
    assert "its grace of 2 s, while rank 1 was in a save that it had begun 0.5 s after SIGTERM" in verdict.sentence
    assert "that had lasted 1.6 s; a whole save has taken up to 7.5 s" in verdict.sentence
    assert verdict.evidence["grace"] == GRACE and verdict.evidence["longest_save"] == pytest.approx(7.5)
    assert [one["seconds"] for one in verdict.evidence["saves"]] == [None]


def test_a_save_that_was_done_in_time():
    verdict = saved_within_grace()(evicted(after={}, ended=1.2))
    assert (
        verdict.outcome is Outcome.PASS
        and "ended by itself 1.2 s after SIGTERM; its grace is 2 s" in verdict.sentence
    )
    (save,) = verdict.evidence["saves"]
    assert save["rank"] == 1 and 0.4 < save["begun"] < 0.6 and save["seconds"] > 0


def test_a_save_that_had_begun_before_is_no_emergency_save():
    verdict = saved_within_grace()(evicted(before={"unfinished": True}, killed=2.1))
    assert (
        verdict.outcome is Outcome.PASS and "no save that it had begun after SIGTERM was open" in verdict.sentence
    )


def test_who_was_killed_after_its_save_has_lost_nothing():
    assert saved_within_grace()(evicted(after={}, killed=2.1)).outcome is Outcome.PASS


def test_saves_on_other_nodes_have_their_own_grace():
    assert saved_within_grace()(evicted(after={"unfinished": True}, killed=2.1, node=5)).outcome is Outcome.PASS


def test_where_the_probe_sees_no_saves_it_is_not_known():
    case = evicted(killed=2.1)
    for history in case.reference.controls:
        for inc in history.incarnations:
            for lifetime in inc.ranks.values():
                lifetime.saves = []
    verdict = saved_within_grace()(case)
    assert verdict.outcome is Outcome.INCONCLUSIVE and verdict.codes == ("probe-blind",)


def test_a_save_that_the_job_itself_cut_short():
    verdict = saved_within_grace()(evicted(after={"unfinished": True}, ended=1.2))
    assert verdict.outcome is Outcome.INCONCLUSIVE and "the grace did not cut it short" in verdict.sentence


def test_a_kill_before_the_end_of_the_grace_says_nothing_of_it():
    verdict = saved_within_grace()(evicted(after={"unfinished": True}, killed=0.7, used_up=False))
    assert verdict.outcome is Outcome.INCONCLUSIVE and "before the end of its grace of 2 s" in verdict.sentence


def test_without_an_eviction_nothing_was_tested():
    assert saved_within_grace()(evicted(ended=1.2, observed=False)).codes == ("fault-not-observed",)


def test_it_comes_back_from_json():
    assert from_json(saved_within_grace().to_json()) == saved_within_grace()
