"""What lies in `{out}`, kept in the middle of a run and put into another one."""

import os
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest

from chaoskit.engine.windows import kept_outs
from chaoskit.engine.windows.kept_outs import KeptOuts, fresh, positions
from chaoskit.errors import StoreError


@pytest.fixture
def out(tmp_path):
    made = tmp_path / "run" / "out"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def kept(tmp_path):
    return fresh(tmp_path / "store" / "outs", within=tmp_path)


def put(path, content="x", *, age=100.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_what_was_there_is_there_again(out, kept, tmp_path):
    put(out / "step-10" / "rank-0.pt", "weights", age=50)
    put(out / "log.txt", "line").chmod(0o640)
    put(tmp_path / "data.bin")
    (out / "empty").mkdir()
    (out / "latest").symlink_to("step-10")
    (out / "absolute").symlink_to(out / "step-10" / "rank-0.pt")
    (out / "data").symlink_to(tmp_path / "data.bin")
    assert kept.keep(out, save=10, at=11)
    kept.write()
    (state,) = KeptOuts.read(kept.root).states
    assert (state.save, state.at, state.out, [*state.files]) == (
        10,
        11,
        str(out),
        ["log.txt", "step-10/rank-0.pt"],
    )
    state.verify()
    put(out / "step-10" / "rank-0.pt", "later")
    other = tmp_path / "other" / "out"
    other.mkdir(parents=True)
    time.sleep(0.2)
    shift = state.restore(other)
    assert (other / "step-10" / "rank-0.pt").read_text() == "weights" and (other / "empty").is_dir()
    assert (other / "log.txt").stat().st_mode & 0o777 == 0o640
    assert os.readlink(other / "latest") == "step-10" and os.readlink(other / "data") == str(tmp_path / "data.bin")
    assert os.readlink(other / "absolute") == str(other / "step-10" / "rank-0.pt")
    # As old as it was when it was kept, which is at least 0.2 s ago.
    assert shift >= 0.2 and time.time() - (other / "log.txt").stat().st_mtime == pytest.approx(100, abs=0.19)
    assert time.time() - (other / "step-10" / "rank-0.pt").stat().st_mtime == pytest.approx(50, abs=0.19)


@pytest.mark.parametrize("time_of", [os.path.getmtime, os.path.getctime])
def test_the_newest_checkpoint_is_the_newest_again(out, kept, tmp_path, time_of):
    """By whichever time a job looks for it. Its name is not the last one, and copying goes by name."""
    for step in (8, 9, 10):
        (out / f"step-{step}").mkdir()
        (out / f"step-{step}" / "model.pt").write_text("x")
        time.sleep(0.05)
    assert kept.keep(out, save=10, at=11)
    kept.write()
    (state,) = KeptOuts.read(kept.root).states
    time.sleep(0.3)
    other = tmp_path / "other" / "out"
    other.mkdir(parents=True)
    shift = state.restore(other)
    assert sorted(os.listdir(other), key=lambda name: time_of(other / name)) == ["step-8", "step-9", "step-10"]
    assert max(other.iterdir(), key=time_of).name == "step-10"
    age = time.time() - os.path.getmtime(other / "step-8")
    assert age == pytest.approx(time.time() - os.path.getmtime(out / "step-8") - shift, abs=0.05)


def test_states_that_are_let_go_make_room_and_leave_the_others_whole(out, kept, monkeypatch):
    monkeypatch.setattr(kept_outs, "MOST", 2500)
    put(out / "shared.pt", "s" * 1000)
    for save in (10, 20):
        put(out / f"step-{save}.pt", "x" * 700, age=save)
        assert kept.keep(out, save=save, at=save + 1)
    put(out / "step-30.pt", "x" * 700)
    assert not kept.keep(out, save=30, at=31) and kept.full and "more than" in kept.unkept
    (out / "step-10.pt").unlink()
    kept.keep_only({20})
    assert [state.save for state in kept.states] == [20] and not (kept.root / "10").exists() and not kept.unkept
    kept.states[0].verify()
    # What the first state had shared with the second still takes its room: 1000, two times 700, and no more.
    assert not kept.keep(out, save=30, at=31)
    (out / "step-30.pt").unlink()
    kept.keep_only({20})
    assert kept.keep(out, save=40, at=41) and len(kept.states) == 2


def test_one_file_is_kept_once_and_never_the_job_s_own(out, kept):
    same, grows = put(out / "step-10.pt"), put(out / "log.txt", "1")
    assert kept.keep(out, save=10, at=11)
    put(out / "step-20.pt", "y")
    put(grows, "12")
    assert kept.keep(out, save=20, at=21)
    first, second = (state.path for state in kept.states)
    assert os.path.samefile(first / "step-10.pt", second / "step-10.pt")
    assert not os.path.samefile(first / "log.txt", second / "log.txt")
    assert same.stat().st_nlink == grows.stat().st_nlink == 1
    same.write_text("z")
    for state in kept.states:
        state.verify()


def test_a_file_that_was_written_anew_is_copied_anew(out, kept):
    put(out / "latest.pt", "one")
    kept.keep(out, save=10, at=11)
    put(out / "latest.pt", "two", age=99)
    kept.keep(out, save=20, at=21)
    assert [(state.path / "latest.pt").read_text() for state in kept.states] == ["one", "two"]


@pytest.mark.parametrize("deed", ["altered", "gone", "added", "of the list"])
def test_what_was_altered_since_is_not_used(out, kept, tmp_path, deed):
    put(out / "step-10.pt", "weights")
    kept.keep(out, save=10, at=11)
    kept.write()
    copy = kept.states[0].path / "step-10.pt"
    if deed == "altered":
        copy.write_text("weighta")
    elif deed == "gone":
        copy.unlink()
    elif deed == "added":
        put(kept.states[0].path / "step-99.pt")
    else:
        (kept.root / kept_outs.INDEX).write_text("{")
        assert KeptOuts.read(kept.root).states == []
        return
    if deed != "added":
        with pytest.raises(StoreError, match=r"step-10\.pt (was altered since|cannot be read)"):
            kept.states[0].verify()
    (tmp_path / "new").mkdir()
    with pytest.raises(StoreError, match=r"altered|gone"):
        kept.states[0].restore(tmp_path / "new")


def test_without_room_there_are_fewer_states(out, kept, monkeypatch):
    monkeypatch.setattr(kept_outs, "MOST", 25)
    put(out / "step-10.pt", "x" * 20)
    assert kept.keep(out, save=10, at=11)
    put(out / "step-20.pt", "x" * 20)
    assert not kept.keep(out, save=20, at=21) and "No space" not in kept.unkept
    assert kept.unkept.startswith("the state at step 20 could not be kept: ") and "GiB" in kept.unkept
    assert not (kept.root / "20").exists() and [state.save for state in kept.states] == [10]
    (out / "step-20.pt").unlink()
    assert not kept.keep(out, save=30, at=31), "and no others"


def test_the_room_is_a_share_of_what_the_disk_has(out, kept, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=100))
    put(out / "step-10.pt", "x" * 11)
    assert not kept.keep(out, save=10, at=11)


