"""Damaged checkpoints: the files on the disk are not what was saved.

The job must refuse a damaged checkpoint and resume from the newest undamaged one. Every damaged file comes back as
it was once a further launch has ended. A job that waits for that although another checkpoint was whole needs a
person; a job without any whole checkpoint must wait for it, and not start from scratch.

By default a few runs go through the methods of damage on the newest checkpoint. `-k corruption` runs all of it:
each method on its own, on the newest checkpoint, on the newest two and on all of them; and on an older one while
the newest is whole.
"""

from dataclasses import replace
from functools import partial

import pytest

from chaoskit import checks, faults

METHODS = {
    "file_bitflip": faults.file_bitflip,
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


@pytest.mark.parametrize("methods", [("overwrite", "truncate", "zero_fill"), ("empty", "delete")], ids="-".join)
def test_damaged(chaos, job, claims, methods):
    """While the job is down its newest checkpoint is damaged, several times, each time by another method."""
    again_and_again(chaos, job, claims, [METHODS[method] for method in methods])


@pytest.mark.parametrize("method", ["swap_older", "damage_manifest", "strip_checksums"])
def test_misleading(chaos, job, claims, method):
    """The newest checkpoint contradicts itself: a part of another one, a bad manifest, missing checksums."""
    damaged(chaos, job, claims, METHODS[method], checkpoints=1)


def test_pointer(chaos, job, claims):
    """The pointer to the latest checkpoint names an older one, and later one that never existed."""
    again_and_again(chaos, job, claims, [faults.stale_pointer, faults.dangling_pointer])


@pytest.mark.parametrize("method", ["truncate", "delete_whole"])
def test_none_is_whole(chaos, job, claims, method):
    """All checkpoints are truncated, or gone. The job must wait for them to come back, and not start from scratch."""
    damaged(chaos, job, claims, METHODS[method], checkpoints="all")


def test_retention_after_damage(chaos, job, claims):
    """The newest two checkpoints are damaged, and the job is killed again as soon as it has made the next one."""
    reference = chaos.reference(job)
    first = [*down(reference, saves=3), faults.truncate(checkpoints=2, launches=1).before_relaunch()]
    judge(chaos.run(job, *first, faults.kill(rank="all").at_step(reference.saves[1] + 2)), claims)


@pytest.mark.corruption
@pytest.mark.parametrize("method", ["truncate", "delete_whole"])
def test_older_damaged(chaos, job, claims, method):
    """The checkpoint before the newest is damaged.

    The job must know whether the newest depends on it: it loads the newest bitwise, or refuses it for the one
    before both.
    """
    damaged(chaos, job, claims, METHODS[method], older=True)


@pytest.mark.corruption
@pytest.mark.parametrize("checkpoints", HOW_MANY.values(), ids=HOW_MANY)
@pytest.mark.parametrize("method", METHODS)
def test_corruption(chaos, job, claims, method, checkpoints):
    """The newest checkpoints are damaged by one method while the job is down."""
    damaged(chaos, job, claims, METHODS[method], checkpoints=checkpoints)


def damaged(chaos, job, claims, method, *, checkpoints=1, older=False):
    """The job is killed, its checkpoints are damaged, and it is launched again."""
    killed = down(chaos.reference(job), saves=2 if checkpoints == 1 and not older else 3)
    fault = method(checkpoints=checkpoints, older=older, launches=1)
    judge(chaos.run(job, *killed, fault.before_relaunch()), claims)


def again_and_again(chaos, job, claims, methods):
    """After the second save, the third, and so on: the job is killed, and its newest checkpoint is damaged."""
    reference = chaos.reference(job)
    schedule = []
    for n, method in enumerate(methods, start=2):
        if n == 2 or n < len(reference.saves):
            schedule += [*down(reference, saves=n), method(launches=1).before_relaunch()]
    # A job may need one launch to find the damage and another one to resume.
    judge(chaos.run(replace(job, relaunches=max(job.relaunches, len(schedule))), *schedule), claims)


def down(reference, *, saves):
    """All ranks are killed after this many saves. A save counts as made once the next step is done."""
    if len(reference.saves) < saves or reference.saves[saves - 1] + 2 > reference.steps:
        pytest.skip(f"the job makes fewer than {saves} saves before its last steps")
    return [faults.kill(launcher=True).at_step(reference.saves[saves - 1] + 2)]


def judge(run, claims):
    """Skip if the job keeps nothing that these faults can damage: what else is wrong is counted where it is shown."""
    run.judge(*claims)
    kills = [fault for fault in run.history.faults if fault.kind == "kill"]
    damages = [fault for fault in run.history.faults if fault.kind != "kill"]
    missed = [fault.evidence["missed"] for fault in damages if "missed" in fault.evidence]
    nothing_damaged = len(missed) + len(kills) == len(run.history.faults)
    if missed and (nothing_damaged or run.outcome != "fail"):
        pytest.skip(missed[0])
    run.verify(*claims)
