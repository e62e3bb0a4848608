"""The plugin, by running pytest inside pytest on tests whose runner is a fake."""

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

# Imported here once: pytest inside pytest forgets what it imported itself.
import chaoskit.environments.machine.sweep
import chaoskit.report.html.site
import chaoskit.report.machine.json_report
import chaoskit.report.machine.publishing
import chaoskit.report.terminal.table  # noqa: F401
from chaoskit.engine.run_store import Store
from chaoskit.studies.nights.archive import Archive

FAKE = (Path(__file__).parents[1] / "fake_runner.py").read_text()
HEAD = """
from chaoskit import Job
from chaoskit.verdict import passed, failed, inconclusive

good = passed("completed", "The job ended with its last step.")
bad = failed(
    "state_restored", "The random streams were not restored.", "rng-not-restored",
    table=[{"incarnation": 1, "rank": 0, "cells": {"model": "40", "rng.torch": "0"}, "expected": 40}],
)
open_ = inconclusive("matches_reference", "The fault was never seen.", "fault-not-observed")

def job(script="train.py"):
    return Job(script, ["--out", "{out}"])
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    """Call it with the text of a test module, and it answers with what pytest made of it."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeconftest(FAKE)

    def run(text, *args, subprocess=False):
        pytester.makepyfile(test_suite=HEAD + text)
        start = pytester.runpytest_subprocess if subprocess else pytester.runpytest_inprocess
        return start("-p", "no:hypothesispytest", *args)

    return run


def properties(case):
    return {each.get("name"): each.get("value") for each in case.iterfind("properties/property")}


def results(path):
    return {entry["name"]: entry for entry in json.loads(Path(path).read_text())["experiments"]}


def test_a_pass_is_a_row_of_the_table(suite):
    done = suite("def test_lost_rank(chaos): chaos.run(job()).verify(good)", "-v", "--chaos-json", "r.json")
    done.assert_outcomes(passed=1)
    row = r"test_lost_rank +pass +20 +30 +5 +2.5 s"
    answer = r"No problem in your job \(1 experiment: 1 passed\)"
    done.stdout.re_match_lines([r"=+ chaoskit =+", r"experiment +verdict", row, answer])
    entry = results("r.json")["test_lost_rank"]
    assert (entry["verdict"], entry["resumed_from"], entry["codes"]) == ("pass", 20, [])


def test_a_fail_shows_what_was_found_and_no_way_through_chaoskit(suite):
    done = suite("def test_lost_rank(chaos):\n    chaos.run(job()).verify(good, bad)", "--chaos-json", "r.json")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "*CheckFailed: rng-not-restored: The random streams were not restored.",
            "E*time rank due model *torch",
            "E*1*0*40*40*0!",
            "E*run *.chaoskit/runs/*",
            "E*repeat *chaoskit replay *.chaoskit/runs/*",
            "*HTML report: chaoskit report --last-suite",
            "FAILED *test_lost_rank - rng-not-restored: The random str*",
        ]
    )
    done.stdout.no_fnmatch_line("*not shown*")
    done.stdout.no_fnmatch_line("*plugin.py*")
    entry = results("r.json")["test_lost_rank"]
    assert entry["codes"] == ["rng-not-restored"]
    assert Path(entry["run"]).is_dir()


