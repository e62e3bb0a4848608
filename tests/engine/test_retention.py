"""Which runs stay: old passes go, a limit holds, and what is said to be removed is gone."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace

import pytest

from chaoskit.engine.retention import clear, keep, nearly_full
from chaoskit.engine.run_store import Store
from chaoskit.environments.machine import processes
from chaoskit.files.disk_use import held, shown
from chaoskit.files.long_logs import OF_A_PASS
from tests.engine.conftest import BAD, GOOD, judge

MEGABYTE = 10**6


def stored(store, verdict, *, reference=None, size=MEGABYTE):
    """A run that has ended, whose events hold so many bytes."""
    run_dir = store.new_run(job={}, reference=reference)
    judge(store, run_dir, verdict)
    (run_dir / "events" / "harness.jsonl").write_bytes(bytes(size))
    store.finish(run_dir, "finished")
    return run_dir


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
    assert keep(store, 2).runs == 1
    gone = [p for p in passes if not p.exists()]
    assert len(gone) == 1
    assert not any((p / "out").exists() for p in passes)
    assert all((p / "out").is_dir() for p in fails)
    kept = [[path.name for path in p.glob("journal/*")] for p in passes if p.exists()]
    assert kept == [["operations.jsonl"]] * 2
    assert all((p / "journal" / "data").exists() for p in fails)
    assert running.is_dir()


@pytest.mark.parametrize("newest", [0, 5])
def test_a_link_in_place_of_a_run_costs_nothing_that_it_leads_to(store, tmp_path, newest):
    elsewhere = Store(tmp_path / "other").new_run(job={})
    judge(store, elsewhere, GOOD)
    store.finish(elsewhere, "finished")
    (elsewhere / "out" / "model.pt").touch()
    (store.new_run(job={}).parent / "00-linked").symlink_to(elsewhere)
    (store.references / "abc").mkdir()
    (store.references / "abc" / "control-0").symlink_to(elsewhere)
    keep(store, newest)
    assert (elsewhere / "out" / "model.pt").exists()
    store.new_control("abc", 0, job={})
    clear(store)
    assert (elsewhere / "out" / "model.pt").exists() and (elsewhere / "run.json").exists()
    assert not os.path.lexists(store.runs / "00-linked")


def test_passes_of_the_session_at_hand_are_spared(store):
    made = [store.new_run(job={}) for _ in range(4)]
    for run_dir in made:
        (run_dir / "out").mkdir(exist_ok=True)
        judge(store, run_dir, GOOD)
        store.finish(run_dir, "finished")
    assert keep(store, 1, spare={made[1].name}).runs == 2
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
        cleaned = clear(store)
        assert (cleaned.runs, cleaned.references, cleaned.busy, cleaned.left) == (1, 1, 2, [])
        assert busy.is_dir()
        assert control.is_dir()
        assert list(store.root.glob("crash-*")) == []
    finally:
        other.kill()
        other.wait()
    cleaned = clear(store)
    assert (cleaned.runs, cleaned.references, cleaned.busy) == (1, 1, 0)


def test_a_limit_takes_the_oldest_passes_then_references_then_failures(store):
    used, unused = (store.references / name for name in ("used", "unused"))
    for reference in (used, unused):
        control = store.new_control(reference.name, 0, job={})
        (control / "events" / "harness.jsonl").write_bytes(bytes(MEGABYTE))
        store.finish(control, "finished")
    fails = [stored(store, BAD) for _ in range(3)]
    passes = [stored(store, GOOD) for _ in range(3)]
    own = stored(store, BAD, reference="used")

    def at(limit):
        cleaned = keep(store, limit=limit, spare={own.name})
        return cleaned.runs, cleaned.references

    assert at(None) == (0, 0) and at(20 * MEGABYTE) == (0, 0)
    assert at(8_600_000) == (1, 0) and not passes[0].exists() and passes[1].exists()
    assert at(6 * MEGABYTE) == (2, 1) and not unused.exists() and used.exists() and fails[0].exists()
    assert at(1) == (3, 0) and own.exists() and used.exists()


def test_a_limit_spares_what_a_running_run_needs(store):
    control = store.new_control("abc", 0, job={})
    store.finish(control, "finished")
    running = store.new_run(job={}, reference="abc")
    assert keep(store, limit=1).references == 0 and control.exists() and running.exists()


def test_of_a_pass_the_ends_of_its_logs_stay(store):
    good, bad = (stored(store, verdict) for verdict in (GOOD, BAD))
    for run_dir in (good, bad):
        (run_dir / "logs" / "launch-0.log").write_bytes(b"a line\n" * 100_000)
    assert keep(store).freed > 400_000
    assert (good / "logs" / "launch-0.log").stat().st_size < OF_A_PASS + 200
    assert (bad / "logs" / "launch-0.log").stat().st_size == 700_000


def test_clear_counts_only_what_is_gone(store, monkeypatch):
    stays, goes = (stored(store, BAD) for _ in range(2))

    def refuse(name, *, dir_fd):
        if os.readlink(f"/proc/self/fd/{dir_fd}").startswith(str(stays)):
            raise PermissionError(1, "Operation not permitted")
        unlink(name, dir_fd=dir_fd)

    unlink = os.unlink
    monkeypatch.setattr(os, "unlink", refuse)
    cleaned = clear(store)
    assert cleaned.runs == 1 and not goes.exists() and stays.exists()
    assert MEGABYTE < cleaned.freed < 2 * MEGABYTE
    assert f"{stays}/run.json: Operation not permitted" in cleaned.left


def test_a_store_that_is_nearly_full_says_so(store, monkeypatch):
    stored(store, BAD)
    assert nearly_full(store, None) is None and nearly_full(store, 20 * MEGABYTE) is None
    assert "and the limit is 1.2 MB: at the end of a session the oldest are removed" in nearly_full(
        store, 1_200_000
    )
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=700 * MEGABYTE))
    assert "has 700 MB left" in nearly_full(store, None) and "chaoskit clean --all" in nearly_full(store, None)


def test_what_a_directory_holds(tmp_path):
    (tmp_path / "one").write_bytes(bytes(500_000))
    os.link(tmp_path / "one", tmp_path / "two")
    (tmp_path / "link").symlink_to("/usr")
    assert 500_000 <= held(tmp_path) < 520_000


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (12_345, "12 kB"),
        (1_234_567, "1.2 MB"),
        (64e6, "64 MB"),
        (2.5e12, "2.5 TB"),
    ],
)
def test_sizes_are_for_people(size, text):
    assert shown(size) == text
