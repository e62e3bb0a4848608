"""`chaoskit nightly`: the order, the budget, what is said of what did not run, and the published pages.

Most tests run it in this process, on a battery of their own whose runner is a fake: what an experiment takes is in the
nights before.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from chaoskit import Job
from chaoskit.cli import night_run
from chaoskit.cli.night_session import NightSession, write
from chaoskit.engine.run_store import Store
from chaoskit.errors import ExitCode, UsageError
from chaoskit.nodes import ClusterPlace
from chaoskit.report.machine import page_target
from chaoskit.report.svg import badge
from chaoskit.studies.nights.archive import Archive
from chaoskit.studies.nights.night_plan import NightPlan
from chaoskit.studies.nights.suite_history import SuiteHistory
from tests.cli.test_main import chaoskit, job, project  # noqa: F401
from tests.environments.kubernetes.a_job import a_job
from tests.studies.nights.nights import JOB, keep, night, result

BATTERY = """
from chaoskit.verdict import failed, passed

def test_one(chaos, job):
    chaos.run(job).verify(passed("completed", "It ended."))

def test_two(chaos, job):
    chaos.run(job).verify(passed("completed", "It ended."))

def test_bad(chaos, job):
    chaos.run(job).verify(failed("state_restored", "The RNG was not restored.", "rng-not-restored"))
