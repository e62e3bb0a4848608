"""Contents and trees: the same digest for the same, however it came to be; another for anything else."""

import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.analysis.crash_model import crash_states
from chaoskit.analysis.crash_model.contents import BLOCK, Contents, File
from chaoskit.analysis.crash_model.tree import ROOT, Directory, Tree, TreeChange
from chaoskit.errors import UsageError
from chaoskit.protocol.io_journal import JournalError
from tests.analysis.crash_model.script import Script, shape

EDGES = st.sampled_from([0, 1, 511, 4096, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 5])
OPERATIONS = st.lists(st.tuples(st.sampled_from(["write", "zeros", "resize"]), EDGES, EDGES), max_size=8)


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    script = Script(tmp_path_factory.mktemp("run"))
    script.create("file")
    script.write("file", random.Random(0).randbytes(4 * BLOCK) + bytes(4 * BLOCK))
    return Contents(script.journal()), script.data


@settings(max_examples=200, deadline=None)
@given(OPERATIONS)
def test_a_file_holds_what_was_written(contents, operations):
    made, data = contents
    file, real = File(), bytearray()
    for what, offset, size in operations:
        if what == "resize":
            file = made.resize(file, size)
            real = real[:size].ljust(size, b"\0")
        else:
            at = 4 * BLOCK if what == "zeros" else offset % 77
            file = made.write(file, offset, size, at)
            real = real.ljust(offset, b"\0") if size else real
            real[offset : offset + size] = data[at : at + size]
    assert made.read(file) == real
    assert all(a.end <= b.start for a, b in zip(file.extents, file.extents[1:], strict=False))
    # The same bytes in one go, byte by byte where they are found.
    again = made.resize(File(), len(real))
    for offset in range(0, len(real), 509):
        at = data.find(real[offset : offset + 509])
        if at >= 0:
            again = made.write(again, offset, len(real[offset : offset + 509]), at)
    assert (again.digest == file.digest) == (made.read(again) == made.read(file))


def test_times_are_those_of_the_journal(tmp_path):
    script = Script(tmp_path)
    for name in ("step-10", "step-9"):  # the newest is not the last by name
        script.mkdir(name)
        script.create(f"{name}/weights")
        script.write(f"{name}/weights", b"w")
    count = len(script.operations)
    (state,) = crash_states(script.journal(), first=count, last=count, profiles=("kill",)).states
    state.materialise(tmp_path / "out")
    for what in ("", "/weights"):
        older, newer = (os.stat(tmp_path / "out" / f"{name}{what}").st_mtime for name in ("step-10", "step-9"))
        assert newer - older == pytest.approx(3.0, abs=0.01)


def test_blocks_that_change_places_are_another_content(contents):
    made, _ = contents
    one = made.write(made.write(File(), 0, BLOCK, 0), BLOCK, BLOCK, BLOCK)
    other = made.write(made.write(File(), 0, BLOCK, BLOCK), BLOCK, BLOCK, 0)
    assert one.digest != other.digest
    assert one.digest == made.write(File(), 0, 2 * BLOCK, 0).digest
    assert len(one.extents) == 1  # written on and on


def test_zeros_are_zeros_and_a_size_is_a_size(contents):
    made, _ = contents
    hole, zeros = made.resize(File(), 5000), made.write(File(), 0, 5000, 4 * BLOCK)
    assert hole.digest == zeros.digest != File().digest != made.resize(File(), 5001).digest
    assert File(mode=0o600).digest != File().digest


def tree(*entries):
    """A tree with these directories and names."""
    found = Tree()
    for directory, name, number, inode in entries:
        found = found.changed(inodes=[(number, inode)], names=[TreeChange(directory, name, None, number)])
    return found


