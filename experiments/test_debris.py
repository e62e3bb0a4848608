"""Saves are interrupted several times: their leftovers must not fill the disk."""

import pytest

from chaoskit import checks, faults


def test_interrupted_saves(chaos, job, claims):
    """All ranks are killed inside three saves in a row."""
    reference = chaos.reference(job)
    if len(reference.saves) < 3:
        pytest.skip("the job makes fewer than 3 saves")
    inside = [faults.kill(rank="all").during_save(n) for n in range(2, min(len(reference.saves), 4) + 1)]
    run = chaos.run(job, *inside)
    run.verify(*claims, checks.no_checkpoint_lost(), checks.no_debris(), checks.disk_use_bounded())
