"""What a power cut would take: said of each path, with the fsync that is missing."""

import pytest

from chaoskit.analysis.crash_model import Unforced, unforced
from chaoskit.errors import UsageError
from tests.analysis.crash_model.script import Script


@pytest.fixture
def script(tmp_path):
    script = Script(tmp_path)
    script.mkdir("tmp")
    script.create("tmp/shard")
    script.write("tmp/shard", b"x")
    script.write("tmp/shard", b"y", 1)
    script.rename("tmp", "step-4")
    return script


def missing(script, under="step-4", **options):
    return unforced(script.journal(), upto=len(script.operations), under=under, **options)


NAME = Unforced("step-4", "name", 4, "fsync of the directory .")
SHARD = Unforced("step-4/shard", "name", 1, "fsync of the directory step-4")
DATA = Unforced("step-4/shard", "data", 3, "fsync of the file")


def test_nothing_was_forced(script):
    assert missing(script) == (NAME, SHARD, DATA)
    assert missing(script, under="") == (NAME, SHARD, DATA)
    assert missing(script, under="step-4/shard") == (NAME, SHARD, DATA)
    assert missing(script, under="step-40") == missing(script, under="other") == ()


def test_each_fsync_forces_its_own(script):
    script.fsync("step-4/shard")
    assert missing(script) == (NAME, SHARD)
    script.fsync("step-4")
    assert missing(script) == (NAME,)
    script.fsync("")
    assert missing(script) == ()
    script.write("step-4/shard", b"z")
    assert missing(script) == (Unforced("step-4/shard", "data", 8, "fsync of the file"),)


def test_an_fsync_that_began_before_the_last_write(script):
    script.fsync("step-4/shard", since=3)
    assert DATA in missing(script)


def test_under_ext4_any_fsync_forces_every_name(script):
    script.fsync("step-4/shard")
    assert missing(script, profile="ext4") == ()
    assert missing(script, profile="kill") == ()


def test_under_ext4_a_rename_over_a_file_forces_its_data(script):
    script.create("new")
    script.write("new", b"z")
    script.rename("new", "step-4/shard")
    told = {one.what for one in missing(script, profile="ext4")}
    assert told == {"name"}
    assert {one.what for one in missing(script)} == {"name", "data"}


def test_at_an_earlier_moment(script):
    script.fsync("step-4/shard")
    assert unforced(script.journal(), upto=3, under="tmp")[-1] == Unforced(
        "tmp/shard", "data", 2, "fsync of the file"
    )
    assert unforced(script.journal(), upto=0) == ()


def test_the_bytes_need_not_have_been_kept(script):
    script.operations = [one.__class__(**{**one.__dict__, "data": None}) for one in script.operations]
    journal = script.journal()
    (journal.directory / "data").unlink()
    assert unforced(journal, upto=5, under="step-4") == (NAME, SHARD, DATA)


def test_what_was_removed_is_not_missed(script):
    script.unlink("step-4/shard")
    assert missing(script) == (NAME,)


def test_arguments_that_cannot_be(script):
    with pytest.raises(UsageError, match="upto must be at most 5, not 6"):
        unforced(script.journal(), upto=6)
    with pytest.raises(UsageError, match="profile must be one of kill, ext4, posix, not 'zfs'"):
        unforced(script.journal(), upto=5, profile="zfs")
