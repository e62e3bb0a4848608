"""The file system is a directory like any other, whatever is done to it, and its journal tells what was done."""

from __future__ import annotations

import ctypes
import os
import stat
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.environments.fusefs import fuse
from chaoskit.environments.fusefs.storage import trial
from tests.environments.fusefs.mounted import RUN_ID, Acting, Replay, mounted, tree
from tests.users import as_root_only, must_have, repeat

CREATE, EXCLUSIVE, APPEND, TRUNCATE = os.O_RDWR | os.O_CREAT, os.O_EXCL, os.O_APPEND, os.O_TRUNC


@pytest.fixture(scope="module", autouse=True)
def _possible(request):
    must_have(request, trial())


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The mounted directory, somebody in it, and somebody in a plain one."""
    place = tmp_path_factory.mktemp("storage")
    plain = place / "plain"
    plain.mkdir()
    with mounted(place) as made:
        other = Acting(plain)
        try:
            yield made, made.actor(), other, plain
        finally:
            other.end()


# Whatever is done.

_SLOTS = st.sampled_from("12")
_PATHS = st.sampled_from(["a", "b", "d", "d/a", "d/e", "d/e/a"])
_TEXT = st.sampled_from(["x", "yy", "some text"])
_SMALL = st.integers(0, 9000)


def _does(do, **told):
    return st.fixed_dictionaries({"do": st.just(do), **told})


_WAYS = st.sampled_from([
    CREATE, CREATE | EXCLUSIVE, CREATE | TRUNCATE, CREATE | APPEND, os.O_RDWR, os.O_WRONLY | os.O_CREAT, os.O_RDONLY,
    os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_CREAT | os.O_SYNC, os.O_WRONLY | os.O_CREAT | os.O_DSYNC | APPEND,
])  # fmt: skip
_STEPS = st.one_of(
    _does("open", slot=_SLOTS, path=_PATHS, flags=_WAYS, mode=st.sampled_from([0o644, 0o600])),
    _does("close", slot=_SLOTS),
    _does("write", slot=_SLOTS, text=_TEXT, times=st.sampled_from([1, 3000, 100_000])),
    _does("write", slot=_SLOTS, text=_TEXT, times=st.sampled_from([1, 3000]), at=_SMALL),
    _does("read", slot=_SLOTS, size=_SMALL, at=_SMALL),
    _does("mapped_write", slot=_SLOTS, text=_TEXT, at=_SMALL),
    _does("ftruncate", slot=_SLOTS, size=_SMALL),
    _does("fallocate", slot=_SLOTS, size=st.integers(1, 9000)),
    _does("truncate", path=_PATHS, size=_SMALL),
    _does("fsync", slot=_SLOTS),
    _does("fstat", slot=_SLOTS),
    _does("fchmod", slot=_SLOTS, mode=st.sampled_from([0o640, 0o755])),
    _does("chmod", path=_PATHS, mode=st.sampled_from([0o700, 0o755])),
    _does("mkdir", path=_PATHS),
    _does("rmdir", path=_PATHS),
    _does("unlink", path=_PATHS),
    _does("rename", path=_PATHS, to=_PATHS),
    _does("link", path=_PATHS, to=_PATHS),
    _does("symlink", path=_PATHS, to=st.sampled_from(["a", "nowhere"])),
    _does("stat", path=_PATHS),
    _does("list", path=st.sampled_from([".", "d"])),
)


@settings(max_examples=150)
@given(steps=st.lists(_STEPS, max_size=25))
def test_it_does_what_a_plain_directory_does_and_the_journal_replays_it(both, steps):
    made, inside, outside, plain = both
    base = len(tree(made.out))
    for one in (inside, outside):
        one("close_all")
    _clear(made, inside, outside, plain)
    for step in steps:
        assert inside(**step) == outside(**step), step
    made.storage.settle()
    assert tree(made.out) == tree(plain), base
    assert Replay(made.journal).tree() == tree(made.out)


def _clear(made, inside, outside, plain):
    """Each by its own means: what is removed from outside is in no journal."""
    for path in sorted(tree(plain), reverse=True):
        for one in (inside, outside):
            assert one("rmdir" if os.path.isdir(plain / path) and one is inside and not os.path.islink(plain / path)
                       else "unlink", path=path) in (None, "EISDIR", "EPERM")  # fmt: skip
        if (plain / path).is_dir() and not (plain / path).is_symlink():
            outside("rmdir", path=path)
    assert tree(plain) == tree(made.out) == {}


# What is particular.


def test_what_is_open_lives_on_without_a_name_and_under_another(both):
    made, inside, *_ = both
    inside("open", slot="1", path="open", flags=CREATE | TRUNCATE)
    inside("write", slot="1", text="before")
    inside("rename", path="open", to="renamed")
    inside("write", slot="1", text=" and after")
    assert (made.out / "renamed").read_text() == "before and after"
    inside("unlink", path="renamed")
    assert inside("fstat", slot="1")[:2] == [16, 0]
    inside("ftruncate", slot="1", size=6)
    inside("fchmod", slot="1", mode=0o600)
    assert inside("fstat", slot="1") == [6, 0, oct(stat.S_IFREG | 0o600)]
    assert inside("read", slot="1", size=100, at=0) == "before"
    inside("close", slot="1")
    inside("open", slot="1", path="open", flags=CREATE | EXCLUSIVE)
    files = [operation.file for operation in made.journal.operations if operation.kind == "create"]
    assert len(files) == len(set(files)), "the disk gives the same inode again, and we never the same number"
    inside("close", slot="1")
    inside("unlink", path="open")


def test_a_file_that_is_new_has_a_new_number_whatever_the_harness_has_removed(both):
    made, inside, *_ = both
    for _ in range(5):
        inside("open", slot="1", path="here", flags=CREATE | EXCLUSIVE)
        inside("close", slot="1")
        (made.out / "here").rename(made.out / "there")
        assert inside("exists", path="there")
        (made.out / "there").unlink()
    files = [operation.file for operation in made.journal.operations if operation.kind == "create"]
    assert len(files) == len(set(files))


def test_names_are_bytes(both):
    made, *_ = both
    name = os.fsdecode(b"\xff\xfe umlaut \xc3\xa4")
    code = f"import os; open(os.fsdecode({os.fsencode(name)!r}), 'w').close()"
    made.run(sys.executable, "-I", "-S", "-c", code)
    assert name in os.listdir(made.out)
    assert made.journal.operations[-1].path == name
    code = f"import os; os.remove(os.fsdecode({os.fsencode(name)!r}))"
    made.run(sys.executable, "-I", "-S", "-c", code)


def test_a_large_directory_is_listed_whole_and_once(both):
    made, inside, *_ = both
    names = [f"{number:04}-{'x' * 60}" for number in range(1500)]
    inside("mkdir", path="many")
    for name in names:
        (made.out / "many" / name).touch()
    assert inside("list", path="many") == names
    for name in names:
        (made.out / "many" / name).unlink()
    inside("rmdir", path="many")


def test_the_harness_changes_what_lies_beneath(both):
    """As faults do: the job sees it at once."""
    made, inside, *_ = both
    inside("open", slot="1", path="file", flags=CREATE)
    inside("write", slot="1", text="as written")
    assert inside("read", slot="1", size=100, at=0) == "as written"
    made.storage.settle()
    (made.out / "file").write_bytes(b"as damaged, and longer")
    assert inside("read", slot="1", size=100, at=0) == "as damaged, and longer"
    assert inside("stat", path="file")[0] == 22
    (made.out / "file").rename(made.out / "moved")
    assert (inside("exists", path="file"), inside("exists", path="moved")) == (False, True)
    (made.out / "moved").unlink()
    assert not {"file", "moved"} & set(inside("list", path="."))
    inside("close", slot="1")


RENAMEAT2 = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for name in "pq":
    with open(name, "w") as file:
        file.write(name)
assert libc.renameat2(-100, b"p", -100, b"q", 1) == -1 and ctypes.get_errno() == 17
assert libc.renameat2(-100, b"p", -100, b"q", 2) == 0
assert open("p").read() == "q"
os.remove("p")
assert libc.renameat2(-100, b"q", -100, b"p", 1) == 0
os.remove("p")
"""


