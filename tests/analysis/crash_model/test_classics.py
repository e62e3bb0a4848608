"""The ways in which programs publish a file, each with every state that a crash can leave, written out by hand."""

import pytest

from chaoskit.analysis.crash_model import crash_states, story
from tests.analysis.crash_model.script import Script, held

A, B = b"a" * 100, b"b" * 100  # less than a sector: written whole or not at all
ZEROS = bytes(100)


@pytest.fixture
def script(tmp_path):
    return Script(tmp_path)


def left(script, first=0, **options):
    """By profile, what the files hold in each state: of what a milder one does not allow."""
    found = {"kill": [], "ext4": [], "posix": []}
    for state in crash_states(script.journal(), first=first, last=len(script.operations), **options):
        found[state.profile].append(held(state))
    return found


def same(found, expected):
    def order(states):
        return sorted(map(repr, (sorted(state.items(), key=repr) for state in states)))

    assert order(found) == order(expected)


def published(script, *, file=False, directory=False):
    """Write a file under another name, and rename it."""
    script.create("tmp")
    script.write("tmp", A)
    if file:
        script.fsync("tmp")
    script.rename("tmp", "new")
    if directory:
        script.fsync("")


def test_write_and_rename_without_any_fsync(script):
    published(script)
    found = left(script)
    same(found["kill"], [{}, {"tmp": b""}, {"tmp": A}, {"new": A}])
    same(found["ext4"], [{"new": b""}])
    same(found["posix"], [{"tmp": ZEROS}, {"new": ZEROS}])


def test_with_the_file_forced_but_not_its_directory(script):
    published(script, file=True)
    found = left(script)
    same(found["kill"], [{}, {"tmp": b""}, {"tmp": A}, {"new": A}])
    same(found["ext4"], [])  # the names keep their order, and before the rename its data are there
    same(found["posix"], [{"tmp": ZEROS}])  # before the fsync
    after = left(script, first=4)  # nothing of it counts as forced
    same([*after["kill"], *after["ext4"], *after["posix"]], [{"new": A}])
    after = left(script, first=4, assume_before=False)
    same([*after["kill"], *after["ext4"], *after["posix"]], [{"new": A}, {"tmp": A}, {}])


def test_with_both_forced_nothing_is_lost_any_more(script):
    published(script, file=True, directory=True)
    after = left(script, first=5, assume_before=False)
    assert after == {"kill": [{"new": A}], "ext4": [], "posix": []}


def test_an_fsync_covers_what_was_written_when_it_began(script):
    script.create("file")
    script.write("file", A)
    script.write("file", B, offset=100)
    script.fsync("file", since=2)
    after = left(script, first=4, assume_before=False, profiles=["ext4"])
    same(after["kill"] + after["ext4"], [{"file": A + B}, {"file": A}])
    assert all(state.get("file", A)[:100] == A for state in left(script, first=4, assume_before=False)["posix"])


def test_overwritten_in_place(script):
    script.create("file")
    script.write("file", A * 20)
    script.write("file", B * 20)
    found = left(script, first=2, profiles=["ext4"])
    # Two thousand bytes are three boundaries of a sector and none of a page.
    same(found["kill"] + found["ext4"], [{"file": A * 20}, {"file": B * 20}])
    torn = [state["file"] for state in left(script, first=2)["posix"]]
    cuts = [512, 1024, 1536]
    expected = [B.ljust(2000, b"b")[:cut] + A.ljust(2000, b"a")[cut:] for cut in cuts]
    expected.append(b"a" * 1024 + b"b" * 976)
    assert sorted(torn) == sorted(expected)


def test_an_append_is_torn_at_sectors_and_pages(script):
    script.create("log")
    script.write("log", b"x" * 5000)
    script.write("log", b"y" * 4000, offset=5000)
    found = left(script, first=2)
    same(found["kill"], [{"log": b"x" * 5000}, {"log": b"x" * 5000 + b"y" * 4000}])
    same(found["ext4"], [{"log": b"x" * 5000 + b"y" * 3192}])  # up to 8192
    boundaries = [5120, 6144 + 1024, 8192, 8704]  # the first, the middle, the page and the last
    shorter = [b"x" * 5000 + b"y" * (at - 5000) for at in boundaries]
    posix = {state["log"] for state in found["posix"]}
    assert {one for one in shorter if len(one) != 8192} <= posix
    assert {one.ljust(9000, b"\0") for one in shorter} <= posix
    assert b"x" * 5000 + bytes(4000) in posix
    assert b"x" * 5000 + bytes(3192) + b"y" * 808 in posix
    assert all(one[:5000] == b"x" * 5000 for one in posix)


def test_two_sessions_of_which_one_crashes(script):
    for session in (1, 2):
        script.session = session
        script.create(f"rank{session}")
        script.write(f"rank{session}", A)
    found = crash_states(script.journal(), first=4, last=4, assume_before=False)
    alone = [state for state in found for cause in state.causes if cause.session == 1 and len(cause.losses) == 2]
    assert held(alone[0]) == {"rank2": A}
    every = [held(state) for state in found]
    for expected in ({}, {"rank1": A}, {"rank2": A}, {"rank1": A, "rank2": b""}, {"rank1": ZEROS, "rank2": A}):
        assert expected in every


