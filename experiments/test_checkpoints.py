"""Checkpoints under stress: between epochs, between the writes of one save, late, hidden, damaged, not written.

To start the command itself again, these experiments lose the whole node: restarts of single ranks leave it running.
"""

import pytest

from chaoskit import faults

NO_SAVES = "the job saves no checkpoints"


def test_epoch_boundary(chaos, job, claims):
    """All ranks are killed one step after the beginning of an epoch; the resume continues past the end of that
    epoch.
    """
    reference = chaos.reference(job)
    boundaries = [start for start in reference.epochs if start > 0]
    if not boundaries:
        pytest.skip("the job was seen to begin one epoch only")
    # Prefer a checkpoint that is made exactly there: its epoch is over, and the next one has not begun. Without any
    # checkpoint before it, the resume would show nothing.
    behind = [start for start in boundaries if start + 2 >= (reference.first_to_resume_from or 0)]
    start = min(behind or boundaries, key=lambda position: (position not in reference.saves, position))
    run = chaos.run(job, faults.kill(rank="all").at_step(min(start + 2, reference.steps)))
    run.verify(*claims)


def test_between_writes(chaos, job, claims):
    """All ranks are killed between two writes of one save: a part of the checkpoint exists, another does not."""
    n = second_save(chaos.reference(job))
    run = chaos.run(job, faults.kill(rank="all").between_writes(n))
    run.verify(*claims)


def test_last_writer(chaos, job, claims):
    """All ranks are killed while the last of them still writes its part of a save and the others are done."""
    reference = chaos.reference(job)
    n = second_save(reference)
    savers = reference.savers(reference.saves[n - 1])
    if len(savers) < 2:
        pytest.skip("one rank alone writes a checkpoint")
    run = chaos.run(job, faults.pause(rank=savers[-1], seconds=5).during_save(n), faults.kill(rank="all").after(1))
    run.verify(*claims)


def test_late(chaos, job, claims):
    """All ranks are killed near the end, when the job keeps as many saves as it ever does."""
    step = late_step(chaos.reference(job))
    run = chaos.run(job, faults.kill(rank="all").at_step(step))
    run.verify(*claims)


def test_hidden_checkpoints(chaos, job, claims):
    """The checkpoints disappear for one launch, which may fail; once they are back, the job resumes from them."""
    step = step_after_saves(chaos.reference(job), 1)
    run = chaos.run(job, faults.kill(launcher=True).at_step(step), faults.hide().before_relaunch())
    run.verify(*claims)


def test_flipped_bit(chaos, job, claims):
    """One bit of the newest checkpoint flips while the job is down; the job must not resume from the result."""
    step = step_after_saves(chaos.reference(job), 2)
    run = chaos.run(job, faults.kill(launcher=True).at_step(step), faults.file_bitflip().before_relaunch())
    run.verify(*claims)


def test_write_error(chaos, job, claims):
    """The disk returns an error in the middle of a save; all ranks are killed after the next save."""
    reference = chaos.reference(job)
    n = second_save(reference)
    rank = reference.savers(reference.saves[n - 1])[0]
    later = [position + 2 for position in reference.saves[n:] if position + 2 <= reference.steps]
    run = chaos.run(
        job,
        faults.raise_(rank=rank, type="OSError").during_save(n),
        faults.kill(rank="all").at_step(later[0] if later else reference.steps),
    )
    run.verify(*claims)


def second_save(reference):
    """The number of the second save, or of the only one."""
    if not reference.saves:
        pytest.skip(NO_SAVES)
    return min(2, len(reference.saves))


# A save counts as made, with everything that publishes it, once the next step is done: hence two steps after it.


def late_step(reference):
    """Two steps after the last save that leaves two more steps."""
    steps = [position + 2 for position in reference.saves if position + 2 <= reference.steps]
    if not steps:
        pytest.skip(NO_SAVES if not reference.saves else "the job saves at its very end only")
    return steps[-1]


def step_after_saves(reference, n):
    """A step in the middle of the second epoch, or later, with at least `n` saves before it."""
    if len(reference.saves) < n or reference.saves[n - 1] + 2 > reference.steps:
        pytest.skip(f"the job makes fewer than {n} saves before its last steps" if reference.saves else NO_SAVES)
    return max(reference.middle_of_epoch(2), reference.saves[n - 1] + 2)
