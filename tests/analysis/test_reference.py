"""`Reference`: what controls say, and when they say nothing."""

from dataclasses import replace

import pytest

from chaoskit import checks
from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.reference import Reference
from chaoskit.errors import ReferenceFailed, UsageError
from chaoskit.protocol.events import RecordGap
from chaoskit.verdict import Outcome
from tests.history_writer import Writer, killed, truth


def reference(*runs):
    return Reference.of([run.history() for run in runs])


def both(**options):
    return reference(Writer(**options).control(), Writer(**options).control())


def test_the_plan_of_a_run():
    found = both(steps=50, every=20)
    assert (found.steps, found.world_size, found.saves) == (50, 2, (20, 40))
    assert (found.savers(20), found.save_calls(1, 20), found.save_calls(1, 30)) == ((0, 1), 1, 0)
    assert found.deterministic


def test_a_final_save_counts_and_one_at_the_start_and_an_export_do_not():
    assert both(steps=40, every=20).saves == (20, 40)
    run = Writer(steps=30, every=20).launch().live(extra={30: "model.pt"})
    run.save(0)
    run.save(30, full=False)
    found = reference(*[run.ended().exit(0).end()] * 2)
    assert found.saves == (20, 30)
    run = Writer(steps=30, every=20).launch().live().save(25, full=False).ended().exit(0).end()
    assert reference(run, run).saves == (20,)


def test_middles_avoid_the_step_after_a_save():
    def control():
        return Writer(steps=60, every=10).launch().live(epochs=(0, 20, 40), ends=True).exit(0).end()

    found = reference(control(), control())
    assert found.epochs == (0, 20, 40)
    assert found.middle_of_epoch(2) in range(22, 41)
    assert all(found.middle_of_epoch(n) - 1 not in found.saves for n in (1, 2, 3, 4, 9))
    assert found.middle_after_save(2) == 26
    assert found.middle_after_save(6) == 60
    with pytest.raises(UsageError, match="no save 7"):
        found.middle_after_save(7)
    with pytest.raises(UsageError, match="middle_of_epoch"):
        found.middle_of_epoch(0)


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
@pytest.mark.parametrize("every", [1, 2, 5, 100])
def test_a_middle_is_always_a_step_of_the_training(steps, every):
    found = both(steps=steps, every=every)
    for n in (1, 2, 5):
        assert min(2, steps) <= found.middle_of_epoch(n) <= max(2, steps)


def test_a_control_that_did_not_finish_is_no_reference():
    run = Writer().launch().live().died().end("gave-up")
    with pytest.raises(ReferenceFailed, match=r"control 2 of 2.*failed by itself") as error:
        reference(Writer().control(), run)
    assert error.value.code == "reference-failed"


def test_a_control_that_was_restarted_is_no_reference():
    run = Writer().launch().live(until=20).restarted().live(base=20).exit(0).end()
    with pytest.raises(ReferenceFailed, match="restarted 1 times"):
        reference(run, run)


def blind(run, match):
    with pytest.raises(ReferenceFailed, match=match) as error:
        reference(run, run)
    assert error.value.code == "probe-blind"


def test_what_the_probe_did_not_see_is_explained():
    blind(Writer().launch().exit(0).end(), "the probe recorded no training")
    blind(Writer(steps=0).launch().live(ends=True).exit(0).end(), "recorded no optimizer step")
    blind(Writer().launch().live(only=[0]).exit(0).end(), "rank 1 left no record")
    run = Writer().launch().live().exit(0).end()
    run.events = [e for e in run.events if not (e.kind == "step" and e.source[5] == "1" and e["n"] > 30)]
    blind(run, "rank 0 took 60, rank 1 took 30")
    run.events = [e for e in run.events if not (e.kind == "step" and e["n"] in (7, 60))]
    run.events = [e for e in run.events if not (e.kind == "step" and e["n"] > 30)]
    blind(run, "the record of rank 0 lacks steps")
    whole = Writer().control()
    with pytest.raises(ReferenceFailed, match="damaged"):
        Reference.of([History.of([*whole.events, RecordGap("rank-0-1", 3)])] * 2)


def test_one_control_is_none():
    with pytest.raises(UsageError, match="controls"):
        reference(Writer().control())


def parting(change):
    other = Writer(tell=lambda *key: truth(*key) + ("'" if change(*key) else "")).control()
    found = reference(Writer().control(), other)
    assert found.divergence is not None
    return found.divergence


def test_a_model_built_before_the_seed():
    found = parting(lambda name, rank, position: name in ("model", "optimizer"))
    assert (found.step, found.rank, set(found.components)) == (1, 0, {"model", "optimizer"})
    assert "built before the seed" in found.sentence
    assert "batch" in found.sentence


def test_data_that_nobody_seeded():
    found = parting(lambda name, rank, position: name == "batch" and rank == 1)
    assert (found.rank, found.components) == (1, ("batch",))
    assert "order of the data is probably not seeded" in found.sentence
    assert "random numbers" in parting(lambda name, *_: name.startswith("rng")).sentence


