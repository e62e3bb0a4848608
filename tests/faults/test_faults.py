"""Faults: what they ask of an environment, when they count as observed, and that they come back from JSON."""

import json
import os
import signal
import time
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit import faults
from chaoskit.capabilities import CanOrder, CanSignal, CanTouchFiles, ProcessRef, StoredCheckpoint
from chaoskit.errors import UsageError
from chaoskit.validation import LARGEST


class Fake:
    """An environment of four ranks that does what it is told, and remembers."""

    def __init__(self, state="running", takes=False, alive=True):
        self.sent, self.orders, self.told_raise = [], [], False
        self._state, self.takes, self.alive = state, takes, alive

    def rank_process(self, rank):
        return ProcessRef(100 + rank, "7")

    def launcher_processes(self):
        return [ProcessRef(99, "7")]

    def signal(self, process, signum):
        self.sent.append((process.pid, signum))
        return self.alive

    def state(self, process):
        return self._state

    def delivered(self, process, signum):
        return self.takes

    def order(self, rank, order):
        self.orders.append((rank, dict(order)))

    def raised(self, rank):
        return self.told_raise


class Files:
    """An environment of files: the newest checkpoint is whatever lies in `out/new`."""

    def __init__(self, root):
        self.root = root
        (root / "out").mkdir()

    def put(self, name, data):
        path = self.out() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, ns=(1, 2_000_000_007))
        return path

    def out(self):
        return self.root / "out"

    def aside(self):
        made = self.root / f"aside-{len(list(self.root.glob('aside-*')))}"
        made.mkdir()
        return made

    def stored_checkpoints(self):
        names = [str(path.relative_to(self.out())) for path in (self.out() / "new").glob("*")]
        if not names:
            raise LookupError("nothing saved")
        return (StoredCheckpoint(tuple(names), {"launch": 0, "restart": 1, "n": 20}),)

    def checkpoint_paths(self):
        if not self.out().is_dir():
            raise LookupError("none is left")
        return tuple(sorted(path.name for path in self.out().iterdir()))


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def test_the_fakes_can_what_faults_need(files):
    assert isinstance(Fake(), CanSignal)
    assert isinstance(Fake(), CanOrder)
    assert isinstance(files, CanTouchFiles)


def test_kill_is_seen_when_every_victim_is_gone():
    env, action = Fake(), faults.kill(rank=(-1, 0)).action
    told = action.apply(env, 4)
    assert env.sent == [(100, signal.SIGKILL), (103, signal.SIGKILL)]
    assert action.observed(env, told) is None
    env._state = "gone"
    assert action.observed(env, told) == {"gone": [100, 103]}


def test_a_signal_that_is_caught_is_seen_when_it_was_taken():
    env, action = Fake(takes=True), faults.kill(rank=0, signal=signal.SIGTERM).action
    assert action.observed(env, action.apply(env, 4)) == {"delivered": [100]}
    assert faults.kill(rank=0).action.observed(env, action.apply(env, 4) | {"signal": signal.SIGKILL}) is None


def test_a_lost_node_takes_its_ranks_along():
    env, action = Fake(), faults.kill(launcher=True).action
    assert action.apply(env, 4)["pids"] == [99, 100, 101, 102, 103]
    assert list(action.victims(4)) == [0, 1, 2, 3]


class OneProcess(Fake):
    """The job's command is its only rank, and a process that was killed is gone at once."""

    def rank_process(self, rank):
        return ProcessRef(99, "7")

    def signal(self, process, signum):
        first = process.pid not in [pid for pid, _ in self.sent]
        self.sent.append((process.pid, signum))
        return first and self.alive


def test_a_command_that_is_its_own_rank_is_killed_once():
    env = OneProcess()
    assert faults.kill(launcher=True).action.apply(env, 1)["pids"] == [99] and len(env.sent) == 1
    with pytest.raises(LookupError):
        faults.kill(launcher=True).action.apply(OneProcess(alive=False), 1)


def test_ranks_may_end_with_their_launcher():
    class Bound(Fake):
        def signal(self, process, signum):
            return super().signal(process, signum) and (process.pid == 99) is launcher

    launcher = True
    assert faults.kill(launcher=True).action.apply(Bound(), 4)["pids"] == [99]
    launcher = False  # which is gone itself
    with pytest.raises(LookupError):
        faults.kill(launcher=True).action.apply(Bound(), 4)