def test_exchange_and_noreplace(both):
    made, *_ = both
    count = len(made.journal.operations)
    made.run(sys.executable, "-I", "-S", "-c", RENAMEAT2)
    swapped, moved = (each for each in made.journal.operations[count:] if each.kind == "rename")
    assert (swapped.path, swapped.to, swapped.exchange) == ("p", "q", True)
    assert (moved.path, moved.to, moved.replaced, moved.file) == ("q", "p", None, swapped.file)


def test_a_write_that_is_forced_at_once_is_a_write_and_an_fsync(both):
    made, inside, *_ = both
    for flag, only_data in ((os.O_SYNC, False), (os.O_DSYNC, True)):
        inside("open", slot="1", path="forced", flags=CREATE | flag)
        count = len(made.journal.operations)
        inside("write", slot="1", text="text")
        wrote, *forced = made.journal.operations[count:]
        assert (wrote.kind, {each.kind for each in forced}) == ("write", {"fsync"})
        assert (forced[0].since, forced[0].only_data, forced[0].file) == (wrote.n + 1, only_data, wrote.file)
        inside("close", slot="1")
    inside("unlink", path="forced")


def test_an_fsync_vouches_for_what_was_written_before_it(both):
    made, inside, *_ = both
    count = len(made.journal.operations)
    inside("open", slot="1", path="file", flags=CREATE)
    inside("write", slot="1", text="x", times=3_000_000)
    inside("fsync", slot="1")
    inside("fsync_directory", path=".")
    operations = made.journal.operations[count:]
    assert [each.kind for each in operations][-2:] == ["fsync", "fsyncdir"]
    assert all(each.n < operations[-2].since for each in operations if each.kind == "write")
    assert (operations[-1].path, operations[-1].file) == ("", 0)
    inside("close", slot="1")
    inside("unlink", path="file")


