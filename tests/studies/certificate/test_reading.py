"""Evidence from a store: a result counts only with its runs, as they are stored."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.engine.run_store import Store
from chaoskit.errors import UsageError
from chaoskit.studies.certificate.evidence import SeenLoad
from chaoskit.studies.certificate.judging import judge
from chaoskit.studies.certificate.reading import digest_of, read
from tests.studies.certificate.by_hand import stored, verdict

NAME = "test_resume.py::test_resume"


@pytest.fixture
def kept(tmp_path):
    """A store with one suite, and the directory of its only run."""
    suite = stored(tmp_path / "store", tmp_path / "home")
    return Store(tmp_path / "store"), suite, Path(suite.results[0].runs[0])


def only(store, *suites):
    (one,) = read(suites, store).trials[NAME]
    return one


def model(store, *suites):
    return next(row for row in judge(read(suites, store)) if row.id == "resume-model")


def test_a_stored_run_counts_with_its_verdicts(kept):
    store, suite, run = kept
    one = only(store, suite)
    assert one.gap == "" and one.runs[0].id == run.name and one.runs[0].digest == digest_of(run)
    assert {v.check for v in one.runs[0].verdicts} >= {"state_restored", "same_data"}


def test_a_run_that_is_gone_proves_nothing(kept):
    store, suite, run = kept
    shutil.rmtree(run)
    assert "no longer stored" in only(store, suite).gap and model(store, suite).state == "not-tested"


def test_a_run_that_is_damaged_proves_nothing(kept):
    store, suite, run = kept
    (run / "verdicts.json").write_text("{")
    assert "cannot be read" in only(store, suite).gap


def test_a_run_of_another_command_proves_nothing(kept):
    store, suite, run = kept
    told = store.read(run)
    told["job"]["command"] = ["torchrun", "other.py", "--out", "{out}"]
    store.update(run, job=told["job"])
    assert "another command" in only(store, suite).gap


def test_a_suite_that_contradicts_the_verdicts_of_its_run_proves_nothing(kept):
    store, suite, run = kept
    store.write_verdicts(run, checks=[], verdicts=[verdict("state_restored", "fail")])
    assert "the verdicts of its runs say fail" in only(store, suite).gap
    accepted = replace(suite, results=(replace(suite.results[0], verdict="accepted"),))
    assert "names no code" in only(store, accepted).gap


def test_a_result_without_runs_or_files_proves_nothing(kept):
    store, suite, _ = kept
    assert "no run" in only(store, replace(suite, results=(replace(suite.results[0], runs=()),))).gap
    assert "which files" in only(store, replace(suite, conditions={})).gap


def test_a_test_of_the_users_own_is_no_experiment_of_the_battery(kept):
    store, suite, _ = kept
    assert NAME not in read([replace(suite, command=("pytest", "test_resume.py"))], store).trials
    elsewhere = replace(suite.results[0], nodeid=f"tests/{NAME}")
    assert NAME not in read([replace(suite, results=(elsewhere,))], store).trials


def test_suites_of_several_jobs_do_not_go_together(kept):
    store, suite, _ = kept
    other = replace(suite, results=(replace(suite.results[0], job="torchrun other.py"),))
    with pytest.raises(UsageError, match="evidence is of 2 jobs"):
        read([suite, other], store)
    with pytest.raises(UsageError, match="nothing to certify"):
        read([replace(suite, results=())], store)


def test_a_copied_store_is_found_by_the_names_of_its_runs(kept, tmp_path):
    store, suite, run = kept
    shutil.copytree(store.root, tmp_path / "copy")
    shutil.rmtree(run)
    assert only(Store(tmp_path / "copy"), suite).gap == ""


def test_loads_and_launches_that_trained_are_seen(kept):
    store, suite, run = kept
    lines = [
        {"i": 0, "t": 1.0, "e": "load.begin", "id": 1, "n": 0, "path": "/o/model.pt", "api": "torch.load",
         "weights_only": False},
        {"i": 1, "t": 1.0, "e": "load.begin", "id": 2, "n": 0, "path": "/o/x", "api": "dcp.load"},
        {"i": 2, "t": 2.0, "e": "step", "n": 1},
    ]  # fmt: skip
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (run / "events" / "rank-1-0-0-99.jsonl").write_text(text + '{"e":"load.begin", cut')
    (run / "events" / "rank-2-0-1-99.jsonl").write_text("")
    (one,) = only(store, suite).runs
    assert one.loads == {SeenLoad("torch.load", "model.pt", False), SeenLoad("dcp.load", "x")}
    assert one.trained == {1} and one.ranks == 2


@pytest.mark.parametrize("part", ["run.json", "verdicts.json", "events/rank-0-0-0-1.jsonl"])
def test_the_digest_covers_what_a_verdict_rests_on(kept, part):
    _, _, run = kept
    before = digest_of(run)
    path = run / part
    path.write_text((path.read_text() if path.exists() else "") + " ")
    assert digest_of(run) != before


def test_the_digest_leaves_out_what_retention_may_remove(kept):
    _, _, run = kept
    before = digest_of(run)
    shutil.rmtree(run / "out")
    (run / "logs" / "launch-0.log").write_text("cut")
    assert digest_of(run) == before


def study(store, like, name, content):
    """A run with the result of a study, of the same job and reference as the suite's run."""
    told = store.read(like)
    run = store.new_run(job=told["job"], experiment="study", reference="ref")
    (run / name).write_text(json.dumps(content))
    return run


MAP = {"injections": 100, "outcomes": {"silent": {"hits": 1, "share": 0.01, "low": 0.0, "high": 0.05}}}
CRASHES = {"verdict": "pass", "codes": [], "states": 12}


def told_sources(run, home, text=None):
    """The record of a rank that read the job's only file."""
    from chaoskit.probe.sources import identify

    file = identify(str(home / "train.py"))
    if text is not None:
        file["hash"] = text
    event = {"i": 0, "t": 1.0, "e": "sources", "files": [file]}
    line = json.dumps(event, separators=(",", ":")) + "\n"
    (run / "reference" / "control-0" / "events").mkdir(parents=True)
    (run / "reference" / "control-0" / "events" / "rank-0-0-0-1.jsonl").write_text(line)


def test_studies_of_the_same_job_and_sources_count(kept, tmp_path):
    store, suite, run = kept
    for name, content in (("map.json", MAP), ("crash-states.json", CRASHES)):
        told_sources(study(store, run, name, content), tmp_path / "home")
    found = read([suite], store)
    assert found.maps[0].high == 0.05 and found.crashes[0].states == 12


@pytest.mark.parametrize("why", ["sources", "no sources", "reference", "damaged", "job"])
def test_studies_of_something_else_do_not_count(kept, tmp_path, why):
    store, suite, run = kept
    made = study(store, run, "map.json", {} if why == "damaged" else MAP)
    if why != "no sources":
        told_sources(made, tmp_path / "home", "0" * 32 if why == "sources" else None)
    if why == "reference":
        store.update(made, reference="other")
    if why == "job":
        store.update(made, job={**store.read(made)["job"], "command": ["torchrun", "x.py", "{out}"]})
    assert read([suite], store).maps == ()
