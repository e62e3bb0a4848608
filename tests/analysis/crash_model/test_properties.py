"""Whatever a program does: what a crash leaves is what the profile allows, and a state is on the disk what it says."""

import random
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.analysis.crash_model import crash_states
from chaoskit.analysis.crash_model.crashes import missing
from tests.analysis.crash_model.script import Script, held, on_disk, shape

SIZES = (1, 100, 513, 5000, 70_000)


def wild(run_dir, seed, length=14):
    """A program that does anything to a few files and directories."""
    draw, script = random.Random(seed), Script(run_dir)
    for _ in range(length):
        script.session = draw.choice((1, 2))
        directories = sorted(script.directories())
        files = sorted(path for path in script.files if path not in directories)
        place = draw.choice(directories)
        fresh = f"{place}/{draw.choice('abcdef')}".lstrip("/")
        what = draw.choice(("create", "mkdir", "symlink", "rename", "rename", "link", "unlink", *["write"] * 4,
                            "truncate", "chmod", "fsync", "fsync", "fsyncdir", "exchange"))  # fmt: skip
        if what in ("create", "mkdir", "symlink"):
            if fresh not in script.files:
                script.symlink(fresh, "there") if what == "symlink" else getattr(script, what)(fresh)
        elif what == "fsyncdir":
            script.fsync(place, since=draw.randint(0, len(script.operations)))
        elif what == "rename":
            movable = [path for path in script.files if path and not fresh.startswith(path)]
            if movable and fresh not in directories:
                path = draw.choice(movable)
                if not (path in directories and fresh in script.files):
                    script.rename(path, fresh)
        elif not files:
            continue
        else:
            path = draw.choice(files)
            plain = (
                script.operations[[o.file for o in script.operations].index(script.files[path])].kind == "create"
            )
            if what == "unlink":
                script.unlink(path)
            elif what == "exchange":
                other = draw.choice(files)
                if script.files[other] != script.files[path]:
                    script.rename(path, other, exchange=True)
            elif not plain:
                continue
            elif what == "link":
                if fresh not in script.files:
                    script.link(path, fresh)
            elif what == "write":
                size = draw.choice(SIZES)
                fill = draw.choice((bytes(size), draw.randbytes(size), b"x" * size))
                script.write(path, fill, draw.choice((0, 0, 100, 4096, 66_000)))
            elif what == "truncate":
                script.truncate(path, draw.choice((0, 50, 4096, 80_000)))
            elif what == "chmod":
                script.chmod(path, draw.choice((0o600, 0o644)))
            else:
                script.fsync(path, since=draw.choice((len(script.operations), max(0, len(script.operations) - 2))))
    return script