def test_the_session_ends_with_the_problems_and_how_to_prove_them(suite):
    both = (
        "def test_lost_rank(chaos):\n    chaos.run(job()).verify(good, bad)\n"
        "def test_again(chaos):\n    chaos.run(job()).verify(bad)\n"
        "def test_good(chaos):\n    chaos.run(job()).verify(good)"
    )
    done = suite(both)
    done.assert_outcomes(failed=2, passed=1)
    lines = [
        r"=+ chaoskit =+",
        r"1 problem in your job \(3 experiments: 2 failed, 1 passed\)",
        r"1  rng-not-restored  The random streams were not restored\.",
        r"   Shown by test_\w+ and 1 more\.",
        r"   Change: Each rank saves the streams that it draws from and restores them",
        r"   last, after the data loader has reached its position\.",
        r"   Repeat: chaoskit replay \.chaoskit/runs/\S+",
        r"   Prove: chaoskit prove \.chaoskit/runs/\S+",
        r".*launched.*",
        r"HTML report: chaoskit report --last-suite",
    ]
    done.stdout.re_match_lines(lines, consecutive=True)
    done.stdout.no_re_match_line(r"experiment +verdict")
    # What can be typed is a run that is there.
    (prove,) = [line.split()[-1] for line in done.outlines if line.startswith("   Prove:")]
    assert Path(prove).is_dir()
    verbose = suite(both, "-v")
    verbose.stdout.re_match_lines([r"experiment +verdict.*", r"1 problem in your job .*", r".*numpy\.random.*"])


def test_inconclusive_fails_with_its_reason(suite):
    done = suite("def test_x(chaos): chaos.run(job()).verify(good, open_)", "--chaos-json", "r.json")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*Inconclusive: fault-not-observed: The fault was never seen.*"])
    assert json.loads(Path("r.json").read_text())["verdict"] == "inconclusive"


@pytest.mark.parametrize("body", ["pass", "chaos.run(job())", "chaos.reference(job())"])
def test_no_check_is_no_pass(suite, body):
    done = suite(f"def test_x(chaos): {body}")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*Inconclusive: the test applied no check*"])


def test_a_test_that_expects_a_fail_passes(suite):
    done = suite(
        "def test_x(chaos): assert chaos.run(job()).judge(bad)[0].codes == ('rng-not-restored',)",
        "--chaos-json",
        "r.json",
    )
    done.assert_outcomes(passed=1)
    assert results("r.json")["test_x"]["verdict"] == "pass"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "chaoskit: launching warm where a warm control agrees with a cold one, else cold (--chaos-launch)"),
        (("--chaos-launch=cold",), "chaoskit: launching cold"),
        (("--chaos-job=sh train.sh {out}",), "chaoskit: launching cold: 'sh' is no Python program"),
    ],
)
def test_the_head_says_how_jobs_are_launched(suite, options, said):
    text = "def test_x(chaos): chaos.run(job()).verify(good)"
    suite(text, *options).stdout.fnmatch_lines([said])
    suite("def test_y(): pass", *options).stdout.no_fnmatch_line("*launching*")


def test_an_assertion_of_the_users_own_is_a_fail(suite):
    done = suite(
        "def test_x(chaos):\n    run = chaos.run(job()); run.verify(good)\n    assert run.summary.steps_lost < 3",
        "--chaos-json",
        "r.json",
    )
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*assert 5 < 3*"])
    assert results("r.json")["test_x"]["verdict"] == "fail"


def test_a_missing_capability_skips_and_says_how_to_get_it(suite):
    done = suite("def test_x(chaos): chaos.run(job('lacking.py'))", "-rs", "--chaos-json", "r.json")
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["*SKIPPED*test_suite.py*it needs CanFly; grow wings*"])
    assert json.loads(Path("r.json").read_text())["verdict"] == "inconclusive"


def test_a_missing_capability_is_an_error_when_required(suite):
    done = suite("def test_x(chaos): chaos.run(job('lacking.py'))", "--chaos-require")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*MissingCapability: it needs CanFly*"])


def test_a_failed_reference_is_inconclusive_and_not_tried_again(suite):
    done = suite(
        "def test_x(chaos): chaos.run(job('crash.py'))\ndef test_y(chaos): chaos.run(job('crash.py'))",
        "--chaos-json",
        "r.json",
    )
    done.assert_outcomes(failed=2)
    for name in ("test_x", "test_y"):
        entry = results("r.json")[name]
        assert (entry["verdict"], entry["codes"]) == ("inconclusive", ["reference-failed"])
        assert entry["sentences"] == ["it says: ZeroDivisionError (1)"]
    done.stdout.fnmatch_lines(["*ReferenceFailed: reference-failed: it says: ZeroDivisionError (1)"])


