"""Conditions of an experiment: read from its stored runs, kept with the suite, and what differs between two."""

import json
import os
import time

import pytest

from chaoskit.engine.run_store import Store
from chaoskit.errors import StoreError
from chaoskit.studies.nights.archive import Archive
from chaoskit.studies.nights.conditions import Conditions, differing
from tests.studies.nights.nights import keep, night, result


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def project(tmp_path):
    """The directory of the job, with files that are older than any run."""
    made = tmp_path / "project"
    (made / "lib").mkdir(parents=True)
    for name in ("train.py", "lib/resume.py", "config.json"):
        (made / name).write_text(name)
        os.utime(made / name, (1, 1))
    return made


def said(place, *files):
    """A record of one rank that has read these files."""
    (place / "events").mkdir(parents=True, exist_ok=True)
    lines = [{"i": 0, "t": 1.0, "e": "step", "n": 1}, {"i": 1, "t": 2.0, "e": "sources", "files": list(files)}]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (place / "events" / "rank-0-0-0-1.jsonl").write_text(text + '{"i":2,"e":"sour')


def entry(path, digest="aaaaaaaabbbb", **more):
    return {"path": str(path), "size": 9, **({"hash": digest} if digest else {}), **more}


def a_run(store, project, *, control, own, **job):
    run = store.new_run(job={"cwd": str(project), "command": ["train"], **job}, experiment="x", reference="r")
    said(run / "reference" / "control-0", *control)
    said(run, *own)
    return str(run)


def test_the_files_of_the_uninterrupted_runs_and_those_that_only_a_struck_one_reads(store, project):
    script, resume = entry(project / "train.py"), entry(project / "lib" / "resume.py", "bbbbbbbbcccc")
    run = a_run(store, project, control=[script], own=[script, resume])
    found = Conditions.of_runs(store, [run])
    assert found.sources == {"train.py": "aaaaaaaa"} and found.further == {"lib/resume.py": "bbbbbbbb"}
    assert Conditions.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_what_the_job_itself_writes_is_none_of_them_but_its_modules_are(store, project):
    now = time.time() + 100
    for name in ("log.txt", "train.py"):
        (project / name).write_text("x")
        os.utime(project / name, (now, now))
    files = [entry(project / name) for name in ("train.py", "config.json", "log.txt", "gone.txt")]
    assert set(Conditions.of_runs(store, [a_run(store, project, control=files, own=[])]).sources) == {
        "train.py",
        "config.json",
    }


def test_an_installed_package_is_known_by_its_version(store, project, tmp_path):
    site = tmp_path / "site-packages"
    for name in ("some_thing-1.4.dist-info", "some_thing", "other"):
        (site / name).mkdir(parents=True)
    files = [entry(site / name / "__init__.py", "", changed=5) for name in ("some_thing", "other")]
    found = Conditions.of_runs(store, [a_run(store, project, control=files, own=[])])
    assert found.sources == {"some_thing": "1.4", "other": "9 bytes"}


def test_options_are_named_and_variables_are_not_shown(store, project):
    script = entry(project / "train.py")
    job = {"resume_args": ["--from", "x"], "relaunches": 3, "env": {"TOKEN": "secret"}}
    found = Conditions.of_runs(store, [a_run(store, project, control=[script], own=[], **job)])
    assert found.options["resume_args"] == "--from x" and "relaunches" not in found.options
    assert "env TOKEN" in found.options and "secret" not in json.dumps(found.to_json())


def test_runs_that_say_nothing_have_none(store, project):
    assert Conditions.of_runs(store, []) is None
    assert Conditions.of_runs(store, [str(project)]) is None
    assert Conditions.of_runs(store, [a_run(store, project, control=[], own=[])]) is None


def test_they_are_kept_with_the_suite_once_for_all_that_share_them(tmp_path):
    one, other = Conditions({}, {"a.py": "1"}), Conditions({"timeout": "9"}, {"a.py": "2"}, {"b.py": "3"})
    store = keep(tmp_path, [night(0, result(), conditions=one), night(1, result(), conditions=one)])
    keep(tmp_path, [night(2, result(), conditions=other), night(3, result(), conditions=None)])
    archive = Archive(store)
    read = [archive.read(path).conditions for path in archive.all()]
    assert [list(each.values()) for each in read] == [[one], [one], [other], []]
    files = sorted((archive.directory / "conditions").iterdir())
    assert len(files) == 2
    for file in files:
        file.write_text("{")
    with pytest.raises(StoreError, match="is damaged"):
        archive.read(archive.last().with_name(archive.all()[0].name))


def test_lost_ones_are_unknown(tmp_path):
    store = keep(tmp_path, [night(0, result(), conditions=Conditions({}, {"lost.py": "1"}))])
    archive = Archive(store)
    for file in (archive.directory / "conditions").iterdir():
        file.unlink()
    assert archive.read(archive.last()).conditions == {}


def test_what_differs():
    old = Conditions({"a": "1"}, {"x.py": "1", "y.py": "1"}, {"once.py": "1", "both.py": "1"})
    new = Conditions({"b": "1"}, {"x.py": "2", "z.py": "1"}, {"both.py": "2"})
    assert list(differing(old, new)) == [
        ("a", "1", ""),
        ("b", "", "1"),
        ("both.py", "1", "2"),
        ("x.py", "1", "2"),
        ("y.py", "1", ""),
        ("z.py", "", "1"),
    ]
    assert list(differing(old, old)) == []
