"""A random stream that was not restored, and on which no loss and no batch depends, is a weakness."""

from itertools import pairwise

import pytest

from chaoskit import checks
from chaoskit.analysis.diagnosis import diagnose
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case
from chaoskit.engine.result import of_verdicts
from chaoskit.verdict import Outcome, Verdict
from tests.history_writer import Writer, truth

RANKS, LATER = (0, 1), range(21, 61)
UNUSED = ("rng-unused-not-restored",)


def drawn(name, rank, position):
    """Every stream is drawn from, by the logging, say."""
    return f"{name}.{rank}@{position}" if name == "rng.python" else truth(name, rank, position)


def resumed(*, until=None, stream="rng.python", ranks=RANKS, patch=None, losses=None, tell=drawn, **writer):
    """The stream begins anew after the resume, and goes on from there."""
    run = Writer(tell=tell, **writer).launch().live(until=25).fault().died()
    own = {(rank, step, stream): f"{stream}.{rank} anew@{step - 21}" for rank in ranks for step in LATER}
    run.launch().live(base=20, until=until, ends=True, patch={**own, **(patch or {})}, losses=losses or {})
    return run.exit(0).end().case()


def test_it_has_a_code_of_its_own_and_says_why():
    case = resumed()
    for check in (checks.state_restored, checks.matches_reference):
        verdict = check()(case)
        assert (verdict.outcome, verdict.codes) == (Outcome.FAIL, UNUSED)
        assert "but no loss and no batch differed through step 60" in verdict.sentence
        assert verdict.weakness and verdict.to_json()["weakness"] is True
        assert Verdict.from_json(verdict.to_json()) == verdict
    assert {one["harmless"] for one in checks.state_restored()(case).evidence["findings"]} == {60}
    assert checks.same_data()(case).outcome is Outcome.PASS


def test_machines_can_read_the_rank():
    weak = of_verdicts("test_resume", [checks.state_restored()(resumed())])
    assert weak.weakness and weak.to_json()["weakness"] is True
    patch = {(0, step, "lr"): f"other@{step}" for step in LATER}
    both = of_verdicts("test_resume", [checks.state_restored()(resumed(patch=patch))])
    assert not both.weakness and not both.to_json()["weakness"]


@pytest.mark.parametrize("ranks", [(0,), (1,)])
def test_on_one_rank_alone(ranks):
    assert checks.state_restored()(resumed(ranks=ranks)).codes == UNUSED


@pytest.mark.parametrize("name", ["model", "batch", "loss", "ema", "buffers"])
@pytest.mark.parametrize("step", [21, 50, 60])
def test_anything_that_differs_makes_it_a_problem(name, step):
    """On the other rank, and in the last step."""
    if name == "loss":
        case = resumed(losses={(1, step): (3.0).hex()}, ranks=(0,))
    else:
        case = resumed(patch={(1, step, name): "other"}, ranks=(0,))
    codes = checks.matches_reference()(case).codes
    assert "rng-not-restored" in codes and UNUSED[0] not in codes


def test_a_run_that_never_came_to_its_end_shows_nothing():
    assert checks.state_restored()(resumed(until=59)).codes == ("rng-not-restored",)


def test_a_stream_that_nobody_drew_from_after_the_resume_shows_nothing():
    """Drawn from once, in step 10: to shuffle, perhaps, and the next time was to come."""

    def once(name, rank, position):
        return f"{name}@{position > 10}" if name == "rng.python" else truth(name, rank, position)

    patch = {(rank, step, "rng.python"): "anew" for rank in RANKS for step in LATER}
    assert checks.state_restored()(resumed(tell=once, patch=patch)).codes == ("rng-not-restored",)


def test_what_was_not_recorded_cannot_have_agreed():
    names = ("model", "optimizer", "rng.python")
    assert checks.state_restored()(resumed(names=names)).codes == ("rng-not-restored",)


