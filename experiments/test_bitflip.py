"""Bits that flip: in what a rank keeps, and in what it is given by the others. Most do nothing, some are loud, and some
stay for good. They run with `-k bitflip`."""

import pytest

from chaoskit import faults, places

#: The highest bits of their kind in a number of single precision, so that something comes of it.
BITS = {"exponent": 29, "mantissa": 22, "sign": 31}


@pytest.mark.numbers
@pytest.mark.parametrize("which", BITS)
@pytest.mark.parametrize("place", ["parameter", "optimizer"])
def test_bitflip(chaos, job, sound, step, place, which):
    """A bit of one rank's state flips: who means to recover has to notice before it is saved."""
    fault = faults.bitflip(rank=-1, into=place, bit=BITS[which])
    chaos.run(job, fault.at_step(step)).verify(*sound)


@pytest.mark.numbers
@pytest.mark.parametrize("op", ["all_reduce", "broadcast", "all_gather", "reduce_scatter"])
def test_bitflip_in_a_collective(chaos, job, sound, step, op):
    """What one rank is given by a collective is not what the others were given."""
    run = chaos.run(job, faults.bitflip(rank=-1, into=places.collective(op), bit=BITS["mantissa"]).at_step(step))
    (struck,) = run.history.faults
    if struck.observed is None and "made" in str(struck.evidence.get("missed")):
        pytest.skip(f"the job makes no {op} of such numbers in a step")
    run.verify(*sound)
