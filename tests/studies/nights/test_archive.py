"""The archive of suites: what is written comes back, also where the session was killed; what is damaged is refused."""

import json
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from chaoskit import Job
from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine import reference_store
from chaoskit.engine.run_store import Store
from chaoskit.errors import ExitCode, StoreError
from chaoskit.report.machine import json_report
from chaoskit.studies.nights.archive import Archive, unkept
from tests.history_writer import Writer
from tests.studies.nights.made import BASELINE, HOSTILE, result, suite


@pytest.fixture
def archive(tmp_path):
    return Archive(Store(tmp_path / ".chaoskit"))


@pytest.fixture
def written(archive):
    """A suite of two experiments, whose writer is still at work."""
    writer = archive.begin(["chaoskit", "run", "--", "train {out}"])
    writer.add(result())
    writer.add(result("test_y", "fail", table=({"incarnation": 0, "rank": 0, "cells": {"model": "1"}},)))
    return writer


@pytest.fixture
def referenced(archive, monkeypatch):
    """A run that was held to a reference whose baseline is `BASELINE`."""
    run_dir = archive.store.new_run(job=Job("train.py", ["{out}"]).to_json(), reference="abc")
    controls = [Writer().launch().live(ends=True).exit(0).end().history() for _ in range(2)]
    monkeypatch.setattr(reference_store, "attached", lambda run_dir, name: Reference.of(controls))
    monkeypatch.setattr("chaoskit.studies.nights.archive.Baseline.of", lambda reference, *, job: BASELINE)
    return run_dir


def test_what_is_written_comes_back(archive, written):
    told = written.end()
    assert archive.read(archive.last()) == told
    assert (told.status, [one.name for one in told.results]) == ("finished", ["test_x", "test_y"])
    assert told.command == ("chaoskit", "run", "--", "train {out}")
    assert told.machine["cores"].isdigit()


def test_a_hostile_name_comes_back(archive):
    writer = archive.begin([HOSTILE])
    writer.add(result(HOSTILE))
    writer.end()
    back = archive.read(archive.last())
    assert (back.command, back.results[0].name) == ((HOSTILE,), HOSTILE)


def test_it_began_when_the_session_did(archive):
    writer = archive.begin([], since=time.monotonic() - 90)
    told = writer.end()
    ago = (datetime.now(UTC) - datetime.fromisoformat(told.created)).total_seconds()
    assert 90 <= ago < 150
    assert 90 <= told.seconds < 150


def test_one_that_was_killed_has_what_had_ended(archive, written):
    told = archive.read(written.path)
    assert (told.status, len(told.results), told.seconds) == ("running", 2, None)


@pytest.mark.parametrize("kept", [1, 2])
def test_a_line_that_was_cut_short_is_left_out(archive, written, kept):
    lines = written.path.read_text().splitlines(keepends=True)
    written.path.write_text("".join(lines[: kept + 1])[:-9])
    told = archive.read(written.path)
    assert (told.status, len(told.results)) == ("running", kept - 1)


def test_one_that_died_before_its_first_experiment(archive):
    path = archive.begin(["x"]).path
    assert (archive.read(path).status, archive.read(path).results) == ("running", ())


@pytest.mark.parametrize("status", ["interrupted", "finished"])
def test_how_it_ended(archive, written, status):
    written.end(status)
    assert archive.read(written.path).status == status


def test_baselines_are_kept_once(archive, referenced):
    for _ in range(2):
        writer = archive.begin([])
        writer.add(result(references=("abc",), runs=(str(referenced),)))
        told = writer.end()
        (back,) = archive.read(writer.path).baselines.items()
        assert (back[0], back[1].digest) == ("abc", told.baselines["abc"].digest)
    assert len(list((archive.directory / "baselines").iterdir())) == 1


def test_what_checkpoints_cost_is_kept_by_the_reference(archive, referenced):
    writer = archive.begin([])
    writer.add(result(references=("abc",), runs=(str(referenced),)))
    told = writer.end()
    back = archive.read(writer.path)
    assert back.checkpoint_costs == told.checkpoint_costs
    (cost,) = (one for one in back.checkpoint_costs["abc"].saves)
    assert (cost.saves, cost.in_checkpoint) == (3, True)
    document = archive.directory / "told.json"
    document.write_text(json.dumps(json_report.document(told.results, told)))
    assert archive.read(document).checkpoint_costs == told.checkpoint_costs


