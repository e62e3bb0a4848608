"""The Resume Benchmark: a run that is stopped right after a checkpoint and resumed equals an uninterrupted one."""

from chaoskit import faults


def test_resume(chaos, job, claims):
    """All ranks are stopped right after a save; what follows equals the uninterrupted run, step by step."""
    reference = chaos.reference(job)
    stop = faults.kill(rank="all")
    if reference.saves and reference.saves[0] + 2 <= reference.steps:
        # The first save shows most: nearly the whole run comes after it. It counts as made, with whatever the job
        # does to publish it, once the next step is done.
        fault = stop.at_step(reference.saves[0] + 2)
    else:
        # Nothing to resume from; the verdict will say that the job starts again from scratch.
        fault = stop.at_step(reference.middle_of_epoch(2))
    run = chaos.run(job, fault)
    run.verify(*claims)
