"""Corruption at rest: what lies on the disk is not what was saved. It must be refused, and the newest whole one taken.

Every file that was damaged is put back once a further launch has ended. A job that needs that although another
checkpoint was whole needs a person; one that has no whole checkpoint left must wait for it, and not begin again.

By default a few runs go through every way of damaging the newest checkpoint. `-k corruption` runs all of it: each way
on its own, on the newest checkpoint, on the newest two and on all of them; and an older one, while the newest is whole.
"""

from dataclasses import replace
from functools import partial

import pytest

from chaoskit import checks, faults

WAYS = {
    "flip": faults.flip,
    "overwrite": faults.overwrite,
    "truncate": faults.truncate,
    "zero_fill": faults.zero_fill,
    "empty": faults.empty,
    "delete": faults.delete,
    "delete_whole": partial(faults.delete, whole=True),
    "swap_older": faults.swap_older,
    "swap_rank": faults.swap_rank,
    "damage_manifest": faults.damage_manifest,
    "damage_metadata": faults.damage_metadata,
    "strip_checksums": faults.strip_checksums,
}
HOW_MANY = {"newest": 1, "newest_two": 2, "all": "all"}


@pytest.fixture
def claims(claims):
    return [*claims, checks.falls_back_to_last_valid(), checks.no_checkpoint_lost()]


@pytest.mark.parametrize("ways", [("overwrite", "truncate", "zero_fill"), ("empty", "delete")], ids="-".join)
def test_damaged(chaos, job, claims, ways):
    """Again and again the newest checkpoint is damaged while the job is down, each time in another way."""
    again_and_again(chaos, job, claims, [WAYS[way] for way in ways])


@pytest.mark.parametrize("way", ["swap_older", "damage_manifest", "strip_checksums"])
def test_misleading(chaos, job, claims, way):
    """The newest checkpoint contradicts itself: a part of another, a bad manifest, checksums that are gone."""
    damaged(chaos, job, claims, WAYS[way], checkpoints=1)


def test_pointer(chaos, job, claims):
    """What says which checkpoint is the latest names an older one, and later on one that never was."""
    again_and_again(chaos, job, claims, [faults.stale_pointer, faults.dangling_pointer])


@pytest.mark.parametrize("way", ["truncate", "delete_whole"])
def test_none_is_whole(chaos, job, claims, way):
    """All checkpoints are cut short, or gone; the job must not begin again, but wait for them to come back."""
    damaged(chaos, job, claims, WAYS[way], checkpoints="all")


def test_retention_after_damage(chaos, job, claims):
    """The newest two checkpoints are damaged, and the job is struck again as soon as it has made the next one."""
    reference = chaos.reference(job)
    first = [*down(reference, saves=3), faults.truncate(checkpoints=2, launches=1).before_relaunch()]
    judge(chaos.run(job, *first, faults.kill(rank="all").at_step(reference.saves[1] + 2)), claims)


@pytest.mark.corruption
@pytest.mark.parametrize("way", ["truncate", "delete_whole"])
def test_older_damaged(chaos, job, claims, way):
    """The checkpoint before the newest is damaged. Whether the newest hangs on it the job must know: it is read to the
    bit, or refused for the one before both."""
    damaged(chaos, job, claims, WAYS[way], older=True)


@pytest.mark.corruption
@pytest.mark.parametrize("checkpoints", HOW_MANY.values(), ids=HOW_MANY)
@pytest.mark.parametrize("way", WAYS)
def test_corruption(chaos, job, claims, way, checkpoints):
    """So many of the newest checkpoints are damaged in one way while the job is down."""
    damaged(chaos, job, claims, WAYS[way], checkpoints=checkpoints)


def damaged(chaos, job, claims, way, *, checkpoints=1, older=False):
    """The job is killed, its checkpoints are damaged, and it is launched again."""
    killed = down(chaos.reference(job), saves=2 if checkpoints == 1 and not older else 3)
    fault = way(checkpoints=checkpoints, older=older, launches=1)
    judge(chaos.run(job, *killed, fault.before_relaunch()), claims)


def again_and_again(chaos, job, claims, ways):
    """After the second save, the third, and so on: the job is killed, and its newest checkpoint is damaged."""
    reference = chaos.reference(job)
    schedule = []
    for n, way in enumerate(ways, start=2):
        if n == 2 or n < len(reference.saves):
            schedule += [*down(reference, saves=n), way(launches=1).before_relaunch()]
    # One that needs a launch to find out, and another to go on, is not at fault for that.
    judge(chaos.run(replace(job, relaunches=max(job.relaunches, len(schedule))), *schedule), claims)


def down(reference, *, saves):
    """Everything is killed once so many saves have been made: each counts as made once the next step is done."""
    if len(reference.saves) < saves or reference.saves[saves - 1] + 2 > reference.steps:
        pytest.skip(f"the job makes fewer than {saves} saves before its last steps")
    return [faults.kill(launcher=True).at_step(reference.saves[saves - 1] + 2)]


def judge(run, claims):
    """Skipped where the job keeps nothing that could be damaged so, and nothing else is wrong."""
    run.judge(*claims)
    missed = [fault.evidence["missed"] for fault in run.history.faults if "missed" in fault.evidence]
    if missed and run.outcome != "fail":
        pytest.skip(missed[0])
    run.verify(*claims)
