"""The mark of a stored run: who recorded it, where, and whether its job is still the one that ran."""

import json
import os
import shutil
import socket

import pytest

from chaoskit import Job
from chaoskit.engine import origin
from chaoskit.engine.run_store import Store


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def run(home, tmp_path):
    return Store(tmp_path / "store").new_run(job=Job("train.py", ["{out}"]).to_json())


def is_own(run):
    return origin.recorded_here(run, json.loads((run / "run.json").read_text()))


def test_a_run_of_ones_own(run, home):
    assert is_own(run)
    key = home / "chaoskit" / "key"
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    Store(run.parent.parent).finish(run, "finished", put_back=["rng"])
    assert is_own(run), "what became of it changes nothing"


@pytest.mark.parametrize("part", ["job", "schedule", "environment", "experiment"])
def test_a_run_whose_job_was_changed(run, part):
    told = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**told, part: "other"}))
    assert not is_own(run)


@pytest.mark.parametrize("mark", [None, "", 7, "é", "0" * 64])
def test_a_mark_that_is_none(run, mark):
    told = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**told, "mark": mark}))
    assert not is_own(run)


def test_a_copy_in_another_directory(run, tmp_path):
    assert not is_own(shutil.copytree(run, tmp_path / "elsewhere" / run.name))


def test_another_machine(run, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    assert not is_own(run)


def test_another_user(run, monkeypatch, home):
    monkeypatch.setenv("XDG_STATE_HOME", str(home.parent / "theirs"))
    assert not is_own(run)
    assert not (home.parent / "theirs").exists(), "looking makes no key"


def test_a_key_that_others_could_read_proves_nothing(run, home):
    (home / "chaoskit" / "key").chmod(0o640)
    assert not is_own(run)


def test_without_a_place_for_the_key_runs_are_stored_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    made = Store(tmp_path / "store").new_run(job={})
    assert json.loads((made / "run.json").read_text())["mark"] == "" and not is_own(made)


def test_no_key_is_made_in_the_directory_of_somebody_else(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert origin.mark(tmp_path, {}) == "" and not (tmp_path / "state").exists()
