"""What a stored reference is found by, and when it no longer holds."""

import json
import os
import shutil
import sys
import tempfile

import pytest

from chaoskit import Job
from chaoskit.engine import reference_store
from chaoskit.engine.reference_digest import digest
from chaoskit.engine.run_store import Store
from chaoskit.probe.sources import identify
from tests.history_writer import Writer

JOB = Job.from_command([sys.executable, "train.py", "{out}"])


def test_the_digest_knows_what_changes_a_training(monkeypatch):
    first = digest(JOB)
    assert first == digest(JOB)
    assert first != digest(Job.from_command([sys.executable, "train.py", "{out}", "--lr=1"]))
    assert first == digest(Job.from_command(JOB.command, relaunches=9, resume_args=["-r"], timeout=5))
    monkeypatch.setenv("LEARNING_RATE", "0.1")
    changed = digest(JOB)
    assert changed != first
    monkeypatch.setenv("TERM", "something-else")
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "another")
    assert digest(JOB) == changed


@pytest.fixture
def kept(tmp_path):
    """A store with a reference written by hand, which rests on one file."""
    store = Store(tmp_path / "store")
    source = tmp_path / "train.py"
    source.write_text("lr = 1")
    for number in range(reference_store.CONTROLS):
        run_dir = store.new_control("digest", number, job=JOB.to_json())
        events = {}
        for event in Writer().control().events:
            events.setdefault(event.source, []).append(event)
        for name, own in events.items():
            lines = [json.dumps({"i": i, "t": e.t, "e": e.kind, **e.data}) for i, e in enumerate(own)]
            (run_dir / "events" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    reference_store.keep(store, "digest", JOB, seconds=1.0)
    path = store.references / "digest" / "reference.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": [identify(str(source))]}))
    return store, source


def test_a_reference_holds_while_its_files_are_what_they_were(kept):
    store, source = kept
    assert reference_store.load(store, "digest").steps == 60
    assert reference_store.load(store, "another") is None
    source.write_text("lr = 2")
    assert reference_store.load(store, "digest") is None
    source.write_text("lr = 1")
    assert reference_store.load(store, "digest") is not None
    source.unlink()
    assert reference_store.load(store, "digest") is None


def test_a_reference_says_what_its_checkpoints_cost_and_an_older_one_need_not(kept):
    store, _ = kept
    path = store.references / "digest" / "reference.json"
    told = json.loads(path.read_text())
    cost = told.pop("checkpoint_cost")
    assert (cost["ranks"], cost["interval_steps"]) == (2, 20.0)
    assert [(one["saves"], one["in_checkpoint"], one["background"]) for one in cost["saves"]] == [(3, True, False)]
    assert cost["saves"][0]["blocking_seconds"] > 0
    path.write_text(json.dumps(told))
    assert reference_store.load(store, "digest") is not None


def test_what_was_made_for_the_controls_alone_does_not_count(kept, tmp_path, monkeypatch):
    """torch writes modules to a temporary directory and imports them: gone with the process, or another one in each."""
    store, source = kept
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    gone, generated = tmp_path / "gone.py", tmp_path / "tmp" / "generated.py"
    older, elsewhere = tmp_path / "tmp" / "older.py", tmp_path / "written.py"
    (tmp_path / "tmp").mkdir()
    for path in (gone, generated, older, elsewhere):
        path.write_text("lr = 1")
    os.utime(older, (1, 1))
    told = [identify(str(path)) for path in (gone, generated, older, elsewhere, source)]
    gone.unlink()
    for run in (store.references / "digest").glob("control-*"):
        path = run / "events" / "rank-0-1.jsonl"
        lines = path.read_text().splitlines()
        more = {"i": len(lines), "t": 0.0, "e": "sources", "files": told}
        path.write_text("\n".join([*lines, json.dumps(more)]) + "\n")
    reference_store.keep(store, "digest", JOB, seconds=1.0)
    kept_files = json.loads((store.references / "digest" / "reference.json").read_text())["files"]
    assert {entry["path"] for entry in kept_files} == {str(older), str(elsewhere), str(source)}


def test_a_library_that_is_upgraded_makes_another_reference(kept):
    store, source = kept
    path = store.references / "digest" / "reference.json"
    files = [identify(str(source), whole=False)]
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": files}))
    assert reference_store.load(store, "digest") is not None
    os.utime(source, ns=(1, 1))
    assert reference_store.load(store, "digest") is None


def test_a_damaged_reference_is_made_again(kept):
    store, _ = kept
    path = store.references / "digest" / "reference.json"
    whole = path.read_text()
    for text in ("", "{", '{"format": 99}'):
        path.write_text(text)
        assert reference_store.load(store, "digest") is None
    path.write_text(whole)
    for record in (store.references / "digest").glob("control-1/events/*"):
        record.unlink()
    assert reference_store.load(store, "digest") is None


def test_a_run_takes_its_reference_along(kept, tmp_path):
    store, _ = kept
    run_dir = tmp_path / "run"
    reference_store.attach(reference_store.load(store, "digest"), run_dir)
    for path in (store.references / "digest").rglob("*.jsonl"):
        path.unlink()
    assert reference_store.attached(run_dir, "digest").steps == 60
    assert reference_store.attached(tmp_path / "elsewhere", "digest") is None


def test_a_reference_that_many_runs_share_is_read_once(kept, tmp_path, monkeypatch):
    store, _ = kept
    first, copy, other = (tmp_path / name for name in ("first", "copy", "other"))
    for run_dir in (first, other):
        reference_store.attach(reference_store.load(store, "digest"), run_dir)
    shutil.copytree(first, copy)
    one = reference_store.attached(first, "digest")
    assert reference_store.attached(copy, "digest") is one
    events = next((other / "reference" / "control-0" / "events").glob("rank-0-*.jsonl"))
    text = events.read_text().replace('"lr@', '"lr_@')
    events.unlink()  # a link: the others shall keep theirs
    events.write_text(text)
    assert reference_store.attached(other, "digest") is not one