def test_pages_that_were_mapped_are_the_kernels(both):
    made, inside, *_ = both
    inside("open", slot="1", path="mapped", flags=CREATE)
    inside("ftruncate", slot="1", size=10_000)
    inside("mapped_write", slot="1", text="through memory", at=5000)
    written = [each for each in made.journal.operations if each.kind == "write"][-1]
    assert (written.path, written.process, written.offset) == ("mapped", 0, 4096)
    assert made.journal.bytes_of(written)[5000 - 4096 :][:14] == b"through memory"
    inside("close", slot="1")
    inside("unlink", path="mapped")


def test_who_did_it_is_known(both):
    made, *_ = both
    threaded = (
        "import threading; t = threading.Thread(target=lambda: open('w', 'w').close()); t.start(); t.join(); "
    )
    code = threaded + "import os; print(os.getpid(), os.getsid(0), t.native_id); os.remove('w')"
    said = made.run(sys.executable, "-I", "-S", "-c", code, start_new_session=True).split()
    created = [each for each in made.journal.operations if each.kind == "create"][-1]
    assert [created.process, created.session, created.thread] == [int(word) for word in said]


def test_many_write_at_once_and_every_file_is_whole(tmp_path):
    with mounted(tmp_path) as made:
        _write_at_once(made, [made.actor() for _ in range(4)])


def _write_at_once(made, actors):

    def work(number, actor):
        actor("open", slot="1", path=f"w{number}", flags=os.O_WRONLY | os.O_CREAT)
        for _ in range(8):
            assert actor("write", slot="1", text=str(number), times=1 << 20) == 1 << 20
        actor("close", slot="1")

    threads = [threading.Thread(target=work, args=each) for each in enumerate(actors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made.storage.settle()
    for number in range(len(actors)):
        assert (made.out / f"w{number}").read_bytes() == str(number).encode() * (8 << 20)
    operations = made.journal.operations
    assert [each.n for each in operations] == list(range(len(operations)))
    assert Replay(made.journal).tree() == tree(made.out)


def test_attributes_beyond_the_ordinary_do_not_exist(both):
    made, *_ = both
    code = "import os; open('f', 'w').close()\ntry: os.setxattr('f', 'user.x', b'1')\n"
    code += "except OSError as e: print(e.errno)\nos.remove('f')"
    assert made.run(sys.executable, "-I", "-S", "-c", code) == "95\n"


# What the kernel is told.


def test_what_is_to_be_written_begins_at_a_page():
    buffer = fuse.Buffer()
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer.space))
    assert address % 4096 == 0
    received = ctypes.addressof(ctypes.c_char.from_buffer(buffer.received))
    assert address - received == 40 + fuse.TRANSFER.size
    assert len(buffer.space) >= fuse.MOST


def test_entries_of_directories_are_padded_to_eight_bytes():
    for name in ("a", "abcdefgh", "x" * 255):
        packed = fuse.dirent(7, 1, name, 8)
        assert len(packed) % 8 == 0 and len(packed) >= 24 + len(name) and name.encode() in packed


def test_times_before_1970_and_large_inodes_can_be_told(tmp_path):
    path = tmp_path / "old"
    path.touch()
    os.utime(path, ns=(-1_500_000_000, 1))
    assert len(fuse.attributes(path.stat())) == 88


def test_nothing_is_mounted_here(both):
    made, *_ = both
    assert f"chaoskit-{RUN_ID}" not in Path("/proc/self/mountinfo").read_text()
    assert f"chaoskit-{RUN_ID}" in made.run("cat", "/proc/self/mountinfo")


@as_root_only
@pytest.mark.slow
def test_all_of_it_as_an_ordinary_user(request):
    repeat(request, __file__, "-m", "not slow")
