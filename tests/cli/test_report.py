"""`chaoskit report`: pages of a run, of several, of a suite; and one clear message for whatever is no such thing."""

import json
import shutil
from pathlib import Path

import pytest

from chaoskit.cli import main
from chaoskit.engine.run_store import Store
from chaoskit.errors import ExitCode
from chaoskit.report.html import run_page
from chaoskit.report.machine import json_report
from chaoskit.studies.nights.archive import Archive
from tests.studies.nights.made import BAD, HOSTILE, result, stored_run


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Store()


@pytest.fixture
def report(store, capsys):
    """Call it with arguments; it answers with the exit code, standard output and standard error."""

    def run(*args):
        try:
            code = main.main(["report", *map(str, args)])
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return run


@pytest.fixture
def archived(store):
    """A suite of two experiments, each with a run."""
    writer = Archive(store).begin(["chaoskit", "run"])
    for name, verdict in (("test_good", "pass"), ("test_bad", "fail")):
        run_dir = stored_run(store, experiment=name, verdicts=[BAD] if verdict == "fail" else [])
        writer.add(result(name, verdict, run=str(run_dir), runs=(str(run_dir),)))
    writer.end()
    return writer


def names(run):
    return [Path(one.run).name for one in run.suite.results]


@pytest.mark.parametrize(
    ("wish", "path"),
    [
        ((), "{id}.html"),
        (("-o", "x.html"), "x.html"),
        (("-o", "a/b"), "a/b/{id}.html"),
        (("-o", "a/b/"), "a/b/{id}.html"),
        (("-o", "{id}.d"), "{id}.d/{id}.html"),
    ],
)
def test_one_run(report, store, wish, path):
    run_dir = stored_run(store, verdicts=[BAD])
    told = report(run_dir.name, *(word.format(id=run_dir.name) for word in wish))
    path = path.format(id=run_dir.name)
    assert told == (0, f"{path}\n", "")
    assert "The RNG was not restored." in Path(path).read_text()


def test_a_run_is_named_as_in_explain(report, store, tmp_path):
    run_dir = stored_run(store)
    shutil.copytree(run_dir, tmp_path / "copied")
    for text in (run_dir.name[:-2], run_dir, run_dir.relative_to(tmp_path)):
        assert report(text, "-o", "x.html") == (0, "x.html\n", "")
    assert report("copied") == (0, "copied.html\n", "")


def test_a_run_that_nobody_judged(report, store):
    run_dir = stored_run(store, verdicts=())
    assert report(run_dir)[0] == 0
    assert "<h1" in Path(f"{run_dir.name}.html").read_text()


@pytest.mark.parametrize("args", [(), ("--last-suite",), ("--suite", "last")])
def test_the_last_suite(report, archived, args):
    assert report(*args) == (0, "chaoskit-report/index.html\n", "")
    index = Path("chaoskit-report/index.html").read_text()
    assert "1 problem" in index
    for name in names(archived):
        assert f'href="runs/{name}.html"' in index
        assert 'class="home" href="../index.html#experiment-' in Path(f"chaoskit-report/runs/{name}.html").read_text()


def test_a_run_by_itself_links_to_no_suite(report, store):
    report(stored_run(store), "-o", "x.html")
    assert 'class="home"' not in Path("x.html").read_text()


def test_pages_link_to_the_files_of_their_run(report, archived):
    report("-o", "deep/er")
    (name, _) = names(archived)
    assert f'href="../../../.chaoskit/runs/{name}/run.json"' in Path(f"deep/er/runs/{name}.html").read_text()


def test_a_suite_of_another_store(report, archived, tmp_path):
    other = tmp_path / "elsewhere"
    other.mkdir()
    (tmp_path / ".chaoskit").rename(other / ".chaoskit")
    file = other / ".chaoskit" / "suites" / archived.path.name
    for args in (("--suite", file), ("--dir", other / ".chaoskit")):
        assert report(*args)[0] == 0
        assert Path(f"chaoskit-report/runs/{names(archived)[0]}.html").is_file()
        shutil.rmtree("chaoskit-report")


def test_what_json_wrote(report, archived):
    json_report.write(archived.suite.results, "r.json", suite=archived.suite)
    assert report("--suite", "r.json")[0] == 0
    assert Path(f"chaoskit-report/runs/{names(archived)[0]}.html").is_file()


def test_several_runs(report, archived):
    one, two = names(archived)
    assert report(two, one, two, "-o", "both") == (0, "both/index.html\n", "")
    index = Path("both/index.html").read_text()
    assert "test_good" in index and "test_bad" in index and "1 problem" in index
    assert len(list(Path("both/runs").iterdir())) == 2


def test_runs_that_are_gone_are_listed_without_a_link(report, archived, store):
    gone, kept = names(archived)
    shutil.rmtree(store.runs / gone)
    assert report() == (0, "chaoskit-report/index.html\n", "")
    index = Path("chaoskit-report/index.html").read_text()
    assert "the run was deleted" in index and f"{gone}.html" not in index and f"runs/{kept}.html" in index


def test_a_suite_that_is_still_running_or_was_killed(report, store):
    Archive(store).begin(["x"])
    assert report()[0] == 0
    assert "This suite has no end" in Path("chaoskit-report/index.html").read_text()


