"""The storage fails during a save: it is full, read-only, slow, or gone for a while.

Expected: training continues, or it stops cleanly and resumes when it is launched again. The job waits out a short
failure. No valid checkpoint is lost, and a failed save does not count as one: all ranks are killed before the next
save, or after it, or both, to see from which save the job resumes. If chaoskit cannot provide a file system of its
own (FUSE) for `{out}`, these experiments are skipped with a message that says how to enable it.
"""

import re
from itertools import pairwise
from pathlib import PurePath

import pytest

from chaoskit import checks, faults

NO_SAVES = "the job makes no save with another one, and a step after that, to follow"
#: Longest timeout of a process group, in seconds, that a slow save outlasts; longer ones would take too much time.
PATIENCE = 10.0
#: Seconds of a slow save that need not, or cannot, outlast the process group, and of a storage that is gone.
LONG = 3.0
#: Larger files are no pointers.
LARGEST_POINTER = 4096


@pytest.fixture
def reference(chaos, job):
    return chaos.reference(job)


@pytest.fixture
def n(reference):
    """The number of the save that the fault hits: the second, if a later save can prove that the job kept saving."""
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
    """All ranks are killed before the next save: did that save succeed, and is the one before it still there?"""
    return faults.kill(rank="all").at_step(mended)


@pytest.fixture
def kill_after(reference, n):
    """All ranks are killed two steps after the next save, when it has settled: did the job keep saving?"""
    return faults.kill(rank="all").at_step(reference.saves[n] + 2)


@pytest.fixture
def claims(claims):
    return [*claims, checks.no_checkpoint_lost()]


@pytest.fixture
def waits():
    """The first fault, which is over soon, ends no launch."""
    return checks.ridden_out(faults=(0,))


def test_disk_full(chaos, job, claims, reference, before, mended, kill_before, kill_after):
    """The disk is full in the middle of a save; it has space again before the next save, or before the relaunch."""
    half = max((size for _, size in listed(reference)), default=0) // 2
    full = faults.disk_full(after_bytes=half, until_step=mended, launches=0)
    run = chaos.run(job, full.at_step(before), kill_before, kill_after)
    run.verify(*claims)


@pytest.mark.nodes
@pytest.mark.storage
def test_disk_full_on_one_node(chaos, job, claims, reference, before, mended, kill_before, kill_after):
    """The disk is full for the first node alone, in the middle of a save; the other nodes write as before."""
    half = max((size for _, size in listed(reference)), default=0) // 2
    full = faults.disk_full(node=0, after_bytes=half, until_step=mended, launches=0)
    run = chaos.run(job, full.at_step(before), kill_before, kill_after)
    run.verify(*claims)


def test_transient_error(chaos, job, claims, waits, reference, before, kill_before):
    """A single write of a checkpoint returns an error; the next one succeeds."""
    error = faults.io_error(files=where_it_saves(reference))
    run = chaos.run(job, error.at_step(before), kill_before)
    run.verify(*claims, waits)


def test_storage_gone(chaos, job, claims, waits, reference, before, kill_after):
    """The storage does not answer for a while, as on a hard mount."""
    timeout = reference.group_timeout
    short = LONG if timeout is None else min(LONG, timeout / 3)
    gone = faults.storage_gone(seconds=round(short + slowest_step(reference), 1))
    run = chaos.run(job, gone.at_step(before), kill_after)
    run.verify(*claims, waits)


@pytest.mark.storage
def test_durable(chaos, job, claims, kill_before):
    """All ranks are killed between two saves. No power cut would have lost a save that had settled."""
    run = chaos.run(job, kill_before, storage="recorded")
    run.verify(*claims, checks.durable_once_published())


@pytest.mark.storage
def test_first_store_lost(chaos, job, claims, reference, mended):
    """The directory of the checkpoints is gone for a launch; copies in another directory below {out} are not.

    The job resumes from these, and does not wait for the first directory.
    """
    first = with_copies(reference)
    if first is None:
        pytest.skip("the job keeps each checkpoint in one directory below {out}")
    lost = faults.hide(within=f"{first}/*").before_relaunch()
    run = chaos.run(job, faults.kill(launcher=True).at_step(mended), lost)
    run.verify(*claims)