def test_a_mistake_in_the_test_is_told_clearly(suite):
    done = suite("def test_x(chaos): chaos.run(job('misused.py'))")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*UsageError: there is no rank 7 in a job of 2"])
    done.stdout.no_fnmatch_line("*runner.py*")


def test_the_job_of_the_option(suite):
    text = (
        "def test_x(chaos, job):\n"
        "    assert job.command == ('torchrun', 'train.py', '--out', '{out}')\n"
        "    chaos.run(job).verify(good)"
    )
    suite(text, "--chaos-job=torchrun train.py --out {out}").assert_outcomes(passed=1)


def test_without_a_job_the_fixture_says_how_to_give_one(pytester):
    pytester.makeconftest(FAKE)
    pytester.makepyfile("def test_x(chaos, job): pass")
    done = pytester.runpytest_inprocess("-p", "no:hypothesispytest")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*UsageError: the fixture 'job' has no job: pass --chaos-job*"])


def test_options_reach_the_runner(suite):
    text = (
        "def test_x(chaos):\n"
        "    chaos.run(job()).verify(good)\n"
        "    told = chaos.reference(job())\n"
        "    assert told.pop('audits').claim('job', 'test_x', first=True)\n"
        "    assert told == dict(\n"
        "        environment='local', experiment='test_x', launch='cold', windows='always',\n"
        "        relaunches=2, timeout=9.5,\n"
        "        resume_args=['--init_from=resume', '-v'])"
    )
    options = ["--chaos-relaunches=2", "--chaos-timeout=9.5", "--chaos-resume-args=--init_from=resume -v"]
    options += ["--chaos-launch=cold", "--chaos-windows=always"]
    suite(text, *options, "--chaos-dir=elsewhere").assert_outcomes(passed=1)
    assert Path("elsewhere/.gitignore").read_text() == "*\n"
    assert not Path(".chaoskit").exists()


@pytest.mark.parametrize(
    ("options", "expected"), [((), "auto"), (("--chaos-whole",), "never"), (("--chaos-windows=always",), "always")]
)
def test_windows_are_the_default(suite, options, expected):
    text = "def test_x(chaos):\n    chaos.run(job()).verify(good)\n    "
    text += f"assert chaos.reference(job())['windows'] == {expected!r}"
    suite(text, *options).assert_outcomes(passed=1)


def test_whole_and_windows_contradict_each_other(suite):
    done = suite("def test_x(chaos): pass", "--chaos-whole", "--chaos-windows=always")
    done.stderr.fnmatch_lines(["*--chaos-whole and --chaos-windows always contradict each other*"])


