"""Whatever the record holds, every check gives a verdict and a sentence: no traceback, no check that crashed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit import checks
from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case, judge
from chaoskit.protocol.events import Event
from chaoskit.report.story import story
from chaoskit.verdict import Outcome
from tests.history_writer import Writer, killed

EVERY = [checks.REGISTRY[name]() for name in checks.REGISTRY if name != "recovered_within"]


def content(rank, position):
    return {"model.a": f"a@{position}", "tokens": f"={position}"}


def samples(rank, position):
    return [f"{position}.{rank}.{i}" for i in range(2)]


RICH = {"samples": samples, "content": content}
REFERENCE = Reference.of([Writer(**RICH).control().history() for _ in range(2)])


def verdicts(case):
    found = judge(case, EVERY)
    assert not [v.sentence for v in found if "the check itself failed" in v.sentence]
    assert all(verdict.sentence for verdict in found)
    assert [str(moment) for moment in story(case, found)]
    return {verdict.check: verdict for verdict in found}


def resumed(**second):
    run = Writer(**RICH).launch().live(until=25).fault().died()
    return run.launch().live(base=20, ends=True, **second).exit(0).end()


def test_a_ledger_with_missing_ranks():
    found = verdicts(Case(resumed(only=[0]).history(), REFERENCE))
    assert found["same_data"].outcome is not Outcome.PASS
    assert found["state_restored"].outcome is not Outcome.PASS


def test_a_rank_that_the_reference_has_not():
    run = Writer(ranks=3, **RICH).launch().live(until=25).fault().died().launch().live(base=20, ends=True)
    found = verdicts(Case(run.exit(0).end().history(), REFERENCE))
    assert found["matches_reference"].outcome is not Outcome.PASS


def test_a_component_that_appears_only_after_the_resume():
    patch = {(rank, step, "ema.new"): f"new@{step}" for rank in (0, 1) for step in range(21, 61)}
    run = Writer(**RICH).launch().live(until=25).fault().died()
    run.names = (*run.names, "ema.new")
    found = verdicts(Case(run.launch().live(base=20, ends=True, patch=patch).exit(0).end().history(), REFERENCE))
    assert found["completed"].outcome is Outcome.PASS


def test_a_component_that_the_reference_lacks():
    plain = Reference.of([Writer(names=("model", "lr")).control().history() for _ in range(2)])
    found = verdicts(Case(resumed().history(), plain))
    assert found["same_data"].codes == ("probe-blind",)


@pytest.mark.parametrize("text", ["nan", "inf", "", "tensor:0123", "none of these"])
def test_losses_and_fingerprints_that_are_no_numbers(text):
    losses = {(rank, step): text for rank in (0, 1) for step in range(30, 61)}
    patch = {(rank, step, "model"): text or "nan" for rank in (0, 1) for step in range(30, 61)}
    found = verdicts(Case(resumed(losses=losses, patch=patch).history(), REFERENCE))
    assert found["matches_reference"].outcome is not Outcome.PASS


def test_no_loss_at_all():
    for writer in (resumed(), killed()):
        events = [
            Event(e.kind, e.t, e.source, {**e.data, "losses": []}) if e.kind == "step" else e
            for e in writer.events
        ]
        verdicts(Case(History.of(events), REFERENCE))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_record_that_lacks_anything(data):
    """Events left out, cut off or told twice, of any process; with as many ranks as before, or fewer or more."""
    world = data.draw(st.sampled_from([None, 1, 3]))
    events = list(resumed(off={"optimizer": 0}, world=world).events)
    for _ in range(data.draw(st.integers(1, 4))):
        sources = sorted({event.source for event in events})
        source = data.draw(st.sampled_from(sources or ["none"]))
        own = [event for event in events if event.source == source]
        cut = data.draw(st.integers(0, max(0, len(own) - 1)))
        match data.draw(st.sampled_from(["cut", "drop", "kind", "twice", "swap"])):
            case "cut":
                kept = {id(event) for event in own[:cut]}
                events = [event for event in events if event.source != source or id(event) in kept]
            case "drop" if own:
                events = [event for event in events if event is not own[cut]]
            case "kind" if own:
                events = [event for event in events if event.kind != own[cut].kind]
            case "twice" if own:
                events.insert(events.index(own[cut]), own[cut])
            case "swap" if len(own) > 1 and cut:
                i, j = events.index(own[cut]), events.index(own[cut - 1])
                events[i], events[j] = events[j], events[i]
    found = verdicts(Case(History.of(events), REFERENCE))
    assert found["state_restored"].outcome is not Outcome.PASS or "nothing to restore" in (
        found["state_restored"].sentence
    )
