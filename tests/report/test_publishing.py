"""What is written after the verdicts: checked before anything runs, and never at the cost of a verdict."""

import os
import tempfile
from pathlib import Path

import pytest

from chaoskit.engine.run_store import Store
from chaoskit.errors import StoreError, UsageError
from chaoskit.report.html import run_page, suite_page
from chaoskit.report.machine import publishing
from chaoskit.report.machine.publishing import Targets
from tests.studies.nights.made import result, stored_run, suite


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def complaints():
    return []


@pytest.fixture
def publish(complaints):
    def publish(one, **targets):
        publishing.publish(one, Targets.of(**targets), store=Store(), complain=complaints.append)

    return publish


def of(*run_dirs):
    return suite(*(result(f"test_{n}", run=str(d), runs=(str(d),)) for n, d in enumerate(run_dirs)))


def test_everything_that_was_asked_for(publish, complaints):
    run_dir = stored_run(Store())
    publish(of(run_dir), json="r.json", report="a/b", summary="s.md", badge="b.svg")
    assert complaints == []
    assert f'href="runs/{run_dir.name}.html"' in Path("a/b/index.html").read_text()
    assert "<!doctype html>" in Path(f"a/b/runs/{run_dir.name}.html").read_text()
    assert '"verdict": "pass"' in Path("r.json").read_text()
    assert "### chaoskit" in Path("s.md").read_text()
    assert "1 of 1" in Path("b.svg").read_text()


def test_nothing_that_was_not(publish, here):
    publish(of())
    assert list(here.iterdir()) == []


def test_a_test_that_changes_the_directory_changes_nothing(complaints, monkeypatch, here):
    targets = Targets.of(json="r.json", report="report", summary="s.md", badge="b.svg")
    (here / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    publishing.publish(of(), targets, store=Store(), complain=complaints.append)
    assert sorted(path.name for path in here.iterdir()) == ["b.svg", "elsewhere", "r.json", "report", "s.md"]


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ({"summary": "-"}, "--x-summary: '-' \\(standard output\\) is not possible here: name a file"),
        ({"summary": "no/such/s.md"}, "--x-summary: 'no/such/s.md' is in .*no/such, which does not exist"),
        ({"badge": "."}, "--x-badge: '.' is a directory"),
        ({"badge": "-"}, "--x-badge: '-' \\(standard output\\) is not possible here"),
        ({"report": "file"}, "--x-report: cannot create 'file', because .*/file is a file"),
        ({"report": "file/below/it"}, "--x-report: cannot create 'file/below/it', because .*/file is a file"),
    ],
)
def test_what_cannot_be_written_is_refused_before(targets, said):
    Path("file").write_text("")
    with pytest.raises(UsageError, match=said):
        Targets.of(**targets, flag="--x-")


def test_what_may_not_be_written_is_refused_before(monkeypatch):
    def refused(dir):
        raise PermissionError

    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    Path("s.md").write_text("")
    for name, text in (("json", "r.json"), ("report", "a/b"), ("summary", "s.md"), ("badge", "b.svg")):
        with pytest.raises(UsageError, match=f"--{name}: .*not writable.* name "):
            Targets.of(**{name: text})


def test_what_could_not_be_written_in_the_end_is_a_line(publish, complaints, monkeypatch, here):
    (here / "gone").mkdir()
    targets = Targets.of(json="gone/r.json", report="report", summary="gone/s.md", badge="gone/b.svg")
    (here / "gone").rmdir()
    publishing.publish(of(), targets, store=Store(), complain=complaints.append)
    assert [line.partition(" (")[0] for line in complaints] == [
        "the json could not be written",
        "the summary could not be written",
        "the badge could not be written",
    ]
    assert Path("report/index.html").is_file()


def test_a_report_that_cannot_be_drawn_is_a_line_and_the_others_are_written(publish, complaints, monkeypatch):
    monkeypatch.setattr(suite_page, "render", lambda *args, **options: 1 / 0)
    publish(of(), report="report", summary="s.md")
    assert complaints == [
        "the report could not be written (ZeroDivisionError: division by zero); the verdicts stay valid"
    ]
    assert Path("s.md").is_file()


def test_a_directory_that_became_a_file_meanwhile(complaints):
    targets = Targets.of(report="report")
    Path("report").write_text("")
    publishing.publish(of(), targets, store=Store(), complain=complaints.append)
    (line,) = complaints
    assert line.startswith("the report could not be written (the report: cannot write ")


def test_one_page_that_cannot_be_drawn_costs_no_other(publish, complaints, monkeypatch):
    store = Store()
    good, bad = stored_run(store, experiment="test_good"), stored_run(store, experiment="test_bad")
    draw = run_page.render
    monkeypatch.setattr(
        run_page, "render", lambda run, **options: draw(run, **options) if "good" in run.experiment else 1 / 0
    )
    publish(of(good, bad), report="report")
    (line,) = complaints
    assert line.startswith(
        f"run {bad.name} has no page (ZeroDivisionError: division by zero); please report it with "
    )
    assert "1 / 0" in Path(line.rpartition(" ")[2]).read_text()
    index = Path("report/index.html").read_text()
    assert f'href="runs/{good.name}.html"' in index
    assert "the page of this run could not be rendered" in index and f"runs/{bad.name}.html" not in index


def test_a_run_that_is_damaged_costs_no_other(publish, complaints):
    store = Store()
    good, bad = stored_run(store), stored_run(store)
    (bad / "run.json").write_text((bad / "run.json").read_text()[:50])
    publish(of(good, bad), report="report")
    assert complaints == [f"{bad}/run.json is truncated or no JSON: it was damaged, or chaoskit did not write it"]
    index = Path("report/index.html").read_text()
    assert f'href="runs/{good.name}.html"' in index and "the record of this run cannot be read" in index


def test_a_run_that_is_gone_is_no_trouble(publish, complaints):
    publish(of(Path("/no/such/runs/20261122-000000-000aaaa")), report="report")
    assert complaints == []
    assert "the run was deleted" in Path("report/index.html").read_text()


def test_a_store_that_was_carried_elsewhere(publish, complaints):
    run_dir = stored_run(Store())
    publish(of(Path("/where/it/was/made/runs") / run_dir.name), report="report")
    assert f'href="runs/{run_dir.name}.html"' in Path("report/index.html").read_text()


def test_a_trouble_that_cannot_be_kept_is_told_all_the_same(publish, complaints, monkeypatch):
    def full(store, text):
        raise StoreError("the disk is full")

    monkeypatch.setattr(Store, "keep_crash", full)
    monkeypatch.setattr(run_page, "render", lambda *args, **options: 1 / 0)
    publish(of(stored_run(Store())), report="report")
    (line,) = complaints
    assert line.endswith("has no page (ZeroDivisionError: division by zero)")
