"""Processes of the job are lost at the worst moments; the job recovers as if nothing had happened.

Ranks count from 0; -1 is the last one. The steps and saves to aim at come from the uninterrupted run.
"""

import pytest

from chaoskit import faults

EPOCH = 2  # late enough for a checkpoint, and for a reshuffled data loader


def test_one_rank_mid_epoch(chaos, job, claims):
    """One rank is killed in the middle of the second epoch."""
    step = chaos.reference(job).middle_of_epoch(EPOCH)
    run = chaos.run(job, faults.kill(rank=-1).at_step(step))
    run.verify(*claims)


def test_all_ranks(chaos, job, claims):
    """All ranks are killed at once, in the middle of the second epoch."""
    step = chaos.reference(job).middle_of_epoch(EPOCH)
    run = chaos.run(job, faults.kill(rank="all").at_step(step))
    run.verify(*claims)


def test_launcher(chaos, job, claims):
    """The node is lost: the launcher and all its ranks at once."""
    step = chaos.reference(job).middle_of_epoch(EPOCH)
    run = chaos.run(job, faults.kill(launcher=True).at_step(step))
    run.verify(*claims)


def test_right_after_save(chaos, job, claims):
    """One rank is killed as soon as its save has returned."""
    run = chaos.run(job, at_second_save(chaos.reference(job), faults.kill(rank=-1), inside=False))
    run.verify(*claims)


def test_middle_of_save(chaos, job, claims):
    """All ranks are killed in the middle of a save: some bytes are written, the save has not returned."""
    run = chaos.run(job, at_second_save(chaos.reference(job), faults.kill(rank="all"), inside=True))
    run.verify(*claims)


def test_before_first_collective(chaos, job, claims):
    """One rank is killed before the first collective, while the others wait for it."""
    if why := chaos.reference(job).no_collective:
        pytest.skip(why)
    run = chaos.run(job, faults.kill(rank=-1).at_start())
    # There is no checkpoint yet that the job could resume from.
    run.verify(*[claim for claim in claims if claim.name != "resumed_from_last_valid"])


def test_twice(chaos, job, claims):
    """One rank is killed, the job resumes, and a rank is killed again: half-way to the end, or three saves later."""
    reference = chaos.reference(job)
    first = reference.middle_of_epoch(EPOCH)
    saves = [position + 2 for position in reference.saves if position > first]
    second = min([(first + reference.steps) // 2 + 1, reference.steps, *saves[2:3]])
    kill = faults.kill(rank=-1)
    run = chaos.run(job, kill.at_step(first), kill.at_step(second))
    run.verify(*claims)


def test_frozen_rank(chaos, job, claims):
    """One rank is frozen for three seconds."""
    step = chaos.reference(job).middle_of_epoch(EPOCH)
    run = chaos.run(job, faults.pause(rank=-1, seconds=3).at_step(step))
    run.verify(*claims)


def test_rank_exits_0(chaos, job, claims):
    """One rank exits with code 0 in the middle of training; no monitor takes that for a failure."""
    reference = chaos.reference(job)
    if reference.world_size == 1:
        pytest.skip("the job has only one rank: if it exits with 0, the job has ended")
    run = chaos.run(job, faults.exit(rank=-1, code=0).at_step(reference.middle_of_epoch(EPOCH)))
    run.verify(*claims)


def at_second_save(reference, fault, *, inside):
    """The fault at the second save, so that the job can fall back on the first; without saves, at a step."""
    if not reference.saves:
        return fault.at_step(reference.middle_of_epoch(EPOCH))
    n = min(2, len(reference.saves))
    return fault.during_save(n) if inside else fault.after_save(n)