def test_a_launcher_that_is_asked_to_end_is_asked_alone():
    env, action = Fake(), faults.kill(launcher=True, signal=signal.SIGTERM).action
    assert action.apply(env, 4)["pids"] == [99]


def test_who_was_gone_before_was_not_struck():
    for fault in (faults.kill(rank=0), faults.pause(rank=0, seconds=1)):
        with pytest.raises(LookupError):
            fault.action.apply(Fake(alive=False), 4)


def test_a_pause_is_seen_when_all_stopped_and_is_healed():
    env, action = Fake(), faults.pause(rank="all", seconds=2).action
    told = action.apply(env, 2)
    assert (action.observed(env, told), action.heal_after) == (None, 2.0)
    env._state = "stopped"
    assert action.observed(env, told) == {"stopped": [100, 101]}
    assert action.heal(env, told) == {"continued": [100, 101]}
    assert env.sent[-1] == (101, signal.SIGCONT)


def test_exit_is_seen_when_the_process_is_gone():
    env, action = Fake(), faults.exit(rank=1, code=3).action
    told = action.apply(env, 4)
    assert env.orders == [(1, {"do": "exit", "code": 3})]
    assert action.observed(env, told) is None
    env._state = "gone"
    assert action.observed(env, told) == {"gone": [101]}


def test_raise_is_seen_when_the_rank_says_so():
    env, action = Fake(), faults.raise_(rank=-1, type="OutOfMemoryError").action
    told = action.apply(env, 4)
    assert env.orders == [
        (3, {"do": "raise", "type": "OutOfMemoryError", "message": "injected by chaoskit"}),
    ]  # fmt: skip
    assert action.observed(env, told) is None
    env.told_raise = True
    assert action.observed(env, told) == {"raised": "OutOfMemoryError"}


def test_an_error_of_the_disk_reads_like_one():
    def message(**options):
        return faults.raise_(rank=0, **options).action.message

    assert message(type="OSError") == "[Errno 5] Input/output error (injected by chaoskit)"
    assert message(type="OSError", message="mine") == "mine" and message() == "injected by chaoskit"


def test_a_flip_changes_one_bit_of_the_largest_file_and_nothing_else(files):
    action = faults.file_bitflip().action
    files.put("new/a", bytes(10))
    path = files.put("new/b", bytes(11))
    files.put("new/c", bytes(11))
    files.put("old", bytes(99))
    told = action.apply(files, 2)
    assert path.read_bytes() == bytes(5) + b"\x10" + bytes(5)
    (file,) = told["files"]
    assert (file["file"], file["offset"], file["bit"]) == ("new/b", 5, 4)
    assert told["saves"] == [{"launch": 0, "restart": 1, "n": 20}]
    assert path.stat().st_mtime_ns == 2_000_000_007
    seen = action.observed(files, told)["seen"]
    assert seen.keys() == {"new/b"} and seen["new/b"] != file["before"]
    assert action.apply(files, 2)["files"][0]["before"] == seen["new/b"], "the same bit, back again"
    assert path.read_bytes() == bytes(11) and json.dumps(told)


def test_a_flip_that_cannot_be_seen_did_not_take_effect(files):
    action = faults.file_bitflip().action
    path = files.put("new/a", bytes(10))
    told = action.apply(files, 2)
    damaged = path.read_bytes()
    for restored in (bytes(10), bytes(11)):
        files.put("new/a", restored)
        assert action.observed(files, told) is None
    path.write_bytes(damaged)
    assert action.observed(files, told) is None, "its time gives it away"
    path.unlink()
    assert action.observed(files, told) is None


@pytest.mark.parametrize("before", [b"", b"another archive comes first"])
def test_a_flip_in_an_archive_hits_its_data(files, before):
    path = files.out() / "new" / "shard"
    path.parent.mkdir()
    with path.open("wb") as file:
        file.write(before)
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("x/data.pkl", bytes(500))
            archive.writestr("x/data/0", bytes(32))
            archive.writestr("x/data/1", bytes(64))
    action = faults.file_bitflip(bits=2).action
    told = action.apply(files, 2)
    assert action.observed(files, told)
    data, offset = path.read_bytes(), told["files"][0]["offset"]
    assert data[offset - 33 : offset + 33] == b"1" + bytes(32) + b"\x10\x10" + bytes(30) + b"P"
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() == "x/data/1"