def test_one_of_many_experiments_is_drawn_for_an_audit(suite):
    body = "    chaos.run(job()).verify(good)\n"
    body += "    assert not chaos.reference(job())['audits'].claim('job', 'test_{}', first=False)"
    text = "\n".join(f"def test_{name}(chaos):\n{body.format(name)}" for name in "abcdef")
    suite(text).assert_outcomes(passed=5, failed=1)
    suite(text, "-n", "2").assert_outcomes(passed=5, failed=1)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--chaos-windows=often", "windows: 'often' is none of auto, always, never"),
        ("--chaos-relaunches=-1", "a whole number from 0, not -1"),
        ("--chaos-relaunches=two", "a whole number from 0, not 'two'"),
        ("--chaos-controls=0", "a whole number from 2, not 0"),
        ("--chaos-nodes=2", "nnodes=2: environment 'local' has one node only"),
        ("--chaos-env=", "--chaos-env is empty: give a value, or leave the option out"),
        ("--chaos-env=moon", "there is no environment 'moon'"),
        ("--chaos-namespace=x", "--chaos-namespace is for --chaos-env kubernetes, not for 'local': choose --chaos-env"),
        ("--chaos-partition=x", "--chaos-partition is for --chaos-env slurm, not for 'local': choose --chaos-env"),
        ("--chaos-image=x", "--chaos-image is for --chaos-env docker or --chaos-env kubernetes, not for 'local'"),
        ("--chaos-dir=test_suite.py", "--chaos-dir: 'test_suite.py' is no directory"),
        ("--chaos-log-file=../x", "log_file must be a path below {out}"),
        ("--chaos-resume-args={newest}", "must name a pattern below {out}"),
        ("--chaos-during=1h", "--chaos-every and --chaos-during belong together"),
        ("--chaos-launch=hot", "'hot' is none of auto, cold, warm"),
        ("--chaos-timeout=0", "0 is not a positive number of seconds"),
        ("--chaos-json=-", "--chaos-json: pytest owns standard output"),
        ("--chaos-json=no/such/r.json", "--chaos-json: 'no/such/r.json' is in "),
        ("--chaos-report=test_suite.py", "--chaos-report: cannot create 'test_suite.py', because "),
        ("--chaos-summary=no/such/s.md", "--chaos-summary: 'no/such/s.md' is in "),
        ("--chaos-badge=.", "--chaos-badge: '.' is a directory"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(suite, option, said):
    done = suite("def test_x(chaos): chaos.run(job()).verify(good)", option)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*{said}*"])


def test_under_xdist_with_junit(suite):
    pytest.importorskip("xdist")
    text = (
        "def test_x(chaos): chaos.run(job()).verify(good)\n"
        "def test_y(chaos): chaos.run(job()).verify(bad)\n"
        "def test_z(): pass\n"
    )
    done = suite(text, "-v", "-n2", "--junitxml=r.xml", "--chaos-json=r.json", subprocess=True)
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["*experiment*verdict*", "1 problem in your job*", "1  rng-not-restored*"])
    done.stderr.fnmatch_lines(["  test_?: launch 0"])
    assert {n: e["verdict"] for n, e in results("r.json").items()} == {"test_x": "pass", "test_y": "fail"}
    cases = {case.get("name"): case for case in ET.parse("r.xml").getroot().iter("testcase")}
    assert properties(cases["test_x"])["chaoskit.verdict"] == "pass"
    held = properties(cases["test_y"])
    run = held.pop("chaoskit.run")
    assert (Path(run) / "run.json").is_file() and not Path(run).is_absolute()
    assert held == {
        "chaoskit.verdict": "fail",
        "chaoskit.codes": "rng-not-restored",
        "chaoskit.sentence": "The random streams were not restored.",
        "chaoskit.resumed_from": "20",
        "chaoskit.steps_lost": "5",
        "chaoskit.recovery_seconds": "2.5",
    }
    said = cases["test_y"].find("failure").get("message")
    assert said.startswith("rng-not-restored: The random streams were not restored.")
    assert cases["test_z"].find("properties") is None


@pytest.mark.parametrize(
    ("body", "tag", "said"),
    [
        ("chaos.run(job()).verify(good, open_)", "failure", "fault-not-observed: The fault was never seen."),
        ("chaos.run(job('crash.py'))", "failure", "reference-failed: it says: ZeroDivisionError"),
        ("chaos.run(job('lacking.py'))", "skipped", "it needs CanFly; grow wings"),
        ("pass", "failure", "the test applied no check, so it proves nothing"),
    ],
)
def test_junit_is_told_what_did_not_come_to_a_verdict(suite, body, tag, said):
    suite(f"def test_x(chaos): {body}", "--junitxml=r.xml")
    (case,) = ET.parse("r.xml").getroot().iter("testcase")
    assert case.find(tag).get("message").startswith(said)
    verdict = "skipped" if tag == "skipped" else "inconclusive"
    assert properties(case)["chaoskit.verdict"] == verdict
    assert properties(case)["chaoskit.sentence"].startswith(said.split(": ", 1)[-1])


