"""Numbers that are none: what a bad batch or a bad device gives must not find its way into the state.

The first runs with every battery; `-k nan` puts them into every place of the training, one at a time.
"""

import pytest

from chaoskit import checks, faults, places

PLACES = {
    "activation": places.activation("*"),
    "loss": places.loss(),
    "gradient": places.gradient(),
    "reduced-gradient": places.gradient(reduced=True),
    "parameter": places.parameter(),
    "optimizer": places.optimizer(),
    "all-reduce": places.collective("all_reduce"),
}


def test_not_a_number(chaos, job, sound):
    """One rank's loss is NaN once; later, with more saves made, all ranks are killed."""
    reference = chaos.reference(job)
    saves = [position for position in reference.saves if position + 2 <= reference.steps]
    if len(saves) < 3:
        pytest.skip("the job makes fewer than three saves before its last steps")
    run = chaos.run(
        job,
        faults.nan(rank=-1).at_step(saves[1] + 2),
        faults.kill(rank="all").at_step(saves[-1] + 2),
    )
    run.verify(*sound, checks.detected_within(steps=1), checks.resumed_from_last_valid())


@pytest.mark.numbers
@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize("place", PLACES)
def test_nan(chaos, job, sound, step, place, value):
    """A number that is none, on one rank, in one place: noticed within a step, never saved, recovered from."""
    fault = getattr(faults, value)(rank=-1, into=PLACES[place])
    chaos.run(job, fault.at_step(step)).verify(*sound, checks.detected_within(steps=1))