def test_a_flip_needs_something_to_flip(files, monkeypatch):
    with pytest.raises(LookupError, match="nothing saved"):
        faults.file_bitflip().action.apply(files, 2)
    files.put("new/a", b"ab")
    with pytest.raises(LookupError, match="2 bytes"):
        faults.file_bitflip(bits=3).action.apply(files, 2)
    monkeypatch.setattr(files, "stored_checkpoints", lambda: (StoredCheckpoint(("gone",), {}),))
    with pytest.raises(LookupError, match="cannot be changed"):
        faults.file_bitflip().action.apply(files, 2)


def test_what_is_hidden_comes_back_and_what_was_made_meanwhile_is_put_aside(files, tmp_path):
    action = faults.hide().action
    files.put("checkpoints/step-20", b"old")
    files.put("latest", b"20")
    files.put("untouched/file", b"old")
    told = action.apply(files, 2)
    assert (told["paths"], action.heal_launches) == (["checkpoints", "latest", "untouched"], 1)
    assert os.listdir(files.out()) == []
    assert action.observed(files, told) == {"hidden": told["paths"]}
    files.put("checkpoints/step-10", b"new")
    files.put("latest", b"10")
    healed = action.heal(files, json.loads(json.dumps(told)))
    assert healed["made"] == ["checkpoints.made-while-hidden", "latest.made-while-hidden"]
    left = {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert left == {
        "out/checkpoints/step-20": b"old",
        "out/latest": b"20",
        "out/untouched/file": b"old",
        "aside-0/checkpoints.made-while-hidden/step-10": b"new",
        "aside-0/latest.made-while-hidden": b"10",
    }


def test_hidden_things_that_nobody_missed_leave_no_trace(files, tmp_path):
    action = faults.hide().action
    files.put("a/b", b"old")
    (files.out() / "link").symlink_to("a")
    told = action.apply(files, 2)
    files.out().rmdir()
    assert action.heal(files, told) == {"restored": ["a", "link"], "made": []}
    assert (files.out() / "link" / "b").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


def test_what_is_moved_is_what_saves_wrote_and_nothing_beside_it(files, tmp_path, monkeypatch):
    action = faults.hide().action
    for name in ("deep/a/step-4", "deep/a/began", "began"):
        files.put(name, name.encode())
    monkeypatch.setattr(files, "checkpoint_paths", lambda: ("deep/a/step-4",))
    told = action.apply(files, 2)
    assert sorted(str(p.relative_to(files.out())) for p in files.out().rglob("*") if p.is_file()) == [
        "began",
        "deep/a/began",
    ]
    time.sleep(0.02)  # the clock of a file system is coarse
    (files.out() / "deep" / "a" / "step-2").write_bytes(b"made meanwhile")
    monkeypatch.setattr(files, "checkpoint_paths", lambda: ("deep/a/step-2",))
    assert action.heal(files, told) == {
        "restored": ["deep/a/step-4"],
        "made": ["deep/a/step-2.made-while-hidden"],
    }
    assert sorted(path.name for path in (files.out() / "deep" / "a").iterdir()) == ["began", "step-4"]


def test_what_is_still_to_be_seen_is_not_hidden(files):
    action = faults.hide().action
    files.put("a/b", b"old")
    told = action.apply(files, 2)
    files.put("a/c", b"new")
    assert action.observed(files, told) is None


def test_what_cannot_be_moved_is_missed_and_left_as_it_was(files, monkeypatch):
    files.put("a/b", b"old")
    monkeypatch.setattr(files, "checkpoint_paths", lambda: ("a", "gone"))
    with pytest.raises(LookupError, match="gone"):
        faults.hide().action.apply(files, 2)
    assert (files.out() / "a" / "b").read_bytes() == b"old"


def test_noop_does_nothing_and_is_seen():
    env, action = Fake(), faults.noop().action
    assert action.observed(env, action.apply(env, 4)) == {"nothing": True}
    assert (env.sent, env.orders) == ([], [])


ranks = st.integers(-4, 3)
made = st.one_of(
    st.builds(lambda rank: faults.kill(rank=rank), st.one_of(ranks, st.just("all"))),
    st.builds(lambda several: faults.kill(rank=tuple(several)), st.lists(ranks, min_size=1, max_size=4)),
    st.just(faults.kill(launcher=True)),
    st.builds(lambda rank: faults.kill(rank=rank, signal=signal.SIGTERM), ranks),
    st.builds(lambda rank, seconds: faults.pause(rank=rank, seconds=seconds), ranks, st.floats(0.1, 100)),
    st.builds(lambda rank, code: faults.exit(rank=rank, code=code), ranks, st.integers(0, 255)),
    st.builds(lambda rank: faults.raise_(rank=rank, message="x"), ranks),
    st.just(faults.noop()),
    st.builds(
        lambda bits, checkpoints: faults.file_bitflip(bits=bits, checkpoints=checkpoints),
        st.integers(1, 9),
        st.sampled_from([1, 2, "all"]),
    ),
    st.builds(lambda seed: faults.overwrite(seed=seed, launches=2), st.integers(-LARGEST, LARGEST)),
    st.sampled_from(
        [
            each(launches=1)
            for each in (
                faults.truncate,
                faults.zero_fill,
                faults.empty,
                faults.delete,
                faults.swap_older,
                faults.swap_rank,
                faults.stale_pointer,
                faults.dangling_pointer,
                faults.damage_manifest,
                faults.damage_metadata,
                faults.strip_checksums,
            )
        ]
    ),
    st.builds(lambda launches: faults.hide(launches=launches), st.integers(1, 3)),
)
timed = st.one_of(
    st.builds(lambda fault, n: fault.at_step(n), made, st.integers(1, 99)),
    st.builds(lambda fault, n: fault.during_save(n), made, st.integers(1, 9)),
    st.builds(lambda fault, n: fault.after_save(n), made, st.integers(1, 9)),
    st.builds(lambda fault, seconds: fault.after(seconds), made, st.floats(0, 9)),
    st.builds(lambda fault, seed: fault.at_random(seed), made, st.integers(-LARGEST, LARGEST)),
    st.builds(lambda fault: fault.at_start(), made),
    st.builds(lambda fault, n: fault.between_writes(n), made, st.integers(1, 9)),
    st.builds(lambda fault: fault.before_relaunch(), made),
)


@given(timed)
def test_a_fault_comes_back_from_json(fault):
    told = json.loads(json.dumps(fault.to_json()))
    assert faults.from_json(told) == fault
    assert told["text"] == str(fault)
    assert set(fault.action.victims(4)) <= {0, 1, 2, 3}


def test_a_fault_without_a_trigger_cannot_be_stored():
    with pytest.raises(UsageError, match=r"kill rank 1: no trigger"):
        faults.kill(rank=1).to_json()


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: faults.kill(), "kill"),
        (lambda: faults.kill(rank=0, launcher=True), "kill"),
        (lambda: faults.kill(rank=1.5), "kill"),
        (lambda: faults.kill(rank=()), "kill"),
        (lambda: faults.kill(rank=0, signal=99), "signal"),
        (lambda: faults.kill(rank=0, signal=signal.SIGSTOP), "pause"),
        (lambda: faults.pause(rank=0, seconds=0), "seconds"),
        (lambda: faults.exit(rank="all"), "exit"),
        (lambda: faults.exit(rank=0, code=256), "code"),
        (lambda: faults.raise_(rank=0, type="Sneeze"), "type"),
        (lambda: faults.file_bitflip(bits=0), "bits"),
        (lambda: faults.file_bitflip(bits=True), "bits"),
        (lambda: faults.file_bitflip(checkpoints=0), "checkpoints"),
        (lambda: faults.truncate(checkpoints="some"), "checkpoints"),
        (lambda: faults.delete(launches=0), "launches"),
        (lambda: faults.delete(whole="yes"), "whole"),
        (lambda: faults.stale_pointer(launches="all"), "launches"),
        (lambda: faults.overwrite(bytes=0), "bytes"),
        (lambda: faults.overwrite(seed=0.5), "seed"),
        (lambda: faults.hide(launches=0), "launches"),
        (lambda: faults.hide(launches=0.5), "launches"),
        (lambda: faults.kill(rank=9).action.victims(4), "no rank 9"),
        (lambda: faults.from_json({"action": {"kind": "flood"}, "trigger": {}}), "flood"),
    ],
)
def test_arguments_are_validated(make, named):
    with pytest.raises(UsageError, match=named):
        make()
