"""`chaoskit certify` on stores as sessions leave them, and everything that it refuses."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chaoskit.cli import certify, main, run
from chaoskit.engine import retention
from chaoskit.engine.certified_runs import certified
from chaoskit.engine.run_store import Store
from chaoskit.errors import ExitCode
from chaoskit.studies.certificate.rows import ALSO
from tests.studies.certificate.by_hand import stored

NAMES = ("test_resume.py::test_resume", "test_control.py::test_control")


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Call the command in a directory of its own: the exit code, the output and the complaints."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        code = main.main(["certify", *map(str, words)])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


@pytest.fixture
def suite(tmp_path):
    return stored(tmp_path / ".chaoskit", tmp_path / "home", NAMES)


def test_the_newest_suite_is_certified_without_a_command(said, suite, tmp_path):
    code, out, err = said()
    assert code == ExitCode.INCONCLUSIVE and f"certifies suite {suite.id}" in err
    assert "not proven: of " in out and "test_all_ranks did not run" in out
    page, text, document = (
        tmp_path / "chaoskit-certificate" / f"certificate.{end}" for end in ("html", "md", "json")
    )
    assert "not proven" in page.read_text() and "| ? not tested |" in text.read_text()
    assert json.loads(document.read_text())["suites"] == [suite.id]


def test_a_certificate_verifies_until_something_changes(said, suite, tmp_path):
    assert said("-o", "out")[0] == ExitCode.INCONCLUSIVE
    code, out, _ = said("--verify", "out/certificate.json")
    assert code == ExitCode.INCONCLUSIVE and "It holds here and now" in out
    (tmp_path / "home" / "train.py").write_text("other")
    code, out, _ = said("--verify", "out/certificate.json")
    assert code == ExitCode.INCONCLUSIVE and "train.py has changed" in out
    told = json.loads(Path("out/certificate.json").read_text()) | {"answer": "ready"}
    Path("out/certificate.json").write_text(json.dumps(told))
    code, _, err = said("--verify", "out/certificate.json")
    assert code == ExitCode.USAGE and "was edited" in err
    code, _, err = said("--verify", "out/certificate.html")
    assert code == ExitCode.USAGE and "name the certificate.json" in err


def test_several_suites_of_one_job_go_together(said, suite, tmp_path):
    more = stored(tmp_path / ".chaoskit", tmp_path / "home", ("test_debris.py::test_interrupted_saves",))
    code, _, err = said("--suite", suite.id, "--suite", more.id, "--suite", suite.id)
    assert code == ExitCode.INCONCLUSIVE and err.count("certifies suite") == 2
    assert json.loads(Path("chaoskit-certificate/certificate.json").read_text())["suites"] == [suite.id, more.id]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--suite", "last", "--verify", "x"), "--suite and --verify exclude each other"),
        (("--suite", "last", "--", "torchrun", "t.py", "{out}"), "--suite and a command exclude each other"),
        (("--verify", "x", "--", "torchrun", "t.py", "{out}"), "--verify and a command exclude each other"),
        (("--gpus", "8"), "--gpus needs --mtbf-hours"),
        (("--suite", "nothing"), "there is no suite nothing"),
        (("--verify", "nothing.json"), "there is no file"),
        ((), "contains no suite"),
    ],
)
def test_what_it_refuses(said, words, complaint):
    code, _, err = said(*words)
    assert code == ExitCode.USAGE and complaint in err
    assert not Path("chaoskit-certificate").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--mtbf-hours", "0"),
        ("--mtbf-hours", "x"),
        ("--silent-share", "2"),
        ("--gpus", "0"),
        ("--save-seconds", "-1"),
    ],
)
def test_numbers_that_cannot_be(said, words):
    with pytest.raises(SystemExit) as ended:
        said(*words)
    assert ended.value.code == ExitCode.USAGE


def test_an_old_suite_ticks_nothing(said, tmp_path):
    stored(tmp_path / ".chaoskit", tmp_path / "home", NAMES, created=datetime.now(UTC) - timedelta(days=40))
    code, _, err = said()
    assert code == ExitCode.INCONCLUSIVE and "40 days old" in err and not Path("chaoskit-certificate").exists()


def test_a_place_that_cannot_be_written_is_known_first(said, suite):
    Path("file").write_text("")
    code, _, err = said("-o", "file")
    assert code == ExitCode.USAGE and "-o" in err


def test_the_evidence_of_a_valid_certificate_is_not_removed(said, suite, tmp_path):
    store = Store(tmp_path / ".chaoskit")
    ids = {Path(result.run).name for result in suite.results}
    assert said()[0] == ExitCode.INCONCLUSIVE and certified(store) == ids
    assert certified(store, now=datetime.now(UTC) + timedelta(days=31)) == frozenset()
    retention.keep(store, 0)
    assert {path.name for path in store.all_runs()} == ids
    for path in (store.root / "certificates").iterdir():
        path.write_text("{")
    retention.keep(store, 0)
    assert store.all_runs() == []


def session_of(monkeypatch, code, suite=None):
    """Replace the battery; returns what it was asked for."""
    asked = []

    def do(args, *, session):
        asked.append(session.also)
        if suite is not None:
            session.end(suite.results, suite, None)
        return code

    monkeypatch.setattr(run, "do", do)
    return asked


COMMAND = ("--", "torchrun", "train.py", "--out", "{out}")


def test_a_command_runs_the_battery_and_what_rows_need_beside_it(said, suite, monkeypatch):
    asked = session_of(monkeypatch, ExitCode.PASS, suite)
    code, out, err = said(*COMMAND)
    assert code == ExitCode.INCONCLUSIVE and asked == [ALSO] and "not proven" in out and "certifies" not in err
    said("-k", "resume", *COMMAND)
    assert asked[1] == ()


@pytest.mark.parametrize("code", [ExitCode.USAGE, ExitCode.INTERNAL, ExitCode.EXHAUSTED, ExitCode.INTERRUPTED])
def test_a_battery_that_did_not_end_gives_no_certificate(said, suite, monkeypatch, code):
    session_of(monkeypatch, code, suite)
    assert said(*COMMAND)[0] == code and not Path("chaoskit-certificate").exists()


def test_the_experiments_on_request_are_selected(monkeypatch):
    from chaoskit.cli import battery

    usual, more = battery.titles(), battery.titles(battery.Selection(also=ALSO))
    assert set(more) - set(usual) == set(ALSO) and certify.EXAMPLE.startswith("chaoskit certify")
