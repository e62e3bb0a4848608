"""The storage fails while a save is being made: it is full, read-only, slow, or gone for a while.

What is expected: training goes on, or it stops cleanly and goes on once it is launched again. What is over soon is
ridden out. No valid checkpoint is lost, and a save that failed is none: all ranks are killed before the next save, or
after it, or both, to see from what the job resumes. Where `{out}` cannot be a file system of chaoskit's own (FUSE),
these are skipped, and say what would help.
"""

from itertools import pairwise
from pathlib import PurePath

import pytest

from chaoskit import checks, faults

NO_SAVES = "the job makes no save with another one, and a step after that, to follow"
#: A process group that waits longer than this (seconds) makes a save that outlasts it too slow a rehearsal.
PATIENCE = 10.0
#: So long (seconds) a save takes where it need not, or cannot, outlast the process group; and a storage is gone.
LONG = 3.0
#: A larger file is no pointer.
LARGEST_POINTER = 4096


@pytest.fixture
def reference(chaos, job):
    return chaos.reference(job)


@pytest.fixture
def n(reference):
    """The save that is struck: the second, if there is another one after it that can be proved."""
    good = [n for n, save in enumerate(reference.saves) if n and save + 2 <= reference.steps]
    if not good:
        pytest.skip(NO_SAVES)
    return min(2, good[-1])


@pytest.fixture
def before(reference, n):
    """The step after which that save is made."""
    return reference.saves[n - 1]


@pytest.fixture
def mended(reference, n):
    """A step between that save and the next one."""
    return reference.middle_after_save(n)


@pytest.fixture
def kill_before(mended):
    """Everybody is killed before the next save: was that one a save, and is the one before it still there?"""
    return faults.kill(rank="all").at_step(mended)


@pytest.fixture
def kill_after(reference, n):
    """Everybody is killed two steps after the next save, when it has settled: has the job gone on saving?"""
    return faults.kill(rank="all").at_step(reference.saves[n] + 2)


@pytest.fixture
def claims(claims):
    return [*claims, checks.no_checkpoint_lost()]


@pytest.fixture
def waits():
    """The first fault, which is over soon, ends no launch."""
    return checks.ridden_out(faults=(0,))


def test_disk_full(chaos, job, claims, reference, before, mended, kill_before, kill_after):
    """The disk is full in the middle of a save; it is freed before the next one, or before the job is relaunched."""
    half = max((size for _, size in listed(reference)), default=0) // 2
    full = faults.disk_full(after_bytes=half, until_step=mended, launches=0)
    run = chaos.run(job, full.at_step(before), kill_before, kill_after)
    run.verify(*claims)


def test_transient_error(chaos, job, claims, waits, reference, before, kill_before):
    """A single write of a checkpoint gives an error; the next one is fine."""
    error = faults.io_error(files=where_it_saves(reference))
    run = chaos.run(job, error.at_step(before), kill_before)
    run.verify(*claims, waits)


def test_storage_gone(chaos, job, claims, waits, reference, before, kill_after):
    """The storage does not answer for a while, as on a hard mount; then it does."""
    timeout = reference.group_timeout
    short = LONG if timeout is None else min(LONG, timeout / 3)
    gone = faults.storage_gone(seconds=round(short + slowest_step(reference), 1))
    run = chaos.run(job, gone.at_step(before), kill_after)
    run.verify(*claims, waits)


@pytest.mark.storage
def test_stale_handles(chaos, job, claims, before, mended, kill_after):
    """Every request to the storage fails at once, as on a soft mount whose server forgot it; then none does."""
    gone = faults.storage_gone(error="ESTALE", until_step=mended, launches=0)
    run = chaos.run(job, gone.at_step(before), kill_after)
    run.verify(*claims)


@pytest.mark.storage
def test_read_only(chaos, job, claims, before, mended, kill_after):
    """The storage becomes read-only before a save; it can be written again before the next one."""
    run = chaos.run(job, faults.read_only(until_step=mended, launches=0).at_step(before), kill_after)
    run.verify(*claims)


@pytest.mark.storage
def test_quota_on_pointer(chaos, job, claims, reference, before, kill_before, kill_after):
    """The checkpoint is written, and the pointer to it hits the quota; the job is killed, and launched with space."""
    files = pointer(chaos.run(job, storage="watched"), reference)
    if files is None:
        pytest.skip("the job keeps no pointer: it writes no small file anew at each save")
    run = chaos.run(job, faults.quota(files=files, launches=0).at_step(before), kill_before, kill_after)
    run.verify(*claims)


@pytest.mark.storage
def test_slow_storage(chaos, job, claims, waits, reference, before, mended, kill_before):
    """A save takes longer than the collectives of the job wait, if these wait for 10 s at most; else 3 s, which shows
    that no shorter watchdog ends a job that is well."""
    timeout = reference.group_timeout
    delay = 1.25 * timeout + 1 if timeout is not None and timeout <= PATIENCE else LONG
    slow = faults.slow_storage(
        delay=delay,
        times=1,
        operations=("write",),
        files=where_it_saves(reference),
        until_step=mended,
        launches=0,
    )
    run = chaos.run(job, slow.at_step(before), kill_before)
    run.verify(*claims, waits)


@pytest.mark.storage
def test_late_names(chaos, job, claims, waits, before, mended, kill_before):
    """What one rank makes in a save, the others see half a second later."""
    late = faults.late_names(delay=0.5, until_step=mended, launches=0)
    run = chaos.run(job, late.at_step(before), kill_before)
    if run.history.faults[0].observed is None:
        pytest.skip("no rank asked for anything that another one had just made")
    run.verify(*claims, waits)


def listed(reference):
    """What an uninterrupted run leaves: names and sizes."""
    return [file for event in reference.controls[0].files[-1:] for file in event["files"]]


def slowest_step(reference):
    """From the beginning of a step to that of the next, in seconds."""
    lives = reference.controls[0].incarnations[0].ranks.values()
    return max((b - a for life in lives for a, b in pairwise(life.steps.times)), default=0.0)


def where_it_saves(reference):
    """A pattern for the files of checkpoints: of the directory in `{out}` that all saves go to, if they do."""
    lives = reference.controls[0].incarnations[0].ranks.values()
    every = [save for life in lives for save in life.saves]
    # Weights alone are an export, unless the job saves nothing else.
    paths = [PurePath(save.path).parts for save in [one for one in every if one.full] or every]
    for top in sorted({PurePath(name).parts[0] for name, _ in listed(reference)}):
        if all(top in parts[:-1] for parts in paths):
            return f"{top}/*"
    return "*"


def pointer(run, reference):
    """A pattern for the file, or its temporary names, that is small and made anew at each save under one name."""
    made, sizes = {}, {}
    for one in run.journal.operations:
        if one.kind == "write":
            sizes[one.path] = max(sizes.get(one.path, 0), one.offset + one.size)
        if one.kind == "rename":
            made.setdefault(one.to, []).append(one.path)
        elif one.kind == "symlink" or (one.kind in ("create", "truncate") and one.size == 0):
            made.setdefault(one.path, []).append(one.path)
    saves = len(reference.saves)
    for name, sources in sorted(made.items()):
        if saves <= len(sources) <= 2 * saves and all(sizes.get(path, 0) <= LARGEST_POINTER for path in sources):
            return sources[0] if len(set(sources)) == 1 else f"*{PurePath(name).stem}*"
    return None
