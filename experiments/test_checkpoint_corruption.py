"""Corruption at rest: what lies on the disk is not what was saved. It must be refused, and the newest whole one taken.

Every file that was damaged is put back once a further launch has ended. A job that needs that although another
checkpoint was whole needs a person; one that has no whole checkpoint left must wait for it, and not begin again.

By default a few runs go through every way of damaging the newest checkpoint. `-k corruption` runs all of it: each way
on its own, on the newest checkpoint, on the newest two and on all of them.
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
    reference = chaos.reference(job)
    schedule = []
    for n, way in enumerate(ways, start=2):
        if n == 2 or n < len(reference.saves):
            schedule += [*down(reference, saves=n), WAYS[way](launches=1).before_relaunch()]
    # One that needs a launch to find out, and another to go on, is not at fault for that.
    job = replace(job, relaunches=max(job.relaunches, len(schedule)))
    chaos.run(job, *schedule).verify(*claims)


@pytest.mark.parametrize(
    "way", ["swap_older", "swap_rank", "damage_manifest", "damage_metadata", "strip_checksums"]
)
def test_misleading(chaos, job, claims, way):
    """The newest checkpoint contradicts itself: parts of another, a bad manifest, checksums that are gone."""
    damaged(chaos, job, claims, WAYS[way], checkpoints=1)


@pytest.mark.parametrize("way", ["stale_pointer", "dangling_pointer"])
def test_pointer(chaos, job, claims, way):
    """What says which checkpoint is the latest is wrong; the checkpoints are as they should be."""
    damaged(chaos, job, claims, getattr(faults, way))


@pytest.mark.parametrize("way", ["truncate", "delete_whole"])
def test_none_is_whole(chaos, job, claims, way):
    """All checkpoints are cut short, or gone; the job must not begin again, but wait for them to come back."""
    damaged(chaos, job, claims, WAYS[way], checkpoints="all")


def test_retention_after_damage(chaos, job, claims):
    """The newest two checkpoints are damaged, and the job is struck again as soon as it has made the next one."""
    reference = chaos.reference(job)
    first = down(reference, saves=3)
    again = faults.kill(rank="all").at_step(reference.saves[1] + 2)
    chaos.run(job, *first, faults.truncate(checkpoints=2, launches=1).before_relaunch(), again).verify(*claims)


@pytest.mark.corruption
@pytest.mark.parametrize("checkpoints", HOW_MANY.values(), ids=HOW_MANY)
@pytest.mark.parametrize("way", WAYS)
def test_corruption(chaos, job, claims, way, checkpoints):
    """So many of the newest checkpoints are damaged in one way while the job is down."""
    damaged(chaos, job, claims, WAYS[way], checkpoints=checkpoints)


def damaged(chaos, job, claims, way, **options):
    """The job is killed, its checkpoints are damaged, and it is launched again."""
    saves = 2 if options.get("checkpoints", 1) == 1 else 3
    strike = way(launches=1, **options).before_relaunch()
    run = chaos.run(job, *down(chaos.reference(job), saves=saves), strike)
    if missed := [fault.evidence["missed"] for fault in run.history.faults if "missed" in fault.evidence]:
        pytest.skip(missed[0])
    run.verify(*claims)


def down(reference, *, saves):
    """Everything is killed once so many saves have been made: each counts as made once the next step is done."""
    if len(reference.saves) < saves or reference.saves[saves - 1] + 2 > reference.steps:
        pytest.skip(f"the job makes fewer than {saves} saves before its last steps")
    return [faults.kill(launcher=True).at_step(reference.saves[saves - 1] + 2)]