def explored(seed, check, **options):
    with tempfile.TemporaryDirectory() as directory:
        script = wild(Path(directory), seed)
        first = random.Random(seed).randint(0, len(script.operations) // 2)
        options = {"assume_before": False, **options}
        found = crash_states(script.journal(), first=first, last=len(script.operations), **options)
        check(script, first, found, Path(directory))


def replayed(script, upto, below):
    """The first operations, done to a real directory: what the model is measured by."""
    below.mkdir()
    handles = {}
    for one in script.operations[:upto]:
        path = below / one.path
        if one.kind == "create":
            handles[one.file] = path.open("xb+", buffering=0)
            path.chmod(one.mode)
        elif one.kind == "mkdir":
            path.mkdir(one.mode)
        elif one.kind == "symlink":
            path.symlink_to(one.to)
        elif one.kind == "link":
            (below / one.to).hardlink_to(path)
        elif one.kind == "unlink":
            path.unlink()
        elif one.kind == "rename" and one.exchange:
            path.rename(below / "aside")
            (below / one.to).rename(path)
            (below / "aside").rename(below / one.to)
        elif one.kind == "rename":
            path.rename(below / one.to)
        elif one.kind == "chmod":
            path.chmod(one.mode)
        elif one.kind == "write":
            handles[one.file].seek(one.offset)
            handles[one.file].write(script.data[one.data : one.data + one.size])
        elif one.kind == "truncate":
            handles[one.file].truncate(one.size)
    for handle in handles.values():
        handle.close()
    return shape(below)


seeds = given(st.integers(0, 10**9))


@seeds
@settings(max_examples=60, deadline=None)
def test_a_kill_leaves_what_a_real_directory_holds_after_some_operations(seed):
    def check(script, first, found, directory):
        real = [replayed(script, n, directory / str(n)) for n in range(first, len(script.operations) + 1)]
        states = []
        for number, state in enumerate(found):
            state.materialise(directory / f"state{number}")
            states.append(shape(directory / f"state{number}"))
        assert all(one in states for one in real) and all(one in real for one in states)

    explored(seed, check, profiles=["kill"])


@seeds
@settings(max_examples=40, deadline=None)
def test_states_are_told_apart_by_what_is_on_the_disk_and_by_nothing_else(seed):
    def check(script, first, found, directory):
        shapes = []
        for number, state in enumerate(found):
            state.materialise(directory / f"state{number}")
            shapes.append(repr(shape(directory / f"state{number}")))
            assert on_disk(directory / f"state{number}") == held(state)
            assert all(
                state.disk.tree(c.done, missing(state.disk, c)).digest() == state.digest for c in state.crashes
            )
        assert len(set(shapes)) == len(shapes)

    explored(seed, check, most=60)


@seeds
@settings(max_examples=60, deadline=None)
def test_a_harsher_profile_allows_what_a_milder_one_does(seed):
    with tempfile.TemporaryDirectory() as directory:
        journal = wild(Path(directory), seed).journal()
        last = len(journal.operations)
        kill, ext4, posix = (
            {state.digest for state in crash_states(journal, first=0, last=last, profiles=[profile])}
            for profile in ("kill", "ext4", "posix")
        )
        assert kill <= ext4 <= posix


@seeds
@settings(max_examples=100, deadline=None)
def test_what_was_forced_is_never_lost(seed):
    def check(script, first, found, directory):
        for state in found:
            for cause in state.causes:
                done = script.operations[: cause.after]
                sure = {n for one in done for n in forced_by(one, done)}
                lost = {n for loss in cause.losses for n in loss.operations}
                assert not lost & sure and all(n < cause.after for n in lost)

    explored(seed, check)


def forced_by(fsync, done):
    """Said a second time: an fsync forces the data of its file, and of a directory the names in it."""
    if fsync.kind == "fsync":
        return {
            o.n for o in done[: fsync.since] if o.file == fsync.file and o.kind in ("write", "truncate", "chmod")
        }
    if fsync.kind != "fsyncdir":
        return set()
    # By its path at that time, which is right for those made since it was last renamed.
    moved = [o.n for o in done[: fsync.n] if o.kind == "rename"]
    recent = [
        o for o in done[max(moved, default=0) : fsync.since] if o.kind in ("create", "mkdir", "link", "unlink")
    ]
    return {o.n for o in recent if (o.to if o.kind == "link" else o.path).rpartition("/")[0] == fsync.path}


@seeds
@settings(max_examples=60, deadline=None)
def test_once_all_is_forced_one_state_is_left(seed):
    with tempfile.TemporaryDirectory() as directory:
        script = wild(Path(directory), seed)
        for path in sorted(script.files):
            script.fsync(path)
        # A directory that is no longer there, or a name that leads elsewhere now, cannot be forced: nobody can see it.
        journal, last = script.journal(), len(script.operations)
        (state,) = crash_states(journal, first=last, last=last, assume_before=False)
        assert state.profile == "kill"


@seeds
@settings(max_examples=40, deadline=None)
def test_a_sample_is_repeated_by_its_seed_and_keeps_the_extremes(seed):
    with tempfile.TemporaryDirectory() as directory:
        journal = wild(Path(directory), seed).journal()
        last = len(journal.operations)
        whole = crash_states(journal, first=0, last=last, seed=seed)
        assert whole.examined == whole.planned and len(whole) == whole.distinct
        few = [crash_states(journal, first=0, last=last, seed=seed, most=12) for _ in range(2)]
        assert [state.digest for state in few[0]] == [state.digest for state in few[1]]
        assert len(few[0]) == min(12, whole.distinct) and few[0].distinct == whole.distinct
        extreme = {
            state.digest
            for state in whole
            for crash in state.crashes
            if crash.done == last and crash.kind in ("none", "all", "data-all", "names-all")
        }
        assert extreme <= {state.digest for state in few[0]}