WRITING = ("--chaos-report=pages", "--chaos-summary=s.md", "--chaos-badge=b.svg")


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_pages_a_summary_and_a_badge(suite, workers):
    if workers:
        pytest.importorskip("xdist")
    text = "def test_x(chaos): chaos.run(job()).verify(good)\ndef test_y(chaos): chaos.run(job()).verify(bad)\n"
    done = suite(text, *WRITING, *workers, subprocess=True)
    done.assert_outcomes(passed=1, failed=1)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    index = Path("pages/index.html").read_text()
    assert "problem-rng-not-restored" in index and "pytest" in index and "--chaos-badge=b.svg" in index
    assert "1 of 2" in Path("b.svg").read_text()
    summary = Path("s.md").read_text()
    assert summary.count("### chaoskit") == 1
    assert (
        "| ✗ fail | test_y | <code>rng-not-restored</code><br>The random streams were not restored. |" in summary
    )
    assert index.count('href="runs/') == len(list(Path("pages/runs").iterdir())) == 2
    done.stderr.no_fnmatch_line("*is not written*")


def test_where_no_test_breaks_a_job_nothing_is_written(suite):
    suite("def test_x(): pass", *WRITING).assert_outcomes(passed=1)
    assert not Path("pages").exists() and not Path("s.md").exists() and not Path("b.svg").exists()


def test_what_cannot_be_written_afterwards_changes_no_verdict(suite):
    Path("gone").mkdir()
    text = (
        "import pathlib\n"
        "def test_x(chaos):\n"
        "    chaos.run(job()).verify(good)\n"
        "    pathlib.Path('gone').rmdir(); pathlib.Path('gone').touch()\n"
    )
    options = ("--chaos-report=gone/pages", "--chaos-summary=gone/s.md", "--chaos-badge=gone/b.svg")
    done = suite(text, *options, subprocess=True)
    assert done.ret == pytest.ExitCode.OK
    done.stderr.fnmatch_lines(
        [f"chaoskit: the {name} could not be written (*" for name in ("report", "summary", "badge")]
    )


def test_hostile_names_and_sentences(suite):
    text = (
        "import pytest\n"
        "hostile = '<script>alert(1)</script>|a\\n\\x1b[31m\\ud800'\n"
        "@pytest.mark.parametrize('name', [hostile])\n"
        "def test_x(chaos, name): chaos.run(job()).verify(failed('completed', hostile, 'hang'))\n"
    )
    done = suite(text, *WRITING, "--junitxml=r.xml", "--chaos-json=r.json")
    done.assert_outcomes(failed=1)
    (case,) = ET.parse("r.xml").getroot().iter("testcase")
    assert properties(case)["chaoskit.sentence"].startswith("<script>alert(1)</script>|a\n#x1B[31m")
    (entry,) = json.loads(Path("r.json").read_text())["experiments"]
    assert entry["sentences"] == ["<script>alert(1)</script>|a\n\x1b[31m\ud800"]
    index = Path("pages/index.html").read_text()
    assert "<script>alert" not in index and "&lt;script&gt;alert(1)" in index
    (row,) = [line for line in Path("s.md").read_text().splitlines() if line.startswith("| ✗")]
    assert "<script" not in row and row.count("|") == 7
    assert "\x1b" not in done.stdout.str()


