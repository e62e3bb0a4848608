"""Whether a certificate still holds: each thing that it rests on is seen to break it."""

import json
import os
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chaoskit.engine.run_store import Store
from chaoskit.errors import UsageError
from chaoskit.studies.certificate import sources, verification
from chaoskit.studies.certificate.certificate import Certificate, digest_of
from chaoskit.studies.certificate.issue import issue
from chaoskit.studies.certificate.verification import load, verify
from tests.studies.certificate.by_hand import stored


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A certificate in a file, its store, and its only run. Its launcher lies beside the interpreter."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    suite = stored(tmp_path / "store", tmp_path / "home")
    store = Store(tmp_path / "store")
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(issue([suite], store).to_json()))
    return path, store, Path(suite.results[0].runs[0])


def broken(kept, **given):
    path, store, _ = kept
    found = verify(load(path), store, **given)
    assert found.exit_code == 3
    return found.broken


def test_it_holds_where_nothing_has_changed(kept):
    assert broken(kept) == ()


def test_it_expires(kept):
    (why,) = broken(kept, now=datetime.now(UTC) + timedelta(days=30, hours=1))
    assert why.startswith("it was valid until")
    assert "yet to come" in broken(kept, now=datetime.now(UTC) - timedelta(days=1))[0]


def test_changed_sources_end_it(kept, tmp_path):
    (tmp_path / "home" / "train.py").write_text("other")
    (why,) = broken(kept)
    assert why.endswith("train.py has changed")
    (tmp_path / "home" / "train.py").unlink()
    assert broken(kept)[0].endswith("train.py is gone")


def test_evidence_that_is_gone_or_altered_ends_it(kept):
    _, _, run = kept
    before = (run / "verdicts.json").read_text()
    (run / "verdicts.json").write_text(before.replace("pass", "fail", 1))
    assert "1 of 1 stored runs is not what it was" in broken(kept)[0]
    (run / "verdicts.json").write_text(before)
    assert broken(kept) == ()
    shutil.rmtree(run)
    assert "1 of 1 stored runs is no longer stored" in broken(kept)[0]


def test_another_version_or_machine_ends_it(kept, monkeypatch):
    with monkeypatch.context() as other:
        other.setattr(sources, "__version__", "9.0")
        assert broken(kept)[0].startswith("chaoskit is 9.0 here, and was ")
    here = sources.machine()
    monkeypatch.setattr(sources, "machine", lambda: {**here, "cores": "512", "host": "elsewhere"})
    found = broken(kept)
    assert len(found) == 2 and "the machine's host is elsewhere" in found[0] and "cores is 512" in found[1]


def test_another_launcher_ends_it(kept, tmp_path, monkeypatch):
    path, *_ = kept
    told = json.loads(path.read_text())
    assert told["basis"]["launcher"][0] == "torchrun"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "torchrun").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "torchrun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert broken(kept) == ("the launcher torchrun is another program",)
    monkeypatch.setenv("PATH", "/nowhere")
    assert broken(kept) == ("the launcher torchrun is gone",)


def test_a_launcher_that_was_not_there_ends_it_when_it_comes(tmp_path, monkeypatch):
    suite, store = stored(tmp_path / "store", tmp_path / "home"), Store(tmp_path / "store")
    path = tmp_path / "certificate.json"
    with monkeypatch.context() as other:
        other.setenv("PATH", "/nowhere")
        path.write_text(json.dumps(issue([suite], store).to_json()))
        assert broken((path, store, None)) == ()
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    assert broken((path, store, None)) == ("the launcher torchrun is another program",)


def test_another_version_of_a_package_ends_it(kept, monkeypatch):
    path, _, _ = kept
    told = json.loads(path.read_text())
    told["basis"]["packages"] = {"torch": "1.0"}
    again = Certificate.from_json(told).to_json()
    path.write_text(json.dumps(again))
    assert broken(kept) == ("the package torch is gone, and was 1.0",)


def edits():
    def row(told):
        told["rows"][0]["state"] = "proven"

    def answer(told):
        told["answer"] = "ready"

    def until(told):
        told["valid_until"] = "2999-01-01T00:00:00+00:00"

    return [row, answer, until]


@pytest.mark.parametrize("edit", edits())
def test_an_edited_certificate_is_refused(kept, edit):
    path, _, _ = kept
    told = json.loads(path.read_text())
    edit(told)
    path.write_text(json.dumps(told))
    with pytest.raises(UsageError, match="was edited after it was made"):
        load(path)


@pytest.mark.parametrize("field", ["answer", "evidence_digest", "sources_digest"])
def test_an_edit_with_a_new_digest_still_contradicts_itself(kept, field):
    path, _, _ = kept
    told = json.loads(path.read_text()) | {field: "ready"}
    path.write_text(json.dumps({**told, "digest": digest_of(told)}))
    with pytest.raises(UsageError, match="was edited"):
        load(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no file"), ("<html>", "name the certificate.json"), ("[]", "is no certificate"),
        ("{}", "is no certificate"), ('{"schema": 1, "verdict": "pass"}', "is no certificate"),
    ],
)  # fmt: skip
def test_another_file_is_no_certificate(tmp_path, content, said):
    path = tmp_path / "x.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=said):
        load(path)
    assert verification.load.__doc__
