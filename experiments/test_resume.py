"""The Resume Benchmark: a run that stops right after a checkpoint and resumes equals an uninterrupted one."""

from chaoskit import faults


def test_resume(chaos, job, claims):
    """All ranks stop right after a save; the steps after the resume equal those of the uninterrupted run."""
    reference = chaos.reference(job)
    stop = faults.kill(rank="all")
    if reference.first_to_resume_from is not None:
        # The first save shows most, because nearly the whole run follows it.
        fault = stop.at_step(reference.first_to_resume_from)
    else:
        # There is nothing to resume from; the verdict will say that the job restarted from scratch.
        fault = stop.at_step(reference.middle_of_epoch(2))
    run = chaos.run(job, fault)
    run.verify(*claims)
