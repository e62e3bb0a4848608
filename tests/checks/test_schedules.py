"""A learning rate that goes its own way after the resume, beside something else that was lost: told, where no loss can
be what moves it."""

import pytest

from chaoskit import checks
from tests.history_writer import Writer, truth


def told(every):
    """The codes where a rate that moves every so many steps is, from the fourth step of the resume, that of 20 steps
    before, and where the RNG was not restored, so that every loss is off from the first."""

    def tell(name, rank, position):
        return f"lr@{position // every}" if name == "lr" else truth(name, rank, position)

    run = Writer(tell=tell).launch().live(until=25).fault().died()
    patch = {(rank, step, "lr"): tell("lr", rank, step - 21) for rank in (0, 1) for step in range(24, 61)}
    run.launch().live(base=20, off={"rng.torch": 0}, patch=patch, ends=True).exit(0).end()
    return checks.state_restored()(run.case()).codes


@pytest.mark.parametrize("every", [1, 2, 6])
def test_a_rate_that_goes_by_the_steps_cannot_come_of_another_loss(every):
    assert told(every) == ("lr-schedule-off", "rng-not-restored")


def test_a_rate_that_hardly_moves_may_go_by_the_loss():
    """As on a plateau."""
    assert told(20) == ("rng-not-restored",)