"""
COMMAND = shlex.join(job()[1:])
HOUR = 3600.0


@pytest.fixture
def tonight(chaoskit, project, tmp_path):  # noqa: F811
    """Runs a night after those given; the exit code, what it said and complained of, and the stored suite."""
    (tmp_path / "battery" / "test_suite.py").write_text(BATTERY)

    def run(*words, before=(), script="train.py"):
        keep(project / ".chaoskit", before)
        code, out, err = chaoskit("nightly", "-n", "1", "--no-proof", *words, *job(script))
        archive = Archive(Store(project / ".chaoskit"))
        return code, out, err, archive.read(archive.last()) if archive.all() else None

    return run


def earlier(at, **seconds):
    """A night on which these experiments passed, and what they took; one of no seconds failed."""
    one = [result("p" if taken else "f", f"test_{name}", seconds=taken or 1.0, job=COMMAND)
           for name, taken in seconds.items()]  # fmt: skip
    return night(at - 3000, *one)  # long before today


def test_without_a_budget_all_of_it_runs(tonight):
    code, out, _, suite = tonight()
    assert code == ExitCode.FAIL and "not run" not in out
    assert [one.name for one in suite.results] == ["test_one", "test_two", "test_bad"]
    assert "This is the first night" in out


def test_what_would_pass_the_budget_does_not_begin_and_is_named(tonight):
    code, out, _, suite = tonight("--minutes", "1", before=[earlier(0, one=1.0, two=HOUR, bad=HOUR)])
    words = {one.name: one.word for one in suite.results}
    assert words == {"test_one": "pass", "test_two": "not run", "test_bad": "not run"}
    (sentence,) = suite.experiments["test_suite.py::test_two"].sentences
    assert re.fullmatch("not run: budget: it takes about 60 min, and [0-9]+ s were left", sentence)
    assert code == ExitCode.PASS
    assert "the budget of 1 min sufficed for 1 of 3 experiments" in out
    assert "not run: budget: test_two, test_bad" in out
    first = out.splitlines()[0]
    assert first.startswith("No problem found in what ran; 2 experiments did not run") and "2 not run" in out


def test_a_cut_night_fails_if_the_user_wants_all_of_it(tonight):
    before = [earlier(0, one=1.0, two=HOUR, bad=HOUR)]
    assert tonight("--minutes", "1", "--complete", before=before)[0] == ExitCode.INCONCLUSIVE


def test_a_failure_counts_before_what_did_not_run(tonight):
    code, out, *_ = tonight("--minutes", "1", "--complete", before=[earlier(0, one=HOUR, two=HOUR, bad=1.0)])
    assert code == ExitCode.FAIL and "not run: budget: test_one, test_two" in out


def test_a_night_in_which_nothing_ran_is_no_pass(tonight):
    code, out, *_ = tonight("--minutes", "1", before=[earlier(0, one=HOUR, two=HOUR, bad=HOUR)])
    assert code == ExitCode.INCONCLUSIVE and "Nothing was tested" in out


def test_what_did_not_run_comes_first_the_next_night(tonight):
    *_, suite = tonight("--minutes", "1", before=[earlier(0, one=1.0, two=HOUR, bad=HOUR)])
    assert [one.name for one in suite.results if one.word == "not run"] == ["test_two", "test_bad"]
    *_, suite = tonight()
    assert [one.name for one in suite.results] == ["test_two", "test_bad", "test_one"]


def test_what_changed_since_the_last_night_is_said(tonight):
    _, out, *_ = tonight(before=[earlier(0, one=1.0, two=0, bad=1.0)])
    told = out[out.index("Changed since the night of") :].splitlines()
    assert told[1].startswith("  RED test_bad: rng-not-restored") and told[2].startswith("  GREEN test_two")
    _, out, *_ = tonight()
    assert "No verdict changed since the night of" in out


def test_workers_of_pytest_keep_the_order_and_the_budget(chaoskit, project, tmp_path):  # noqa: F811
    (tmp_path / "battery" / "test_suite.py").write_text(BATTERY)
    keep(project / ".chaoskit", [earlier(0, one=1.0, two=1.0, bad=HOUR)])
    code, out, _ = chaoskit("nightly", "-n", "2", "--no-proof", "--minutes", "1", *job())
    assert code == ExitCode.PASS and "not run: budget: test_bad" in out


def test_no_worker_begins_with_what_comes_late(chaoskit, project, tmp_path):  # noqa: F811
    """A budget would leave out what comes early in favour of it."""
    told = tmp_path / "told"
    one = "def test_{0}(chaos, job):\n    note('{0}')\n    chaos.run(job).verify(passed('completed', 'It ended.'))\n"
    head = (
        "import os\nfrom chaoskit.verdict import passed\ndef note(name):\n"
        f"    with open({str(told)!r}, 'a') as file: file.write(os.environ['PYTEST_XDIST_WORKER'] + name + chr(10))\n"
    )
    (tmp_path / "battery" / "test_suite.py").write_text(head + "".join(one.format(name) for name in "abcdefghijkl"))
    assert chaoskit("nightly", "-n", "2", "--no-proof", *job())[0] == ExitCode.PASS
    ran = told.read_text().split()
    begun = {worker: next(line[-1] for line in ran if line.startswith(worker)) for worker in ("gw0", "gw1")}
    assert sorted(begun.values()) == ["a", "c"], ran


@pytest.mark.parametrize(("words", "useless"), [(["--minutes", "1"], False), ([], True)])
def test_an_acceptance_is_not_called_useless_if_its_experiment_did_not_run(tonight, words, useless):
    Path("chaoskit.toml").write_text('accept = [{code = "data-skipped", reason = "known"}]\n')
    _, _, err, _ = tonight(*words, before=[earlier(at, one=1.0, two=1.0, bad=HOUR) for at in range(5)])
    assert ("data-skipped" in err) is useless


# The plan.


def plan(names, letters, **fields):
    """A plan after nights on which these experiments ran: a letter for each night, a blank where one did not."""
    nights = [night(at, *[result(row[at], name) for name, row in letters.items() if row[at] != " "])
              for at in range(len(next(iter(letters.values()))))]  # fmt: skip
    return NightPlan.of(SuiteHistory.of(nights), names, job=JOB, **fields)


def test_longest_not_run_then_failed_then_as_listed():
    letters = {"test_a": "ppp", "test_b": "pp ", "test_c": "p  ", "test_d": "ppf", "test_e": "pps"}
    made = plan([*letters, "test_never"], letters)
    assert made.order == ("test_never", "test_c", "test_b", "test_e", "test_d", "test_a")


def test_nights_of_another_job_tell_nothing():
    nights = [night(0, result("p", "test_a", seconds=5.0, job="other"))]
    made = NightPlan.of(SuiteHistory.of(nights), ["test_a"], job=JOB)
    assert made.expected == {}


def test_the_expected_time_is_the_median_of_the_last_nights():
    nights = [night(at, result("p", "test_a", seconds=float(taken))) for at, taken in enumerate([900, 4, 5, 6, 60, 5])]
    made = NightPlan.of(SuiteHistory.of(nights), ["test_a", "test_b"], job=JOB, until=100.0)
    assert made.seconds("test_a") == 5.0
    assert made.seconds("test_b") == 5.0 and made.seconds("test_b", tonight=[7.0, 9.0, 30.0]) == 9.0
    assert made.left("test_a", now=94.0) is None and made.left("test_a", now=96.0) == (5.0, 4.0)
    assert NightPlan.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_after_the_end_nothing_begins_even_if_nothing_is_known():
    made = NightPlan(("test_a",), until=100.0)
    assert made.left("test_a", now=99.0) is None and made.left("test_a", now=100.0) == (0.0, 0.0)


def test_what_ended_tonight_is_known_to_the_other_processes(tmp_path):
    write(NightPlan(("test_a",), until=0.0), tmp_path)
    (tmp_path / "ended").write_text("2.0\n4.0\n")
    with pytest.raises(pytest.skip.Exception, match="not run: budget: it takes about 3 s"):
        NightSession(tmp_path).pytest_runtest_setup(type("Item", (), {"name": "test_new"}))


# Side by side.

PLACE = ClusterPlace(namespace="n", claim="c", path="/p", resources={"limits": {"nvidia.com/gpu": "8", "cpu": "4"}})
IN_PODS = replace(Job.from_command(["torchrun", "t.py", "{out}"], cluster=PLACE, image="t:1"), nnodes="1:2")


@pytest.mark.parametrize(
    ("gpus", "wish", "experiments", "found"),
    [(16, None, 9, None), (48, None, 9, "3"), (50, None, 9, "3"), (160, None, 4, "4"), (48, "2", 9, "2"),
     (48, "7", 9, "3"), (None, None, 9, None), (None, "3", 9, "3")],
)  # fmt: skip
def test_experiments_side_by_side_stay_within_the_gpus(gpus, wish, experiments, found):
    made = night_run.side_by_side(IN_PODS, "kubernetes", gpus=gpus, wish=wish, experiments=experiments)
    assert made == found


def test_the_gpus_of_a_job_template_count():
    resources = {"limits": {"nvidia.com/gpu": "8", "cpu": "4"}}
    template = a_job("spec.template.spec.containers.0.resources", resources)
    one = replace(IN_PODS, cluster=replace(PLACE, resources={}, job_template=template))
    assert night_run.side_by_side(one, "kubernetes", gpus=48, wish=None, experiments=9) == "3"
    lacking = replace(IN_PODS, cluster=replace(PLACE, resources={}, job_template=a_job()))
    with pytest.raises(UsageError, match="or the same limits into the job template"):
        night_run.side_by_side(lacking, "kubernetes", gpus=48, wish=None, experiments=9)


@pytest.mark.parametrize(
    ("one", "environment", "gpus", "said"),
    [
        (IN_PODS, "kubernetes", 15, "--gpus 15 is too few: one experiment takes 16 .2 nodes of 8."),
        (IN_PODS, "local", 16, "--gpus counts the GPUs of pods"),
        (replace(IN_PODS, cluster=replace(PLACE, resources={})), "kubernetes", 16, "--gpus needs the number of GPUs"),
        (replace(IN_PODS, cluster=replace(PLACE, resources={"limits": {"amd.com/gpu": "x"}})), "kubernetes", 16,
         "amd.com/gpu must be a whole number"),
    ],
)  # fmt: skip
def test_gpus_that_cannot_be_counted_are_refused(one, environment, gpus, said):
    with pytest.raises(UsageError, match=said):
        night_run.side_by_side(one, environment, gpus=gpus, wish=None, experiments=3)


# The pages.


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name == "href" and not value.startswith("#")]


def test_pages_and_an_index_of_nights_are_published(tonight, tmp_path):
    pages = tmp_path / "pages"
    *_, first = tonight("--publish", str(pages))
    before = [earlier(at, one=1.0, two=HOUR, bad=1.0) for at in range(5)]
    *_, second = tonight("--publish", str(pages), "--minutes", "1", before=before)
    text = (pages / "index.html").read_text()
    links = Links(text).found
    assert links == ["history.html", f"nights/{second.id}/index.html", f"nights/{first.id}/index.html"]
    assert text.count("<tr>") == 1 + 7, "the nights without pages are listed, too"
    assert all((pages / link).is_file() for link in links)
    assert "1 not run: budget" in text and "1 failed" in text
    night_page = (pages / "nights" / second.id / "index.html").read_text()
    assert "not run: budget: it takes about" in night_page


def test_a_page_of_a_cut_night_does_not_say_that_all_passed(tonight, tmp_path):
    before = [earlier(at, one=1.0, two=HOUR, bad=HOUR) for at in range(5)]
    *_, suite = tonight("--publish", str(tmp_path / "pages"), "--minutes", "1", before=before)
    text = (tmp_path / "pages" / "nights" / suite.id / "index.html").read_text()
    assert "The experiment passed, 2 did not run: the budget did not suffice" in text
    assert "1 of 1, 2 not run" in badge.svg(suite) and badge.COLOURS["pass"] not in badge.svg(suite)


def test_pages_are_published_to_a_bucket(tonight):
    import fsspec

    files = fsspec.filesystem("memory")
    try:
        code, out, err, suite = tonight("--publish", "memory://bucket/chaoskit")
        assert code == ExitCode.FAIL and err.count("\n") <= 8
        assert "pages: memory://bucket/chaoskit/index.html" in out
        text = files.cat_file("/bucket/chaoskit/index.html").decode()
        assert f'href="nights/{suite.id}/index.html"' in text
        assert files.exists(f"/bucket/chaoskit/nights/{suite.id}/index.html")
    finally:
        files.rm("/bucket", recursive=True)


def test_pages_are_published_to_a_url_of_a_file(tonight, tmp_path):
    _, out, _, suite = tonight("--publish", f"file://{tmp_path}/pages")
    assert (tmp_path / "pages" / "nights" / suite.id / "index.html").is_file(), out


def test_no_bucket_is_made_of_a_name_that_was_misspelt(tmp_path):
    """A client of an object store, which is asynchronous, as all of them are in fsspec."""

    class ObjectStore:
        async_impl = True

        def put_file(self, here, there):
            raise FileNotFoundError(f"The specified bucket does not exist: {there}")

    target = page_target.Bucket(ObjectStore(), "buckett/pages", "s3://buckett/pages")
    with pytest.raises(FileNotFoundError, match=r"bucket does not exist: buckett/pages/index.html"):
        target.put(tmp_path / "index.html", "index.html")


@pytest.mark.parametrize(("chosen", "code"), [("test_one", ExitCode.INTERNAL), ("test_bad", ExitCode.FAIL)])
def test_pages_that_cannot_be_published_hide_no_verdict(tonight, monkeypatch, chosen, code):
    from fsspec.implementations.memory import MemoryFileSystem

    def refuse(self, *given, **options):
        raise PermissionError("Access Denied")

    monkeypatch.setattr(MemoryFileSystem, "put_file", refuse)
    found, out, err, _ = tonight("-k", chosen, "--publish", "memory://bucket/denied")
    assert found == code
    assert "could not be published to memory://bucket/denied (PermissionError: Access Denied)" in err
    assert "the verdicts stay valid" in err and "Traceback" not in err and "1 experiment: 1" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--publish", "nowhere://bucket"], "--publish nowhere://bucket: files of nowhere:// cannot be written here"),
        (["--publish", "train.py"], "--publish: cannot create 'train.py'"),
        (["--minutes", "0"], "0 is not a positive number of minutes"),
        (["--gpus", "8"], "--gpus counts the GPUs of pods"),
        (["--gpus", "-1"], "a whole number from 1, not -1"),
    ],
)
def test_bad_input_is_one_sentence_before_anything_runs(tonight, words, said):
    code, _, err, suite = tonight(*words)
    assert code == ExitCode.USAGE and said in err and "Traceback" not in err and suite is None


def test_without_fsspec_a_bucket_is_refused_with_the_remedy(tonight, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    code, _, err, suite = tonight("--publish", "s3://bucket")
    assert code == ExitCode.USAGE and "pip install 'chaoskit[publish]'" in err and suite is None


# The file.


def test_the_options_of_a_night_stand_in_the_file(tonight):
    Path("chaoskit.toml").write_text('nightly = {minutes = 1, complete = true, publish = "pages"}\n')
    code, *_ = tonight(before=[earlier(0, one=1.0, two=HOUR, bad=HOUR)])
    assert code == ExitCode.INCONCLUSIVE and Path("pages/index.html").is_file()
    assert tonight("--minutes", "600", "-k", "test_one")[0] == ExitCode.PASS


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('nightly = {minutes = "1"}', "minutes must be a number over 0"),
        ("nightly = {gpus = 0}", "gpus must be a whole number from 1"),
        ("nightly = {gpus = true}", "gpus must be a whole number from 1"),
        ("nightly = {minute = 1}", "did you mean 'minutes'?"),
        ("nightly = 3", "nightly must be a table"),
    ],
)
def test_mistakes_in_the_file_are_named_with_their_line(tonight, line, said):
    Path("chaoskit.toml").write_text(f"{line}\n")
    code, _, err, _ = tonight()
    assert code == ExitCode.USAGE and re.search(r"chaoskit\.toml:1: ", err) and said in err