def test_a_tree_has_no_memory():
    one = tree((ROOT, "d", 1, Directory()), (1, "f", 2, File(size=3)))
    other = tree(
        (ROOT, "x", 9, File()), (ROOT, "d", 7, Directory()), (7, "g", 8, File()), (7, "f", 4, File(size=3))
    )
    other = other.changed(names=[TreeChange(ROOT, "x", 9, None), TreeChange(7, "g", 8, None)])
    assert one.digest() == other.digest()
    assert one.changed(inodes=[(2, File(size=4))]).digest() != one.digest()
    assert one.changed(inodes=[(2, File(size=4)), (2, File(size=3))]).digest() == one.digest()
    moved = one.changed(names=[TreeChange(ROOT, "d", 1, None), TreeChange(ROOT, "e", None, 1)])
    assert moved.digest() != one.digest() and moved.paths(2) == ["e/f"] and one.paths(2) == ["d/f"]
    back = [TreeChange(ROOT, "e", 1, None), TreeChange(ROOT, "d", None, 1)]
    assert moved.changed(names=back).digest() == one.digest()


def test_two_names_of_one_file_are_not_two_files():
    one = tree((ROOT, "a", 1, File()), (ROOT, "b", 2, File()))
    other = tree((ROOT, "a", 1, File())).changed(names=[TreeChange(ROOT, "b", None, 1)])
    assert one.digest() != other.digest()
    assert other.changed(names=[TreeChange(ROOT, "b", 1, None)]).digest() == tree((ROOT, "a", 5, File())).digest()


def written(tmp_path):
    script = Script(tmp_path)
    script.mkdir("d")
    script.create("d/a", mode=0o600)
    script.write("d/a", b"head")
    script.write("d/a", b"tail", 10 << 20)
    script.link("d/a", "b")
    script.symlink("latest", "d")
    script.operations[0] = script.operations[0].__class__(**{**script.operations[0].__dict__, "mode": 0o500})
    last = len(script.operations)
    (state,) = crash_states(script.journal(), first=last, last=last)
    return state


def test_a_state_is_written_out_as_it_is(tmp_path):
    state = written(tmp_path / "run")
    out = tmp_path / "out"
    state.materialise(out)
    held, modes, shared = shape(out)
    assert held["d/a"] == held["b"] == b"head" + bytes((10 << 20) - 4) + b"tail"
    assert held["latest"] == ("->", "d") and shared == [["b", "d/a"]]
    assert (modes["d"] & 0o777, modes["d/a"] & 0o777) == (0o500, 0o600)
    assert (out / "b").stat().st_blocks * 512 < 1 << 20  # a hole
    (out / "d").chmod(0o700)


def test_nothing_is_written_over(tmp_path):
    state = written(tmp_path / "run")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(UsageError, match="out must be empty"):
        state.materialise(tmp_path / "out")


@pytest.mark.parametrize(
    "options, complaint",
    [
        ({"first": 3, "last": 2}, "first and last"),
        ({"first": 0, "last": 99}, "at most 2"),
        ({"first": 0, "last": 2, "profiles": ["zfs"]}, "profiles must be among kill, ext4, posix"),
        ({"first": 0, "last": 2, "most": 0}, "most must be at least 1"),
    ],
)
def test_arguments_that_cannot_be(tmp_path, options, complaint):
    script = Script(tmp_path)
    script.create("a")
    script.unlink("a")
    with pytest.raises(UsageError, match=complaint):
        crash_states(script.journal(), **options)


def test_a_journal_that_begins_in_the_middle_or_lacks_bytes(tmp_path):
    script = Script(tmp_path)
    script.files["before"] = 7
    script.write("before", b"x")
    with pytest.raises(JournalError, match="operation 0: write of 'before', which no operation has made"):
        crash_states(script.journal(), first=0, last=1)
    script = Script(tmp_path)
    script.create("a")
    script.write("a", b"x")
    script.operations[1] = script.operations[1].__class__(**{**script.operations[1].__dict__, "data": None})
    with pytest.raises(JournalError, match="bytes of operation 1, a write to 'a', were not kept"):
        crash_states(script.journal(), first=0, last=2)
    script.unlink("a")
    crash_states(script.journal(), first=3, last=3)  # nobody asks for these bytes any more
    script.data = b""
    script.operations[1] = script.operations[1].__class__(**{**script.operations[1].__dict__, "data": 5})
    with pytest.raises(JournalError, match="data end at 0"):
        crash_states(script.journal(), first=0, last=2)