@pytest.mark.storage
def test_stale_handles(chaos, job, claims, before, mended, kill_after):
    """Every request to the storage fails at once, as on a soft mount whose server forgot it; then all succeed
    again.
    """
    gone = faults.storage_gone(error="ESTALE", until_step=mended, launches=0)
    run = chaos.run(job, gone.at_step(before), kill_after)
    run.verify(*claims)


@pytest.mark.storage
def test_read_only(chaos, job, claims, before, mended, kill_after):
    """The storage becomes read-only before a save, and writable again before the next one."""
    run = chaos.run(job, faults.read_only(until_step=mended, launches=0).at_step(before), kill_after)
    run.verify(*claims)


@pytest.mark.storage
def test_quota_on_pointer(chaos, job, claims, reference, before, kill_before, kill_after):
    """The checkpoint is written, and the pointer to it hits the quota; the job is killed, and launched with space."""
    files = pointer(chaos.run(job, storage="watched"), reference)
    if files is None:
        pytest.skip("the job keeps no pointer: no save writes a small file under the same name")
    run = chaos.run(job, faults.quota(files=files, launches=0).at_step(before), kill_before, kill_after)
    run.verify(*claims)


@pytest.mark.storage
def test_slow_storage(chaos, job, claims, waits, reference, before, mended, kill_before):
    """A save takes longer than the collectives of the job wait, if they wait for at most 10 s.

    Otherwise it takes 3 s, which shows that no shorter watchdog ends a healthy job.
    """
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
    """Files that one rank makes in a save appear half a second later for the others."""
    late = faults.late_names(delay=0.5, until_step=mended, launches=0)
    run = chaos.run(job, late.at_step(before), kill_before)
    if run.history.faults[0].observed is None:
        pytest.skip("no rank asked for a file that another one had just made")
    run.verify(*claims, waits)


def listed(reference):
    """The files that an uninterrupted run leaves: names and sizes."""
    return [file for event in reference.controls[0].files[-1:] for file in event["files"]]


def with_copies(reference):
    """The directory in `{out}` that saves go to, if every file in it has a copy in another one, of the same name.

    Directories whose names differ in numbers alone are two checkpoints, and no copies.
    """
    files = {PurePath(name).parts: size for name, size in listed(reference)}
    lives = reference.controls[0].incarnations[0].ranks.values()
    written = {part for life in lives for save in life.saves for part in PurePath(save.path).parts}
    tops = {parts[0] for parts in files if len(parts) > 1}
    for top in sorted(tops & written):
        own = {parts[1:]: size for parts, size in files.items() if parts[0] == top}
        others = [other for other in tops if unnumbered(other) != unnumbered(top)]
        if any(all(files.get((other, *rest)) == size for rest, size in own.items()) for other in others):
            return top
    return None


def unnumbered(name):
    """The name without its numbers."""
    return re.sub(r"\d+", "", name)


def slowest_step(reference):
    """The longest time from the beginning of a step to that of the next, in seconds."""
    lives = reference.controls[0].incarnations[0].ranks.values()
    return max((b - a for life in lives for a, b in pairwise(life.steps.times)), default=0.0)


def where_it_saves(reference):
    """A pattern for the files of checkpoints: the directory in `{out}` that all saves go to, if there is one."""
    lives = reference.controls[0].incarnations[0].ranks.values()
    every = [save for life in lives for save in life.saves]
    # A save of weights alone is an export, unless the job saves nothing else.
    paths = [PurePath(save.path).parts for save in [one for one in every if one.full] or every]
    for top in sorted({PurePath(name).parts[0] for name, _ in listed(reference)}):
        if all(top in parts[:-1] for parts in paths):
            return f"{top}/*"
    return "*"


def pointer(run, reference):
    """A pattern for the pointer, or its temporary names: a small file that each save writes under the same name."""
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
