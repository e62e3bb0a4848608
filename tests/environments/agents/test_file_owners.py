"""The user of an image reaches the files of one run, for as long as it lasts, and nothing else of the store."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from chaoskit.engine.run_store import Store
from chaoskit.environments.agents.file_owners import FileOwners

OTHER = 1234


@pytest.fixture
def run(tmp_path):
    store, undo = Store(tmp_path / ".chaoskit"), ExitStack()
    run_dir = store.new_run(job={})
    spec = SimpleNamespace(out=run_dir / "out", store=store.root)
    return SimpleNamespace(run_dir=run_dir, spec=spec, store=store, keep=undo.callback, end=undo.close)


def modes(run):
    names = ("", "out", "events", "logs")
    own = [stat.S_IMODE((run.run_dir / name).stat().st_mode) for name in names]
    return [*(stat.S_IMODE(path.stat().st_mode) for path in (run.store.root, run.store.runs)), *own]


def test_another_user_writes_until_the_end_of_the_run(run):
    other = run.store.new_run(job={})
    FileOwners(run, OTHER, list).open()
    assert modes(run) == [0o711, 0o711, 0o755, 0o777, 0o777, 0o777]
    run.end()
    assert modes(run) == [0o711, 0o711, 0o700, 0o700, 0o700, 0o700]
    assert stat.S_IMODE(other.stat().st_mode) == 0o700


def test_nothing_is_opened_to_our_own_user(run):
    FileOwners(run, os.geteuid(), list).open(to_helpers=os.geteuid() == 0)
    assert modes(run) == [0o700] * 6


def test_helpers_find_the_sockets_of_an_ordinary_user(run, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    FileOwners(run, OTHER, list).open(to_helpers=True)
    assert modes(run) == [0o711, 0o711, 0o711, 0o700, 0o700, 0o700]