def test_a_baseline_that_is_gone_or_damaged(archive, referenced):
    writer = archive.begin([])
    writer.add(result(references=("abc",), runs=(str(referenced),)))
    writer.end()
    (path,) = (archive.directory / "baselines").iterdir()
    path.write_text(path.read_text()[:40])
    with pytest.raises(StoreError, match=r"baselines/\w+\.json is damaged .*: delete it"):
        archive.read(writer.path)
    path.unlink()
    assert archive.read(writer.path).baselines == {}


def test_a_run_that_is_gone_leaves_no_baseline(archive, referenced):
    shutil.rmtree(referenced)
    writer = archive.begin([])
    writer.add(result(references=("abc",), runs=(str(referenced),)))
    assert writer.end().baselines == {}


def test_resolve(archive, written, tmp_path):
    other = archive.begin([]).path
    assert archive.all() == [written.path, other]
    assert archive.resolve("last") == archive.last() == other
    assert archive.resolve(written.path.stem) == archive.resolve(str(written.path)) == written.path
    with pytest.raises(StoreError, match=r"is ambiguous, 2 suites begin with it \(\d+.*\): give a longer prefix"):
        archive.resolve(written.path.stem[:6])
    for wrong in ("nosuch", "", "no/such", "."):
        with pytest.raises(StoreError, match=r"there is no suite .* in .*suites"):
            archive.resolve(wrong)


def test_a_store_without_suites(archive):
    assert archive.all() == []
    with pytest.raises(StoreError, match=r"contains no suite: run 'chaoskit run' or pytest first") as it:
        archive.last()
    assert it.value.exit_code is ExitCode.USAGE


def test_what_json_wrote_is_a_suite_too(archive, tmp_path):
    one = suite(result(references=("abc",)), result("test_y", "fail"), baselines={"abc": BASELINE})
    path = tmp_path / "r.json"
    json_report.write(one.results, str(path), suite=one)
    back = archive.read(path)
    assert back.baselines["abc"].digest == BASELINE.digest
    assert (back.id, back.created, back.machine, back.status) == (one.id, one.created, one.machine, "finished")
    # What is left out of JSON, since it is in the run.
    assert back.results == tuple(replace(each, run=each.run_path) for each in one.results)


def test_json_of_an_older_version_is_a_suite_without_a_head(archive, tmp_path):
    path = tmp_path / "old.json"
    path.write_text(
        json.dumps({"schema": 1, "verdict": "pass", "experiments": [{"name": "x", "verdict": "pass"}]})
    )
    told = archive.read(path)
    assert (told.id, told.created, [one.name for one in told.results]) == ("old", "", ["x"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not a suite of chaoskit"),
        ('{"e": "suite", "form', "is not a suite of chaoskit"),
        ("\x00\x01", "is not a suite of chaoskit"),
        ("[]", "is not a suite of chaoskit"),
        ('{"e": "result"}\n', "is not a suite of chaoskit"),
        (
            '{"e": "suite", "format": 99}\n',
            "has format 99, but this chaoskit reads format 1: use the version of chaoskit that",
        ),
        ('{"e": "suite", "format": 1}\n', "is damaged .*: delete it or restore it"),
        ("{}", "is JSON, but not from chaoskit: name a suite or a file written by --json"),
        ('{"schema": 2, "experiments": []}', "of schema 2; this chaoskit reads schema 1"),
        ('{"schema": 1, "outcomes": {}}', "is JSON, but without a list of experiments: name a suite"),
        ('{"schema": 1, "experiments": [{}]}', "is damaged .*: write it again with --json"),
        ('{"schema": 1, "experiments": [], "baselines": {"a": {}}}', "is damaged"),
        ('{"schema": 1, "experiments": [], "baselines": []}', "is damaged"),
    ],
)
def test_what_is_none_is_refused_with_one_sentence(archive, tmp_path, content, said):
    path = tmp_path / "it"
    path.write_text(content)
    with pytest.raises(StoreError, match=said) as it:
        archive.read(path)
    assert str(it.value).startswith(str(path))
    assert it.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    "line", ['{"e": "result", "name": "x"}', '{"e": "result", "name": "x", "verdict": "great"}']
)
def test_a_result_that_is_none_is_damage(archive, written, line):
    written.path.write_text(written.path.read_text() + line + "\n")
    with pytest.raises(StoreError, match="is damaged"):
        archive.read(written.path)


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"\xff\xfe", "is not a suite of chaoskit"), (None, r"cannot be read .*: name the file of a suite")],
)
def test_what_cannot_be_read_is_refused(archive, tmp_path, content, why):
    path = tmp_path / "it"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreError, match=why):
        archive.read(path)


def test_one_that_is_in_no_archive(archive):
    one = unkept(["x"], [result()])
    assert (one.status, one.command, len(one.results)) == ("finished", ("x",), 1)
    assert not Path(archive.directory).exists()
