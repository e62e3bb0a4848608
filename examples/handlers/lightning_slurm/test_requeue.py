"""Slurm gives notice to the whole job, as with `sbatch --signal=USR1@60`: Lightning saves, and has Slurm put it back.

pytest test_requeue.py --chaos-env slurm --chaos-nodes 2 --chaos-job 'srun --ntasks-per-node 1 python train.py {out}'
"""

from chaoskit import checks, faults

#: Seconds after which the nodes are taken away. The job is back in the queue long before, or never.
NOTICE = 30
#: The notice comes so many seconds after the first fault: here in the middle of a step, which takes 0.5 s.
WITHIN, LATER = 0.2, 1.0


def test_requeued(chaos, job):
    """Both ranks compute when the notice comes."""
    step = chaos.reference(job).middle_of_epoch(2)
    run = chaos.run(job, faults.noop().at_step(step), notice().after(WITHIN))
    judge(run)


def test_slow_rank(chaos, job):
    """One rank is two seconds behind when the notice comes, and the other one waits for it in a collective."""
    step = chaos.reference(job).middle_of_epoch(2)
    run = chaos.run(job, faults.pause(rank=0, seconds=2).at_step(step), notice().after(LATER))
    judge(run)


def notice():
    return faults.preempt(cloud="slurm", node="all", notice=NOTICE)


def judge(run):
    run.verify(
        checks.completed(),
        checks.emergency_checkpoint(),
        checks.stopped_cleanly(),
        checks.resumed_from_last_valid(),
        checks.matches_reference(),
        checks.same_data(),
    )
