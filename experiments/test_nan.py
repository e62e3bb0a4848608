"""NaN and infinity, from a bad batch or a bad device: they must not get into the state.

The first experiment runs with every battery; `-k nan` changes every target of the training, one at a time.
"""

import pytest

from chaoskit import checks, faults, targets

#: Saves between the NaN and the kill, at most: more than most jobs keep, so that poisoned ones replace all good ones.
SAVES = 8

TARGETS = {
    "activation": targets.activation("*"),
    "loss": targets.loss(),
    "gradient": targets.gradient(),
    "reduced-gradient": targets.gradient(reduced=True),
    "parameter": targets.parameter(),
    "optimizer": targets.optimizer(),
    "all-reduce": targets.collective("all_reduce"),
}


def test_not_a_number(chaos, job, sound):
    """One rank's loss is NaN once; later, after at most `SAVES` more saves, all ranks are killed."""
    reference = chaos.reference(job)
    saves = [position for position in reference.saves if position + 2 <= reference.steps]
    if len(saves) < 3:
        pytest.skip("the job makes fewer than three saves before its last steps")
    run = chaos.run(
        job,
        faults.nan(rank=-1).at_step(saves[1] + 2),
        faults.kill(rank="all").at_step(saves[min(1 + SAVES, len(saves) - 1)] + 2),
    )
    run.verify(*sound, checks.detected_within(steps=1), checks.resumed_from_last_valid())


@pytest.mark.numbers
@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize("target", TARGETS)
def test_nan(chaos, job, sound, step, target, value):
    """One number of one target is NaN or infinite on one rank. The job notices within a step, never saves it, and
    recovers.
    """
    fault = getattr(faults, value)(rank=-1, into=TARGETS[target])
    chaos.run(job, fault.at_step(step)).verify(*sound, checks.detected_within(steps=1))
