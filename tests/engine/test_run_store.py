"""The store: what is written can be read back, and what is not ours is refused in one clear sentence."""

import errno
import json
import os
import stat
from collections import namedtuple

import pytest

from chaoskit.engine import run_store as module
from chaoskit.engine.run_store import Store
from chaoskit.environments.machine import owner
from chaoskit.errors import ExitCode, StoreError
from tests.engine.conftest import BAD, GOOD, judge


def test_a_run_is_written_and_read(store, run_dir):
    told = store.read(run_dir)
    assert (told["id"], told["status"], told["owner"]) == (run_dir.name, "running", owner.current())
    assert told["schedule"] == [{"text": "kill rank 1"}]
    assert json.loads((run_dir / "run.json").read_text())["format"] == 1
    store.finish(run_dir, "finished", note="kept")
    told = store.read(run_dir)
    assert (told["status"], told["note"], told["experiment"]) == ("finished", "kept", "x")
    assert (store.root / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("umask", [0, 0o22, 0o777])
def test_a_store_is_for_its_user_alone_whatever_the_umask(store, umask):
    before = os.umask(umask)
    try:
        run_dir = store.new_run(job={})
        control = store.new_control("abc", 0, job={})
        slot = store.new_slot(run_dir, 0)
        crash = store.keep_crash("a traceback")
    finally:
        os.umask(before)
    made = [path for path in (store.root, *store.root.rglob("*")) if path != store.root / "runs"]
    assert {control, slot, crash, run_dir / "out", run_dir / "run.json", store.root / ".gitignore"} <= set(made)
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_dir()} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_file()} == {0o600}


def test_a_store_that_was_shared_stays_so(store):
    store.prepare()
    store.root.chmod(0o750)
    store.new_run(job={})
    assert stat.S_IMODE(store.root.stat().st_mode) == 0o750


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
        ("keys", "run.json is damaged (it lacks created, status, owner, experiment"),
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
        (
            '{"format": 1, "checks": [], "verdicts": [{"check": "x"}]}',
            r"is damaged \(verdicts\[0\] lacks outcome, sentence",
        ),
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
    assert caught.value.exit_code is ExitCode.EXHAUSTED
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


def test_a_reference_behind_a_link_is_not_replaced(store, tmp_path):
    store.prepare()
    (tmp_path / "elsewhere" / "control-0").mkdir(parents=True)
    (store.references / "abc").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="abc"):
        store.new_control("abc", 0, job={})
    assert (tmp_path / "elsewhere" / "control-0").is_dir()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_store_that_can_only_be_read_is_told_before_anything_is_launched(store, monkeypatch, number):
    store.must_take_runs()

    def refused(*, dir):
        raise OSError(number, "refused", str(dir))

    monkeypatch.setattr(module.tempfile, "TemporaryFile", refused)
    with pytest.raises(StoreError, match=r"cannot keep runs in .*--dir") as raised:
        store.must_take_runs()
    assert raised.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize("path", ["/proc/nothing/store", "x" * 300])
def test_a_place_where_no_directory_can_be_made(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=r"cannot keep runs in "):
        Store(path).must_take_runs()
