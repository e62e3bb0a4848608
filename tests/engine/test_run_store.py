"""The store: what is written can be read back, and what is not ours is refused in one clear sentence."""

import errno
import json
import subprocess
from collections import namedtuple

import pytest

from chaoskit.engine import run_store as module
from chaoskit.engine.run_store import Store
from chaoskit.environments.machine import owner, processes
from chaoskit.errors import ExitCode, StoreError
from chaoskit.verdict import failed, passed


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / ".chaoskit")


@pytest.fixture
def run_dir(store):
    return store.new_run(job={"script": "train.py"}, experiment="x", schedule=[{"text": "kill rank 1"}])


def judge(store, run_dir, *verdicts):
    store.write_verdicts(run_dir, checks=[{"name": v.check} for v in verdicts], verdicts=verdicts)


GOOD = passed("completed", "The job ended.")
BAD = failed("state_restored", "It was not.", "rng-not-restored", steps=[1, 2])


def test_a_run_is_written_and_read(store, run_dir):
    told = store.read(run_dir)
    assert (told["id"], told["status"], told["owner"]) == (run_dir.name, "running", owner.current())
    assert told["schedule"] == [{"text": "kill rank 1"}]
    assert json.loads((run_dir / "run.json").read_text())["format"] == 1
    store.finish(run_dir, "finished", note="kept")
    told = store.read(run_dir)
    assert (told["status"], told["note"], told["experiment"]) == ("finished", "kept", "x")
    assert (store.root / ".gitignore").read_text() == "*\n"


def test_names_sort_by_age(store):
    made = [store.new_run(job={}) for _ in range(5)]
    assert len(set(made)) == 5
    assert [p.name[:19] for p in store.all_runs()] == sorted(p.name[:19] for p in made)


def test_verdicts_are_written_and_read(store, run_dir):
    judge(store, run_dir, GOOD, BAD)
    judged = store.read_verdicts(run_dir)
    assert judged.verdicts == (GOOD, BAD)
    assert [check["name"] for check in judged.checks] == ["completed", "state_restored"]
    assert not judged.passed


def test_a_run_is_found_by_path_id_and_beginning(store, run_dir):
    other = run_dir.with_name("20990101-000000-0000000")
    other.mkdir()
    assert store.resolve(str(run_dir)) == store.resolve(run_dir.name) == store.resolve(run_dir.name[:6]) == run_dir
    with pytest.raises(StoreError, match=r"is the beginning of 2 runs .*: give more of it"):
        store.resolve("20")
    with pytest.raises(StoreError, match="nosuch names no stored run"):
        store.resolve("nosuch")


def damaged(run_dir, what):
    path = run_dir / "run.json"
    match what:
        case "file":
            return path
        case "not ours":
            path.unlink()
        case "truncated":
            path.write_text(path.read_text()[:40])
        case "binary":
            path.write_bytes(b"\xff\xfe\x00")
        case "list":
            path.write_text("[1]")
        case "version":
            path.write_text(json.dumps({**json.loads(path.read_text()), "format": 7}))
        case "keys":
            path.write_text('{"format": 1, "id": "x"}')
        case "events":
            (run_dir / "events").rmdir()
    return run_dir


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("file", "run.json is not a directory"),
        ("not ours", "has no run.json, so it is not a run of chaoskit"),
        ("truncated", "run.json is truncated or no JSON"),
        ("binary", "run.json is truncated or no JSON"),
        ("list", "run.json is JSON, but chaoskit did not write it"),
        ("version", "run.json is of format 7, this chaoskit reads 1: read it with the chaoskit that wrote it"),
        ("keys", "run.json lacks created, status, owner"),
        ("events", "has no events/, so there is nothing to judge"),
    ],
)
def test_what_is_no_run_is_refused(store, run_dir, what, said):
    with pytest.raises(StoreError) as caught:
        store.read(damaged(run_dir, what))
    message = str(caught.value)
    assert said in message
    assert "\n" not in message
    assert str(run_dir) in message
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "does not exist: no check was applied"),
        ("{", "is truncated"),
        ('{"format": 2}', "is of format 2"),
        ('{"format": 1, "checks": [], "verdicts": [{"check": "x"}]}', "holds no verdicts"),
    ],
)
def test_damaged_verdicts_are_refused(store, run_dir, content, said):
    if content is not None:
        (run_dir / "verdicts.json").write_text(content)
    with pytest.raises(StoreError, match=said):
        store.read_verdicts(run_dir)


def test_a_nearly_full_disk_is_told_before_a_run_begins(store, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: usage(2**40, 2**40, 10 * 2**20))
    said = r"the disk under .* is full \(10 MiB free, 64 needed\): make room"
    with pytest.raises(StoreError, match=said) as caught:
        store.new_run(job={})
    assert caught.value.exit_code is ExitCode.INTERNAL
    assert store.all_runs() == []


def test_a_disk_that_fills_up_is_told_and_the_old_file_stays(store, run_dir, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.os, "replace", full)
    with pytest.raises(StoreError, match=r"full.*No space left.*make room"):
        store.finish(run_dir, "finished")
    monkeypatch.undo()
    assert store.read(run_dir)["status"] == "running"
    assert sorted(p.name for p in run_dir.iterdir() if p.is_file()) == ["run.json"]


def test_a_place_that_is_no_directory(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(StoreError, match=r"cannot keep runs in .*taken.*--dir"):
        Store(tmp_path / "taken").prepare()


def test_old_passes_are_removed_and_failures_stay(store):
    passes, fails = [], []
    for index in range(6):
        run_dir = store.new_run(job={})
        (run_dir / "out").mkdir(exist_ok=True)
        (run_dir / "journal").mkdir()
        for name in ("operations.jsonl", "data"):
            (run_dir / "journal" / name).touch()
        judge(store, run_dir, GOOD if index % 2 else BAD)
        store.finish(run_dir, "finished")
        (passes if index % 2 else fails).append(run_dir)
    running = store.new_run(job={})
    assert store.keep(2) == 1
    gone = [p for p in passes if not p.exists()]
    assert len(gone) == 1
    assert not any((p / "out").exists() for p in passes)
    assert all((p / "out").is_dir() for p in fails)
    kept = [[path.name for path in p.glob("journal/*")] for p in passes if p.exists()]
    assert kept == [["operations.jsonl"]] * 2
    assert all((p / "journal" / "data").exists() for p in fails)
    assert running.is_dir()


def test_passes_of_the_session_at_hand_are_spared(store):
    made = [store.new_run(job={}) for _ in range(4)]
    for run_dir in made:
        (run_dir / "out").mkdir(exist_ok=True)
        judge(store, run_dir, GOOD)
        store.finish(run_dir, "finished")
    assert store.keep(1, spare={made[1].name}) == 2
    assert store.all_runs() == [made[1], made[3]] and not (made[1] / "out").exists()


def test_clear_leaves_what_others_are_at_work_on(store, run_dir):
    other = subprocess.Popen(["sleep", "60"])
    try:
        busy = store.new_run(job={})
        store.update(busy, owner={"pid": other.pid, "start": processes.identify(other.pid).started})
        control = store.new_control("abc", 0, job={})
        store.update(control, owner={"pid": other.pid, "start": processes.identify(other.pid).started})
        store.new_control("def", 0, job={})
        store.keep_crash("a traceback")
        assert store.clear() == (1, 1)
        assert busy.is_dir()
        assert control.is_dir()
        assert list(store.root.glob("crash-*")) == []
    finally:
        other.kill()
        other.wait()
    assert store.clear() == (1, 1)
