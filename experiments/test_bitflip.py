"""Flipped bits: in the state of a rank, and in what a collective delivers to it.

Most have no effect, some are obvious, and some stay for good. They run with `-k bitflip`.
"""

import pytest

from chaoskit import faults, targets

#: The highest bits of their kind in a number of single precision, so that the flip has an effect.
BITS = {"exponent": 29, "mantissa": 22, "sign": 31}


@pytest.mark.numbers
@pytest.mark.parametrize("which", BITS)
@pytest.mark.parametrize("target", ["parameter", "optimizer"])
def test_bitflip(chaos, job, sound, step, target, which):
    """A bit of one rank's state flips. A job that recovers must notice before it saves."""
    fault = faults.bitflip(rank=-1, into=target, bit=BITS[which])
    chaos.run(job, fault.at_step(step)).verify(*sound)


@pytest.mark.numbers
@pytest.mark.parametrize("op", ["all_reduce", "broadcast", "all_gather", "reduce_scatter"])
def test_bitflip_in_a_collective(chaos, job, sound, step, op):
    """A collective delivers to one rank something else than to the others."""
    run = chaos.run(job, faults.bitflip(rank=-1, into=targets.collective(op), bit=BITS["mantissa"]).at_step(step))
    (struck,) = run.history.faults
    if struck.observed is None and "made" in str(struck.evidence.get("missed")):
        pytest.skip(f"the job makes no {op} of such numbers in a step")
    run.verify(*sound)