def test_hostile_names(report, store):
    run_dir = stored_run(store, experiment=HOSTILE)
    writer = Archive(store).begin([HOSTILE])
    writer.add(result(HOSTILE, "fail", run=str(run_dir), runs=(str(run_dir),)))
    assert report()[0] == 0
    for path in (Path("chaoskit-report/index.html"), *Path("chaoskit-report/runs").iterdir()):
        text = path.read_text()
        assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "suites contains no suite: run 'chaoskit run' or pytest first"),
        (("nosuch",), "nosuch names no stored run: they are in "),
        (("--suite", "nosuch"), "there is no suite nosuch in "),
        (("nosuch", "--last-suite"), "--last-suite and RUN exclude each other"),
        (("nosuch", "--suite", "x"), "--suite and RUN exclude each other"),
        (("--last-suite", "--suite", "x"), "not allowed with argument"),
        (("-o", "x.html"), "-o: 'x.html' is too few pages for a suite: name a directory"),
        ((".",), "has no run.json, so it is not a run of chaoskit"),
    ],
)
def test_an_empty_store_and_wrong_words(report, args, said):
    code, out, err = report(*args)
    assert (code, out) == (ExitCode.USAGE, "")
    assert said in err
    assert not list(Path().rglob("*.html"))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ("{one}", "{two}", "-o", "x.html"),
            "-o: 'x.html' is too few pages for 2 runs: name a directory",
        ),
        (("{one}", "-o", "no/such/x.html"), "-o: 'no/such/x.html' is in "),
        (("{one}", "-o", "file"), "-o: cannot create 'file', because "),
        (("{one}", "-o", "d.html"), "-o: 'd.html' is a directory"),
        (("-o", "file/x"), "-o: cannot create 'file/x', because "),
        (("{one}", "-o", "x" * 300), "-o: cannot write "),
        (("{one}", "-o", "x" * 300 + ".html"), "-o: cannot write "),
        (("2",), "is the beginning of 2 runs ("),
    ],
)
def test_places_that_cannot_be_and_runs_that_are_not_one(report, archived, args, said):
    Path("file").write_text("")
    Path("d.html").mkdir()
    one, two = names(archived)
    code, out, err = report(*(word.format(one=one, two=two) for word in args))
    assert (code, out) == (ExitCode.USAGE, "")
    assert said in err and len(err.splitlines()) == 1


def damage(run_dir, how):
    path = run_dir / "run.json"
    if how == "cut":
        path.write_text(path.read_text()[:60])
    elif how == "another format":
        path.write_text(path.read_text().replace('"format": 1', '"format": 7'))
    elif how == "no events":
        (run_dir / "events").rmdir()
    elif how == "job":
        path.write_text(json.dumps({**json.loads(path.read_text()), "job": {"weather": 1}}))
    elif how == "verdicts":
        (run_dir / "verdicts.json").write_text('{"format": 1, "verdicts": [{}]}')


DAMAGES = {
    "cut": "run.json is truncated or no JSON",
    "another format": "run.json is of format 7, this chaoskit reads 1",
    "no events": "has no events/, so there is nothing to judge",
    "job": "its job cannot be read",
    "verdicts": "verdicts.json is damaged (it lacks checks",
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_run_that_is_damaged(report, store, how):
    run_dir, whole = stored_run(store), stored_run(store)
    damage(run_dir, how)
    for args in ((run_dir,), (whole, run_dir)):
        code, out, err = report(*args)
        assert (code, out) == (ExitCode.USAGE, "")
        assert DAMAGES[how] in err and len(err.splitlines()) == 1
    assert not list(Path().rglob("*.html"))


@pytest.mark.parametrize("how", DAMAGES)
def test_a_suite_with_a_run_that_is_damaged(report, store, archived, how):
    bad = store.runs / names(archived)[1]
    damage(bad, how)
    code, out, err = report()
    assert (code, out) == (ExitCode.USAGE, "chaoskit-report/index.html\n")
    assert DAMAGES[how] in err and len(err.splitlines()) == 1
    index = Path("chaoskit-report/index.html").read_text()
    assert "the record of this run cannot be read" in index and f"runs/{names(archived)[0]}.html" in index


def test_a_suite_that_is_damaged(report, archived):
    lines = archived.path.read_text().splitlines(keepends=True)
    archived.path.write_text("".join(lines[:2])[:-30])
    assert report()[0] == 0
    index = Path("chaoskit-report/index.html").read_text()
    assert "This suite has no end" in index and "No verdict: no experiment had ended" in index
    archived.path.write_text(lines[0].replace('"format":1', '"format":2'))
    code, out, err = report()
    assert (code, out) == (ExitCode.USAGE, "")
    assert "has format 2, but this chaoskit reads format 1: use the version of chaoskit that wrote it" in err


def test_a_page_that_cannot_be_drawn(report, archived, monkeypatch):
    good, bad = names(archived)
    draw = run_page.render
    monkeypatch.setattr(
        run_page, "render", lambda run, **options: draw(run, **options) if run.id == good else 1 / 0
    )
    code, out, err = report()
    assert (code, out) == (ExitCode.INTERNAL, "chaoskit-report/index.html\n")
    assert f"chaoskit: run {bad} has no page (ZeroDivisionError: division by zero); please report it with" in err
    assert Path(f"chaoskit-report/runs/{good}.html").is_file()
    code, out, err = report(bad)
    assert (code, out) == (ExitCode.INTERNAL, "")
    assert "internal error in chaoskit (ZeroDivisionError: division by zero); please report it with" in err