def test_a_session_that_was_killed_leaves_what_had_ended(suite):
    text = (
        "import os, signal\n"
        "def test_x(chaos): chaos.run(job()).verify(good)\n"
        "def test_y(chaos):\n    chaos.run(job())\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    suite(text, subprocess=True)
    archive = Archive(Store(".chaoskit"))
    told = archive.read(archive.last())
    assert (told.status, [one.name for one in told.results]) == ("running", ["test_x"])


def test_progress_is_seen_although_output_is_captured(suite):
    done = suite("def test_x(chaos): chaos.run(job()).verify(good)", subprocess=True)
    done.stderr.fnmatch_lines(["  test_x: launch 0"])


def test_it_weighs_nothing_where_it_is_not_used(pytester):
    pytester.makepyfile(
        """
        import sys
        def test_x():
            heavy = {"torch", "rich", "psutil", "filelock", "xxhash", "chaoskit.engine.run_store", "chaoskit.report"}
            assert not heavy & set(sys.modules)
        """
    )
    done = pytester.runpytest_subprocess("-p", "no:xdist", "-p", "no:hypothesispytest")
    done.assert_outcomes(passed=1)
    done.stdout.no_fnmatch_line("*= chaoskit =*")
    assert not Path(".chaoskit").exists()
    assert "chaoskit.cli.pytest_plugin" in sys.modules


ACCEPT = """
[tool.chaoskit]
command = "python other.py --out {out}"
relaunches = 7

[[tool.chaoskit.accept]]
code = "rng-not-restored"
reason = "decided"
"""


def accepting(pytester, text=ACCEPT):
    pytester.makefile(".toml", pyproject=text)


def test_a_loss_that_is_accepted_passes_with_a_word_of_its_own(suite, pytester):
    accepting(pytester)
    tests = """
def test_lost(chaos): chaos.run(job()).verify(good, bad)
def test_good(chaos): chaos.run(job()).verify(good)
"""
    done = suite(tests, "--chaos-json", "r.json", "--junitxml", "j.xml")
    done.assert_outcomes(passed=2)
    assert done.ret == 0
    found = results("r.json")
    lost, fine = found["test_lost"], found["test_good"]
    assert (lost["verdict"], lost["codes"], lost["accepted"]) == ("accepted", [], ["rng-not-restored"])
    assert lost["reasons"] == {"rng-not-restored": "decided"}
    assert (fine["verdict"], fine["accepted"]) == ("pass", [])
    done.stdout.fnmatch_lines(["*2 experiments*1 passed, 1 accepted*", "accepted: rng-not-restored*decided"])
    case = next(each for each in ET.parse("j.xml").iter("testcase") if each.get("name") == "test_lost")
    assert case.find("failure") is None
    assert properties(case)["chaoskit.verdict"] == "accepted"
    assert properties(case)["chaoskit.accepted"] == "rng-not-restored"


def test_the_test_goes_on_behind_an_accepted_loss(suite, pytester):
    """What comes later in the test is judged, too: an acceptance hides its own code alone."""
    accepting(pytester)
    tests = """
torn = failed("completed", "It crashed.", "torn-checkpoint")

def test_lost(chaos):
    chaos.run(job()).verify(good, bad)
    chaos.run(job()).verify(torn)

def test_undecided(chaos): chaos.run(job()).verify(bad, open_)
def test_own_claim(chaos):
    chaos.run(job()).verify(bad)
    assert 1 == 2
def test_judged_again(chaos):
    run = chaos.run(job())
    run.verify(bad)
    run.judge(good)
"""
    done = suite(tests, "--chaos-json", "r.json")
    done.assert_outcomes(passed=1, failed=3)
    found = results("r.json")
    assert (found["test_lost"]["verdict"], found["test_lost"]["codes"]) == ("fail", ["torn-checkpoint"])
    assert found["test_lost"]["accepted"] == ["rng-not-restored"]
    assert found["test_undecided"]["verdict"] == "inconclusive"
    assert found["test_own_claim"]["verdict"] == "fail"
    assert found["test_judged_again"]["verdict"] == "accepted"


def test_strict_ignores_the_list(suite, pytester):
    accepting(pytester)
    done = suite("def test_lost(chaos): chaos.run(job()).verify(bad)", "--chaos-strict", "--chaos-json", "r.json")
    done.assert_outcomes(failed=1)
    assert results("r.json")["test_lost"]["codes"] == ["rng-not-restored"]


def test_an_expired_acceptance_says_so(suite, pytester):
    accepting(pytester, ACCEPT + "until = 2020-01-01\n")
    done = suite("def test_lost(chaos): chaos.run(job()).verify(bad)", "--chaos-json", "r.json")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*rng-not-restored has expired*2020-01-01 (pyproject.toml:5)*"])


def test_workers_have_the_list_and_the_options(suite, pytester):
    accepting(pytester)
    tests = """
def test_lost(chaos): chaos.run(job()).verify(bad)
def test_options(chaos, job): assert chaos.reference(job)["relaunches"] == 7; chaos.run(job).verify(good)
"""
    done = suite(tests, "-n", "2", "--chaos-json", "r.json", subprocess=True)
    done.assert_outcomes(passed=2)
    assert results("r.json")["test_lost"]["verdict"] == "accepted"


def test_the_job_and_the_options_of_the_file_and_an_option_that_wins(suite, pytester):
    told = 'variables = {A = "1"}\nhang-after = 3\nrecord-every = 4\nrelaunches'
    accepting(pytester, ACCEPT.replace("relaunches", told))
    tests = """
def test_x(chaos, job):
    told = chaos.reference(job)
    assert (told["relaunches"], told["hang_after"], told["record_every"]) == (2, 3.0, 5)
    assert job.command == ("python", "other.py", "--out", "{out}") and job.env == {"A": "1"}
    chaos.run(job).verify(good)
"""
    suite(tests, "--chaos-relaunches", "2", "--chaos-record-every", "5").assert_outcomes(passed=1)


def test_an_acceptance_for_a_test_that_does_not_show_it(suite, pytester):
    accepting(pytester, ACCEPT + 'experiment = "test_suite.py::test_good"\n')
    done = suite("def test_good(chaos): chaos.run(job()).verify(good)")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["chaoskit: pyproject.toml:5: the acceptance of rng-not-restored matched nothing*"])


