"""What a corruption came to: noticed, gone, faded, silent; each for its own reason."""

import math
from dataclasses import replace

import pytest

from chaoskit.studies.sdc.trace import End, judge
from chaoskit.studies.sdc.windows import WatchWindow
from tests.sdc_runs import Uninterrupted, loss, trace

WINDOW = WatchWindow(13, 24)
REFERENCE = Uninterrupted()


def judged(**told):
    return judge(trace(WINDOW, **told), WINDOW, REFERENCE, tolerance=1e-4)


def off(rank, step, by):
    return {(rank, step): ((float.fromhex(loss(rank, step)) * (1 + by)).hex(),)}


def wrong(rank, step):
    """A model that is another one from the step after the struck one on, and changes."""
    return {"model": f"wrong@{step}"} if step > WINDOW.struck else {}


def test_a_state_that_is_the_uninterrupted_one_again_is_gone_whatever_the_losses_were():
    assert judged().becomes == "gone"
    found = judged(losses=off(1, 16, 0.5))
    assert found.becomes == "gone" and found.worst == pytest.approx(0.5) and found.last == 0.0


def test_what_no_loss_tells_has_faded_and_what_one_loss_tells_is_silent():
    assert judged(change=wrong).becomes == "faded"
    assert judged(change=wrong, losses=off(0, 20, 0.9e-4)).becomes == "faded"
    found = judged(change=wrong, losses=off(0, 20, 2e-4))
    assert found.becomes == "silent" and found.step is None and found.worst == pytest.approx(2e-4)


def test_not_a_number_that_is_trained_on_is_silent():
    found = judged(change=wrong, losses={(0, 20): ("nan",)})
    assert found.becomes == "silent" and math.isinf(found.worst) and "not finite" in found.how


def test_an_update_that_is_left_out_was_noticed_and_when():
    def stands(rank, step):
        return {"model": "model@14"} if step >= 15 else {}

    found = judged(change=lambda rank, step: stands(rank, step) if step == 15 else wrong(rank, step))
    assert (found.becomes, found.step) == ("detected", 15) and "skipped an update" in found.how
    found = judged(losses={(0, 16): (loss(0, 16), loss(0, 17))})
    assert (found.becomes, found.step) == ("detected", 16)


def test_an_update_that_the_uninterrupted_run_leaves_out_as_well_tells_nothing():
    class Overflows(Uninterrupted):
        def step(self, rank, number):
            found = super().step(rank, number)
            return replace(found, components={**found.components, "model": "model@14"}) if number == 15 else found

    same = trace(WINDOW, change=lambda rank, step: {"model": "model@14"} if step == 15 else {})
    assert judge(same, WINDOW, Overflows(), tolerance=1e-4).becomes == "gone"


def test_a_model_that_is_not_a_number_throughout_stands_still_and_nobody_has_noticed():
    def dead(rank, step):
        return {"model": "nan", "nonfinite": ("model",)} if step > WINDOW.struck else {}

    nan = {(rank, step): ("nan",) for rank in range(2) for step in range(16, 25)}
    assert judged(change=dead, losses=nan).becomes == "silent"


def test_a_rollback_was_noticed():
    found = judged(change=lambda rank, step: {"loaded": True} if step == 17 else {})
    assert (found.becomes, found.step, found.over) == ("detected", 17, True)


@pytest.mark.parametrize(
    "end, becomes",
    [
        (End(True, "the loss of step 14 is nan"), "detected"),
        (End(False, "IndexError: out of range"), "crashed"),
        (End(False, "nothing happened any more", hung=True), "hung"),
    ],
)
def test_how_the_job_ended_says_what_it_was(end, becomes):
    found = judged(until=16, end=end)
    assert (found.becomes, found.step, found.how, found.over) == (becomes, 16, end.words, True)


def test_what_is_compared_does_not_hang_on_how_far_one_rank_had_come_when_it_died():
    end = End(True, "ended")
    one, other = trace(WINDOW, until=16, end=end), trace(WINDOW, until=16, end=end)
    del other.seen[1][16]
    longer = trace(WINDOW, until=15, end=end)
    assert (
        judge(other, WINDOW, REFERENCE, tolerance=0.0).signature
        == judge(longer, WINDOW, REFERENCE, tolerance=0.0).signature
    )
    assert (
        judge(one, WINDOW, REFERENCE, tolerance=0.0).signature
        != judge(longer, WINDOW, REFERENCE, tolerance=0.0).signature
    )


def test_a_window_opens_only_where_every_rank_is_what_it_should_be():
    assert trace(WINDOW).opened(WINDOW, REFERENCE) and trace(WINDOW).exact(WINDOW, REFERENCE)
    torn = trace(WINDOW, change=lambda rank, step: {"model": "x"} if (rank, step) == (1, 13) else {})
    assert not torn.opened(WINDOW, REFERENCE)
    later = trace(WINDOW, change=lambda rank, step: {"model": "x"} if (rank, step) == (1, 24) else {})
    assert later.opened(WINDOW, REFERENCE) and not later.exact(WINDOW, REFERENCE)
    assert not trace(WINDOW, ranks=1).opened(WINDOW, REFERENCE)


def test_a_stream_that_the_job_never_touches_says_nothing():
    class Untouched(Uninterrupted):
        def step(self, rank, number):
            found = super().step(rank, number)
            return found and replace(found, components={**found.components, "rng.numpy": "untouched"})

    one, other = (trace(WINDOW, change=lambda rank, step, n=n: {"rng.numpy": f"process {n}"}) for n in (1, 2))
    reference = Untouched()
    assert one.exact(WINDOW, reference) and other.exact(WINDOW, reference)
    assert one.digest(None, reference) == other.digest(None, reference)