def test_two_resumes_are_judged_together():
    run = Writer(tell=drawn).launch().live(until=25).fault().died()
    first = {(rank, step, "rng.python"): f"anew.{rank}@{step - 21}" for rank in RANKS for step in range(21, 46)}
    run.launch().live(base=20, until=45, patch=first).fault().died()
    second = {(rank, step, "rng.python"): f"again.{rank}@{step - 41}" for rank in RANKS for step in range(41, 61)}
    case = run.launch().live(base=40, ends=True, patch=second).exit(0).end().case()
    assert {one.code for one in diagnose(case).findings} == set(UNUSED)
    assert {one.incarnation for one in diagnose(case).findings} == {1, 2}


def test_an_earlier_incarnation_that_went_wrong_otherwise_does_not_matter():
    run = Writer(tell=drawn).launch().live(until=25).fault().died()
    run.launch().live(base=20, until=35, off={"lr": 0}, drift=False).fault().died()
    second = {(rank, step, "rng.python"): f"again.{rank}@{step - 21}" for rank in RANKS for step in LATER}
    case = run.launch().live(base=20, ends=True, patch=second).exit(0).end().case()
    found = {(one.incarnation, one.code) for one in diagnose(case).findings}
    assert (2, *UNUSED) in found


def evaluates(name, rank, position):
    """torch's stream moves only where the job evaluates, every ten steps: its loaders draw seeds that nobody uses."""
    return f"{name}.{rank}@{position // 10}" if name == "rng.torch" else truth(name, rank, position)


def beside_other_data(*, drawn=range(1, 6), between=(), tell=evaluates):
    """The data begin anew, and torch's stream, of which the moves `drawn` of the reference are known to be idle. Each
    goes through the states `between`."""

    def idle(writer, rank):
        source = next(e.source for e in writer.events if e.kind == "step" and e.source.startswith(f"rank-{rank}-"))
        for move in drawn:
            states = [f"rng.torch.{rank}@{move - 1}", *(f"{each}@{move}" for each in between)]
            states.append(f"rng.torch.{rank}@{move}")
            for before, after in pairwise(states):
                writer.say("idle_draw", source, n=0, stream="rng.torch", before=before, after=after)

    run = Writer(tell=tell)
    controls = [run.control() for _ in range(2)]
    for control in controls:
        for rank in RANKS:
            idle(control, rank)
    run.launch().live(until=25).fault().died()
    own = {
        (rank, step, name): tell(name, rank, step - 21) for rank in RANKS for step in LATER
        for name in ("batch", "rng.torch")
    }  # fmt: skip
    run.launch().live(base=20, ends=True, patch=own).exit(0).end()
    return Case(run.history(), Reference.of([one.history() for one in controls]))


def test_a_stream_that_only_loaders_without_workers_draw_from_is_no_cause():
    found = beside_other_data()
    codes = checks.state_restored()(found).codes
    assert codes[-1] == UNUSED[0] and codes[0].startswith("data-")
    assert "rng-not-restored" not in checks.matches_reference()(found).codes
    streams = [one for one in checks.state_restored()(found).evidence["findings"] if one["component"] == "rng.torch"]
    assert [one["idle"] for one in streams] == [True, True]
    assert not checks.state_restored()(found).weakness  # the data are none


def test_one_evaluation_may_make_several_loaders():
    assert UNUSED[0] in checks.state_restored()(beside_other_data(between=("a", "b"))).codes


@pytest.mark.parametrize("drawn", [(), (1, 2), (1, 2, 3, 4), (2, 3, 4, 5)])
def test_one_move_that_is_not_known_to_be_idle_may_be_a_shuffle(drawn):
    assert "rng-not-restored" in checks.state_restored()(beside_other_data(drawn=drawn)).codes


def test_a_stream_that_moves_in_each_step_is_used():
    assert "rng-not-restored" in checks.state_restored()(beside_other_data(tell=truth)).codes


@pytest.mark.parametrize("last", [1, 20])
def test_a_stream_that_was_only_used_before_the_resume_shows_nothing(last):
    """It may shuffle the next epoch, as it did the ones before."""

    def once(name, rank, position):
        return f"{name}.{rank}@{min(position, last)}" if name == "rng.torch" else truth(name, rank, position)

    found = beside_other_data(tell=once, drawn=())
    assert "rng-not-restored" in checks.state_restored()(found).codes