def test_a_wrong_file_ends_the_session(suite, pytester):
    accepting(pytester, ACCEPT.replace("rng-not", "rgn-not"))
    done = suite("def test_good(chaos): chaos.run(job()).verify(good)")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*pyproject.toml:6:*did you mean 'rng-not-restored'*"])


@pytest.mark.parametrize("body", ["pass", "chaos.run(job('misused.py'))"])
def test_no_frames_of_chaoskit_or_pytest_are_shown(suite, body):
    done = suite(f"def test_x(chaos): {body}")
    said = done.stdout.str()
    assert "pytest_plugin" not in said and "pluggy/" not in said and "runner.py" not in said
    done.assert_outcomes(failed=1)


def test_a_mistake_in_a_fault_shows_the_line_of_the_test_alone(suite):
    done = suite("""
from chaoskit import faults
def made(): return faults.kill(rank="x").at_step(3)
def test_x(chaos):
    chaos.run(job(), made())
""")
    said = done.stdout.str()
    assert "chaos.run(job(), made())" in said
    assert 'faults.kill(rank="x")' in said and "kill: rank must be a whole number" in said
    assert "kill.py" not in said and "check_numbered" not in said
    done.assert_outcomes(failed=1)


def test_a_mistake_in_an_experiment_is_an_error(suite):
    done = suite("def test_x(chaos): chaos.run(job(), nonsense=1)", "--chaos-json", "r.json")
    done.stdout.fnmatch_lines(["*(1 experiment: 1 error)", "1 experiment ended with an error"])
    assert results("r.json")["test_x"]["trouble"] == "internal"


SEVERAL = """
partition = "gpu"
image = "trainer:7"
pull = true
namespace = "staging"
[kubernetes]
grace = 30
"""


def test_a_file_may_have_settings_for_several_environments(suite, pytester):
    pytester.path.joinpath("chaoskit.toml").write_text(SEVERAL)
    text = "def test_x(pytestconfig): assert [getattr(pytestconfig.option, name) for name in NAMES] == EXPECTED"
    text = text.replace("NAMES", "('chaos_partition', 'chaos_image', 'chaos_pull', 'chaos_namespace')")
    suite(text.replace("EXPECTED", "[None, None, False, None]")).assert_outcomes(passed=1)
    docker = text.replace("EXPECTED", "[None, 'trainer:7', True, None]")
    suite(docker, "--chaos-env=docker").assert_outcomes(passed=1)
    done = suite(text, "--chaos-env=docker", "--chaos-partition=cpu")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*--chaos-partition is for --chaos-env slurm, not for 'docker'*"])