def test_what_is_no_file_cannot_be_kept(out, kept):
    os.mkfifo(out / "queue")
    assert not kept.keep(out, save=10, at=11) and "neither a file nor a directory" in kept.unkept
    assert not kept.states and not (kept.root / "10").exists()


def test_a_file_that_vanishes_costs_one_state(out, kept, monkeypatch):
    """A job that writes in the background is in the middle of a save; at the next one it need not be."""
    put(out / "a.tmp")
    put(out / "b.pt")
    walk = kept_outs._walk

    def renamed(top):
        for path in list(walk(top)):
            (out / "a.tmp").unlink(missing_ok=True)
            yield path

    monkeypatch.setattr(kept_outs, "_walk", renamed)
    assert kept.keep(out, save=10, at=11) and not kept.states and "a.tmp" in kept.skipped
    assert kept.keep(out, save=20, at=21) and [state.save for state in kept.states] == [20]


def test_older_states_make_way(out, kept, tmp_path):
    put(out / "step-10.pt")
    kept.keep(out, save=10, at=11)
    assert fresh(kept.root, within=tmp_path).states == [] and not (kept.root / "10").exists()


def test_the_newest_state_before_a_step(out, kept):
    for save in (10, 20, 30):
        kept.keep(out, save=save, at=save + 1)
    assert kept.before(11) is None
    assert [kept.before(step).save for step in (12, 21, 22, 32, 60)] == [10, 10, 20, 30, 30]


def test_at_which_saves_states_are_kept():
    assert positions([], steps=60) == []
    assert positions([10, 20, 58, 59, 60], steps=60) == [10, 20, 58]
    many = list(range(10, 10_001, 10))
    chosen = positions(many, steps=10_000, near=[5_003, 7_777])
    assert len(chosen) <= 48 and chosen == sorted({*chosen}) and {*chosen} <= {*many}
    assert chosen[:6] == many[:6] and chosen[-1] == 9_990
    assert {4_990, 5_000, 7_760, 7_770} <= {*chosen}
    gaps = [b - a for a, b in pairwise(chosen)]
    assert max(gaps) <= 400, "evenly, in between"