def test_an_operation_that_is_not_deterministic():
    found = parting(lambda name, rank, position: name == "model" and position >= 7)
    assert found.step == 8
    assert found.values["model"] == ("model@7", "model@7'")
    assert "not deterministic" in found.sentence


def test_controls_of_unequal_length():
    found = reference(Writer(steps=20).control(), Writer(steps=21).control())
    assert found.divergence is not None
    assert (found.divergence.step, found.divergence.components) == (21, ("steps",))


def test_what_agrees_between_controls_that_differ():
    other = Writer(tell=lambda *key: truth(*key) + ("'" if key[0] == "model" else "")).control()
    assert "model" not in reference(Writer().control(), other).agreeing
    assert "lr" in reference(Writer().control(), other).agreeing


def salted(salt):
    """Python's own stream, as every process seeds it from the system."""
    return lambda name, *rest: truth(name, *rest) + (salt if name == "rng.python" else "")


def test_a_stream_that_nobody_seeds_and_nothing_needs_is_left_out():
    found = reference(Writer(tell=salted("a")).control(), Writer(tell=salted("b")).control())
    assert found.deterministic and found.idle == {"rng.python"} and "rng.python" not in found.agreeing
    run = killed(tell=salted("c")).case(found)
    for check in (checks.controls_agree(), checks.state_restored(), checks.matches_reference()):
        assert check(run).outcome is Outcome.PASS, check(run)
    # What else is lost still shows.
    lost = killed(tell=salted("c"), off={"rng.torch": 0}).case(found)
    assert checks.state_restored()(lost).codes == ("rng-not-restored",)


def test_a_stream_that_something_needs_is_not():
    other = Writer(tell=lambda name, *rest: salted("b")(name, *rest) + ("'" if name == "model" else ""))
    found = reference(Writer(tell=salted("a")).control(), other.control())
    assert not found.deterministic and not found.idle


def test_the_middle_of_an_epoch_comes_after_a_save_inside_it():
    def control(every):
        return Writer(steps=60, every=every).launch().live(epochs=(0, 20, 40), ends=True).exit(0).end()

    # From a save between two epochs, a job that forgets its place in the data resumes rightly by accident.
    assert reference(control(10), control(10)).middle_of_epoch(2) in range(32, 40)
    assert reference(control(20), control(20)).middle_of_epoch(2) == 31


def late_savers(every, steps=60, epochs=(0, 10, 20, 30, 40, 50)):
    """A job whose first save comes after several epochs."""
    run = Writer(steps=steps, every=every, epochs=epochs)
    return Reference.of([run.control().history(), run.control().history()])


def test_a_step_to_strike_at_lies_behind_the_first_save_that_could_be_resumed_from():
    assert late_savers(20).middle_of_epoch(2) >= late_savers(20).first_to_resume_from == 22
    assert late_savers(20).middle_of_epoch(5) == late_savers(1000).middle_of_epoch(5)
    # One save, at the end or just before: nothing can be aimed at.
    for every in (60, 59, 1000):
        reference = late_savers(every)
        assert reference.first_to_resume_from is None
        assert 11 <= reference.middle_of_epoch(2) <= 20
    assert late_savers(58).middle_of_epoch(2) == late_savers(58).first_to_resume_from == 60


def slow_writer(behind, *, steps=60):
    """A job whose first save, after step 20, ends only when so many more steps were taken."""
    run = Writer(steps=steps, every=20).launch().live(ends=True).exit(0).end()
    for rank in (0, 1):
        own = [event for event in run.events if event.source.startswith(f"rank-{rank}")]
        end = next(event for event in own if event.kind == "save.end" and event.data["n"] == 20)
        late = next(event.t for event in own if event.kind == "step" and event.data["n"] == 20 + behind)
        run.events[run.events.index(end)] = replace(end, t=late + 0.001)
    run.events.sort(key=lambda event: event.t)
    return reference(run, run)


def test_a_save_that_ends_many_steps_later_can_be_resumed_from_later_still():
    assert slow_writer(0).first_to_resume_from == 22
    assert slow_writer(7).first_to_resume_from == 20 + 2 * 7 + 2
    assert slow_writer(7, steps=30).first_to_resume_from == 20 + 7 + 2
    assert slow_writer(7, steps=28).first_to_resume_from is None


def test_settings_that_leave_results_to_chance_are_named():
    from chaoskit.analysis.reference.divergence import _explain, loose

    strict = {"deterministic algorithms": "True", "cudnn benchmark": "False"}
    assert loose(strict, on_cuda=False) == loose({}, on_cuda=True) == []
    assert loose(strict | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}, on_cuda=True) == []
    assert loose(strict, on_cuda=True) == ["CUBLAS_WORKSPACE_CONFIG is not set"]
    off = {"deterministic algorithms": "False", "cudnn benchmark": "True"}
    named = loose(off, on_cuda=False)
    assert named == ["torch.use_deterministic_algorithms is off", "torch.backends.cudnn.benchmark is on"]
    assert _explain(3, 0, {"loss"}, ["batch"], named).endswith(f"names it); {', '.join(named)}")
    # Other inputs have another cause.
    assert "benchmark" not in _explain(1, 0, {"loss", "batch"}, [], named)