def test_what_rests_on_a_session_that_is_lost_is_lost_with_it(script):
    script.create("tmp")
    script.session = 2
    script.rename("tmp", "new")
    found = crash_states(script.journal(), first=2, last=2, assume_before=False)
    same([held(state) for state in found], [{}, {"tmp": b""}, {"new": b""}])


def test_renamed_over_an_existing_file(script):
    script.create("file")
    script.write("file", A)
    script.create("tmp")
    script.write("tmp", B)
    script.rename("tmp", "file")
    found = left(script, first=3)
    same(found["kill"], [{"file": A, "tmp": b""}, {"file": A, "tmp": B}, {"file": B}])
    same(found["ext4"], [])  # auto_da_alloc
    same(found["posix"], [{"file": A, "tmp": ZEROS}, {"file": b""}, {"file": ZEROS}])


def test_cut_to_nothing_and_written_anew(script):
    script.create("file")
    script.write("file", A)
    script.truncate("file", 0)
    script.write("file", B)
    script.create("other")
    found = left(script, first=2)
    same(found["kill"], [{"file": A}, {"file": b""}, {"file": B}, {"file": B, "other": b""}])
    same(found["ext4"], [])  # the close has forced it (auto_da_alloc), and before it a crash leaves what is above
    assert {"file": b"", "other": b""} in found["posix"]
    assert {"file": ZEROS, "other": b""} in found["posix"]
    assert {"file": A, "other": b""} in found["posix"]


def test_a_pointer_written_in_place_before_the_rename_that_it_speaks_of(script):
    script.create("latest")
    script.write("latest", b"20")
    script.mkdir("40.tmp")
    script.rename("40.tmp", "40")
    script.write("latest", b"40")
    found = left(script, first=3)
    same(
        found["kill"],
        [{"latest": b"20", "40.tmp": None}, {"latest": b"20", "40": None}, {"latest": b"40", "40": None}],
    )
    same(found["ext4"], [{"latest": b"40", "40.tmp": None}])


def test_published_by_a_link(script):
    script.create("tmp")
    script.write("tmp", A)
    script.fsync("tmp")
    script.link("tmp", "new")
    script.unlink("tmp")
    found = crash_states(script.journal(), first=3, last=5)
    same([held(state) for state in found], [{"tmp": A}, {"tmp": A, "new": A}, {"new": A}, {}])
    worst = next(state for state in found if held(state) == {})
    assert worst.profile == "posix"
    assert story(worst) == (
        "after `unlink(tmp)`, `link(tmp, new)` may be undone, because the directory `.` was never fsynced"
    )


def test_removed(script):
    script.create("old")
    script.write("old", A)
    script.unlink("old")
    found = left(script, first=2)
    same(found["kill"], [{"old": A}, {}])
    assert found["ext4"] == found["posix"] == []


def test_the_old_one_removed_before_the_new_one_is_forced(script):
    script.mkdir("20")
    script.mkdir("40.tmp")
    script.rename("40.tmp", "40")
    script.rmdir("20")
    found = left(script, first=2)
    same(found["kill"], [{"20": None, "40.tmp": None}, {"20": None, "40": None}, {"40": None}])
    same(found["posix"], [{"40.tmp": None}])


def test_a_file_in_a_directory_whose_name_was_lost(script):
    script.mkdir("d")
    script.create("d/file")
    script.write("d/file", A)
    script.fsync("d/file")
    script.fsync("d")
    after = left(script, first=5, assume_before=False)
    same(after["kill"], [{"d": None, "d/file": A}])
    same(after["posix"], [{}])
    assert after["ext4"] == []


def test_a_rename_between_directories_is_forced_in_both_or_in_none(script):
    for path in ("from", "to"):
        script.mkdir(path)
    script.create("from/file")
    script.fsync("from")
    script.fsync("")
    script.rename("from/file", "to/file")
    both = [{"from": None, "to": None, "from/file": b""}, {"from": None, "to": None, "to/file": b""}]
    same([held(s) for s in crash_states(script.journal(), first=6, last=6, assume_before=False)], both)
    script.fsync("to")
    same([held(s) for s in crash_states(script.journal(), first=7, last=7, assume_before=False)], both[1:])


def test_what_a_forced_rename_rests_on_is_forced_with_it(script):
    for path in ("from", "to"):
        script.mkdir(path)
    script.fsync("")
    script.create("from/file")
    script.rename("from/file", "to/file")
    script.fsync("to")
    (state,) = crash_states(script.journal(), first=6, last=6, assume_before=False)
    assert held(state) == {"from": None, "to": None, "to/file": b""}
    assert not any(cause.losses for cause in state.causes)
