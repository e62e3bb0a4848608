"""The command line: what it prints, what it returns, and that no bad input gets further than a message.

Most tests run it in this process, on a battery of their own whose runner is a fake.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from chaoskit.cli import battery, configuration, doctor, main, selection
from chaoskit.engine.run_store import Store
from chaoskit.environments.docker import daemon, host_paths, storage_mount
from chaoskit.errors import ChaoskitError, ExitCode
from chaoskit.studies.nights.archive import Archive
from chaoskit.verdict import passed

FAKE = (Path(__file__).parents[1] / "fake_runner.py").read_text()
SUITE = """
from chaoskit.verdict import failed, passed

def test_good(chaos, job):
    '''The good one.

    More of it.'''
    chaos.run(job).verify(passed("completed", "It ended."))

def test_bad(chaos, job):
    '''The bad one.'''
    chaos.run(job).verify(failed("state_restored", "The RNG was not restored.", "rng-not-restored"))
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project as current directory, and a battery of two experiments beside it."""
    home = tmp_path / "battery"
    home.mkdir()
    shutil.copy(battery.directory() / "battery.ini", home)
    (home / "conftest.py").write_text(FAKE)
    (home / "test_suite.py").write_text(SUITE)
    monkeypatch.setattr(battery, "CANDIDATES", (home,))
    # What conftest.py puts in its place is taken away again.
    for stood_in_for in ("chaoskit.engine.runner", "chaoskit.studies.putting_back"):
        monkeypatch.setitem(sys.modules, stood_in_for, None)
    monkeypatch.setitem(sys.modules, "test_suite", None)
    del sys.modules["test_suite"]
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    for name in ("train", "crash", "misused", "full", "killed", "broken", "stopped", "lacking"):
        Path(f"{name}.py").write_text("")
    return project


@pytest.fixture
def chaoskit(project, capfd):
    """Call it with arguments; it answers with the exit code, standard output and standard error."""

    def run(*args):
        try:
            code = main.main(list(args))
        except SystemExit as end:
            code = end.code
        said = capfd.readouterr()
        return code, said.out, said.err

    return run


def job(script="train.py"):
    """A command that ends with the script, which is what the fake looks at."""
    return ("--", "env", "OUT={out}", sys.executable, script)


def test_the_table_the_explanation_and_the_exit_code(chaoskit, project):
    code, out, err = chaoskit("run", "-v", *job())
    assert code == ExitCode.FAIL
    assert re.search(r"^test_good +pass +20 +30 +5 +2.5 s", out, re.M)
    assert re.search(r"^FAIL test_bad: rng-not-restored\n  The RNG was not restored.$", out, re.M)
    run = re.search(r"^  repeat  chaoskit replay (.chaoskit/runs/\S+)$", out, re.M)[1]
    assert (project / run / "run.json").is_file()
    assert re.search(r"^1 problem in your job \(2 experiments: 1 failed, 1 passed\)$", out, re.M)
    assert re.search(r"^[\d.]+ s, launched cold, 6 s of it spent waiting", out, re.M)
    assert err.splitlines()[:2] == [
        "chaoskit: launching cold: 'env' is no Python program",
        "2 experiments to run",
    ]
    assert "  test_good: launch 0" in err
    assert re.search(r"^  test_bad: fail in [\d.]+ s \(2 of 2\)$", err, re.M)
    assert "test session starts" not in out + err


def test_k_selects_and_a_pass_is_zero(chaoskit):
    code, out, _ = chaoskit("run", "-k", "good", *job())
    assert code == ExitCode.PASS
    assert "bad" not in out


def test_list_shows_what_there_is(chaoskit):
    assert chaoskit("run", "--list") == (0, "test_good  The good one.\ntest_bad   The bad one.\n", "")
    assert chaoskit("run", "--list", "-k", "bad") == (0, "test_bad  The bad one.\n", "")


def test_json_to_standard_output_is_alone_there(chaoskit):
    code, out, err = chaoskit("run", "--json", "-", *job())
    document = json.loads(out)
    assert (code, document["schema"], document["verdict"]) == (1, 1, "fail")
    assert [entry["name"] for entry in document["experiments"]] == ["test_good", "test_bad"]
    assert "experiment" in err


def test_json_and_junit_to_files(chaoskit):
    chaoskit("run", "--json", "r.json", "--junitxml", "r.xml", *job())
    assert json.loads(Path("r.json").read_text())["verdict"] == "fail"
    suite = ET.parse("r.xml").getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_pages_a_summary_and_a_badge(chaoskit, project):
    code, out, err = chaoskit("run", "--report", "pages", "--summary", "s.md", "--badge", "b.svg", *job())
    assert code == ExitCode.FAIL
    index = Path("pages/index.html").read_text()
    assert "1 problem" in index
    assert "test_bad | <code>rng-not-restored</code><br>The RNG was not restored. |" in Path("s.md").read_text()
    assert "1 of 2" in Path("b.svg").read_text()
    assert out.endswith(f"\nHTML report: {project}/pages/index.html\n")
    assert index.count('href="runs/') == len(list(Path("pages/runs").iterdir())) == 2
    assert "could not be written" not in err


@pytest.mark.parametrize("name", ["json", "report", "summary", "badge"])
def test_what_cannot_be_written_afterwards_changes_no_exit_code(chaoskit, project, name):
    spoiled = "'''The bad one.'''; import pathlib; pathlib.Path('gone').rmdir(); pathlib.Path('gone').touch()"
    (project.parent / "battery" / "test_suite.py").write_text(SUITE.replace("'''The bad one.'''", spoiled))
    Path("gone").mkdir()
    code, out, err = chaoskit("run", "-k", "bad", f"--{name}", "gone/x", *job())
    assert code == ExitCode.FAIL
    assert "1  rng-not-restored  The RNG was not restored." in out
    assert re.search(rf"^chaoskit: the {name} could not be written \(", err, re.M)


def test_how_to_look_at_it_is_the_last_line_where_something_did_not_pass(chaoskit):
    _, out, _ = chaoskit("run", "--dir", "else where", *job())
    took, last = out.splitlines()[-2:]
    assert "launched cold" in took
    assert re.fullmatch(r"HTML report: chaoskit report --last-suite --dir '/.*/else where'", last)
    _, out, _ = chaoskit("run", "-k", "good", *job())
    assert "HTML report" not in out


def test_options_that_begin_with_a_dash_are_taken(chaoskit, project):
    (project.parent / "battery" / "test_suite.py").write_text(
        "from chaoskit.verdict import passed\n"
        "def test_x(chaos, job):\n"
        "    assert chaos.reference(job)['resume_args'] == ['--init_from=resume', '--x', 'a b']\n"
        "    assert chaos.reference(job)['relaunches'] == 1\n"
        "    chaos.run(job).verify(passed('completed', 'It ended.'))\n"
    )
    told = chaoskit("run", "--resume-args", "--init_from=resume --x 'a b'", "--relaunches", "1", *job())
    assert told[0] == 0, told


def test_the_users_own_pytest_has_no_say(chaoskit, project, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--nonsense")
    monkeypatch.setenv("PYTEST_PLUGINS", "nonsense")
    (project / "pytest.ini").write_text("[pytest]\naddopts = --nonsense\n")
    (project / "conftest.py").write_text("raise RuntimeError('loaded')")
    (project.parent / "conftest.py").write_text("raise RuntimeError('loaded')")
    assert chaoskit("run", "-k", "good", *job())[0] == 0
    assert os.environ["PYTEST_ADDOPTS"] == "--nonsense"
    assert "PYTEST_DISABLE_PLUGIN_AUTOLOAD" not in os.environ


def test_x_stops_at_the_first_that_does_not_pass(chaoskit, project):
    suite = project.parent / "battery" / "test_suite.py"
    suite.write_text(SUITE + "\ndef test_later(chaos, job): pass\n")
    code, out, _ = chaoskit("run", "-v", "-x", *job())
    assert code == ExitCode.FAIL
    assert re.search(r"^SKIPPED test_later\n  Not run: stopped before \(-x\)", out, re.M)


def test_workers(chaoskit):
    pytest.importorskip("xdist")
    code, out, _ = chaoskit("run", "-v", "-n", "2", *job())
    assert code == ExitCode.FAIL
    assert re.search(r"^test_good +pass", out, re.M)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run"], "put it after '--', for example\n  chaoskit run --quick -- torchrun --nproc-per-node 2 train.py"),
        (["run", "--"], "put it after '--'"),
        (
            ["run", "torchrun", "train.py"],
            "the command of the job must come after '--', for example: chaoskit run --quick -- torchrun",
        ),
        (["run", "-k", "nosuch", *job()], "-k 'nosuch' selects no experiment: 'chaoskit run --list'"),
        (["run", "-k", "a b(", *job()], "Wrong expression passed to '-k'"),
        (["run", "--env", "moon", *job()], "there is no environment 'moon'; there are: docker, kubernetes, local"),
        (["run", *job("nosuch.py")], "there is no script 'nosuch.py'"),
        (["run", "--", "nosuch", "{out}"], "there is no program 'nosuch' on the PATH"),
        (["run", "--", sys.executable, "train.py"], "the command has no {out}"),
        (["run", "--json", "no/such.json", *job()], "which does not exist"),
        (["run", "--junitxml", ".", *job()], "--junitxml: '.' is a directory"),
        (["run", "--report", "train.py", *job()], "--report: cannot create 'train.py', because "),
        (["run", "--summary", "no/such.md", *job()], "--summary: 'no/such.md' is in "),
        (["run", "--badge", "-", *job()], "--badge: '-' (standard output) is not possible here: name a file"),
        (["run", "--timeout", "soon", *job()], "soon is not a positive number of seconds"),
        (["run", "--relaunches", "-1", *job()], "-1"),
        (["run", "--resume-args", "'", *job()], "cannot be split into arguments"),
        (["run", "--dir", "train.py", *job("train.py")], "cannot keep runs in"),
        (["run", *job("misused.py")], "There is no rank 7 in a job of 2"),
        (["fly"], "invalid choice: 'fly'"),
        (["analyze"], "the following arguments are required: RUN"),
        ([], "usage: chaoskit"),
    ],
)
def test_bad_input_is_a_message_and_exit_code_2(chaoskit, args, said):
    code, out, err = chaoskit(*args)
    assert code == ExitCode.USAGE
    assert said in out + err
    assert "Traceback" not in out + err


def test_a_session_of_usage_errors_alone_is_no_night(chaoskit):
    assert chaoskit("run", *job("misused.py"))[0] == ExitCode.USAGE
    code, _, err = chaoskit("history")
    assert code == ExitCode.USAGE and "contains no suite" in err
    chaoskit("run", *job())
    assert chaoskit("history")[0] == ExitCode.PASS


def test_a_job_that_crashes_by_itself_is_inconclusive(chaoskit):
    code, out, _ = chaoskit("run", *job("crash.py"))
    assert code == ExitCode.INCONCLUSIVE
    assert out.count("it says: ZeroDivisionError") + out.count("It says: ZeroDivisionError") == 1
    assert "Nothing could be judged (2 experiments: 2 inconclusive)" in out
    assert "   Run: /stored/control\n" in out


def test_an_environment_that_is_not_there(chaoskit, monkeypatch):
    from chaoskit.environments import LocalEnvironment

    monkeypatch.setattr(LocalEnvironment, "available", staticmethod(lambda: "no /proc: mount it"))
    code, _, err = chaoskit("run", *job())
    assert code == ExitCode.INCONCLUSIVE
    assert "environment 'local' cannot be used here: no /proc: mount it" in err


def test_capabilities_that_are_not_there(chaoskit):
    code, out, _ = chaoskit("run", *job("lacking.py"))
    assert code == ExitCode.INCONCLUSIVE
    assert "Nothing was tested (2 experiments: 2 skipped)" in out
    assert out.count("t needs CanFly; grow wings") == 1


def test_a_full_disk_is_exit_code_5(chaoskit):
    code, out, err = chaoskit("run", *job("full.py"))
    assert code == ExitCode.EXHAUSTED
    assert "2 experiments ended with an error" in out
    lost = "this experiment has no verdict; those that had ended keep theirs"
    assert f"The disk is full ({lost})." in " ".join(out.split())
    assert err.endswith(f"chaoskit: the disk is full ({lost}) (exit code 5)\n")
    assert "internal error" not in err and "Traceback" not in err
    assert "test_bad: error in" in err


def test_a_worker_that_is_killed_is_exit_code_5(chaoskit, project):
    code, out, err = chaoskit("run", "-n", "1", "-k", "good", *job("killed.py"))
    assert code == ExitCode.EXHAUSTED
    said = "a process of chaoskit was killed by SIGKILL: this experiment has no verdict; those that had ended keep"
    assert f"test_good: error: {said}" in err and f"chaoskit: {said}" in err
    assert "1 experiment ended with an error" in out and "internal error" not in err
    archive = Archive(Store())
    assert [result.trouble for result in archive.read(archive.last()).results] == ["exhausted"]


def test_memory_that_is_gone_is_exit_code_5(chaoskit, monkeypatch):
    def examine(root):
        raise MemoryError

    monkeypatch.setattr(doctor, "examine", examine)
    code, _, err = chaoskit("doctor")
    assert code == ExitCode.EXHAUSTED and "chaoskit had no memory left: run fewer experiments at once" in err
    assert "report" not in err and "Traceback" not in err


def test_an_error_inside_chaoskit_is_one_line_and_a_file(chaoskit, project):
    code, _out, err = chaoskit("run", *job("broken.py"))
    assert code == ExitCode.INTERNAL
    path = re.search(
        r"internal error in chaoskit \(ZeroDivisionError: .*\); please report it with the traceback in (\S+)", err
    )[1]
    assert "Traceback" not in err
    assert "of chaoskit's own" in Path(path).read_text()
    assert chaoskit("clean", "--all")[0] == 0
    assert not Path(path).exists()


def test_an_error_of_the_command_itself_too(chaoskit, monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda root: 1 / 0)
    code, _, err = chaoskit("doctor")
    assert code == ExitCode.INTERNAL
    assert "internal error in chaoskit (ZeroDivisionError: division by zero)" in err


def test_an_interrupt_leaves_a_partial_table(chaoskit, project):
    suite = project.parent / "battery" / "test_suite.py"
    stopped = "\ndef test_stopped(chaos, job):\n    import os, signal; os.kill(os.getpid(), signal.SIGTERM)\n"
    suite.write_text(SUITE + stopped)
    code, out, err = chaoskit("run", "-v", "-k", "not bad", "--json", "r.json", *job())
    assert code == ExitCode.INTERRUPTED
    assert re.search(r"^test_good +pass", out, re.M)
    assert re.search(r"^INCONCLUSIVE test_stopped\n  Not run: interrupted", out, re.M)
    assert "interrupted" in err
    assert json.loads(Path("r.json").read_text())["verdict"] == "inconclusive"


def test_sigterm_in_a_process_of_its_own(tmp_path):
    script = (
        "import sys, time\nfrom chaoskit.cli import main as cli\n"
        "cli.do_doctor = lambda args: (print('up', flush=True), time.sleep(60))\nsys.exit(cli.main(['doctor']))"
    )
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    child = subprocess.Popen([sys.executable, "-c", script], **piped)
    assert child.stdout.readline() == "up\n"
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=20)
    assert (child.returncode, err) == (130, "chaoskit: interrupted\n")


def test_doctor(chaoskit, monkeypatch):
    missing = doctor.DoctorFinding("torch", "not installed", False, "pip install torch")
    monkeypatch.setattr(doctor, "_torch", lambda: iter([missing]))
    code, out, _ = chaoskit("doctor")
    assert code == ExitCode.PASS
    assert re.search(r"^ok +python +\d", out, re.M)
    assert re.search(r"^-- +torch +not installed *\n +pip install torch", out, re.M)
    assert re.search(r"^ok +environment local +available", out, re.M)
    assert re.search(r"^ok +launches +warm launches work", out, re.M)
    assert not Path(".chaoskit").exists()


def test_doctor_on_a_machine_that_cannot(chaoskit, monkeypatch):
    from chaoskit.environments import LocalEnvironment

    monkeypatch.setattr(doctor, "_torch", lambda: iter(()))
    monkeypatch.setattr(doctor, "_launches", lambda: iter(()))
    monkeypatch.setattr(LocalEnvironment, "available", staticmethod(lambda: "it needs Linux"))
    assert chaoskit("doctor")[0] == ExitCode.INCONCLUSIVE


@pytest.mark.parametrize("lacks", ["sdk", "daemon"])
def test_doctor_without_docker_examines_everything_else(chaoskit, monkeypatch, tmp_path, lacks):
    if lacks == "sdk":
        monkeypatch.setitem(sys.modules, "docker", None)
    for known in (daemon.shared_daemon, host_paths.host_paths, storage_mount.why_not):
        known.cache_clear()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setattr(doctor, "_torch", lambda: iter(()))
    monkeypatch.setattr(doctor, "_launches", lambda: iter(()))
    code, out, err = chaoskit("doctor")
    assert (code, err) == (ExitCode.PASS, "")
    assert re.search(r"^-- +docker ", out, re.M) and re.search(r"^-- +environment docker ", out, re.M)
    assert re.search(r"^ok +environment local +available", out, re.M) and re.search(r"^(ok|--) +storage ", out, re.M)


def test_doctor_says_why_launches_are_cold(monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (found,) = doctor._launches()
    assert not found.good
    assert f"cold launches only: {tmp_path / 'sitecustomize.py'} must run when an interpreter starts" in found.found


def test_clean(chaoskit):
    assert chaoskit("clean") == (0, "nothing to clean: no crashed chaoskit left anything behind\n", "")
    chaoskit("run", *job())
    code, out, _ = chaoskit("clean", "--all")
    assert code == 0
    assert re.search(r"^removed 2 stored runs and 0 references from .*/.chaoskit; \d+ kB are free again$", out, re.M)
    assert Store().all_runs() == []


def test_clean_says_what_it_could_not_remove(chaoskit, monkeypatch):
    chaoskit("run", *job())
    first, second = Store().all_runs()
    unlink = os.unlink

    def refuse(name, *, dir_fd=None):
        if dir_fd is not None and os.readlink(f"/proc/self/fd/{dir_fd}") == str(first):
            raise PermissionError(1, "Operation not permitted")
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    code, out, err = chaoskit("clean", "--all")
    assert code == ExitCode.INTERNAL and "removed 1 stored run and 0 references from" in out
    assert f"could not remove {first}/run.json: Operation not permitted" in err
    assert first.exists() and not second.exists()


def finish(store):
    """End the runs that the fake has begun."""
    for run_dir in store.all_runs():
        store.finish(run_dir, "finished")


def test_a_limit_on_the_store(chaoskit):
    _, _, err = chaoskit("run", "--store-limit", "10GB", *job())
    assert "limit" not in err
    finish(Store())
    _, _, err = chaoskit("run", "--store-limit", "1kB", *job())
    assert "and the limit is 1 kB: at the end of a session the oldest are removed" in err
    assert re.search(r"removed 2 stored runs and 0 references to keep the store within its limit; \d+ kB are free", err)
    assert len(Store().all_runs()) == 2, "those of the session stay"
    code, _, err = chaoskit("run", "--store-limit", "much", *job())
    assert code == ExitCode.USAGE and "must have a unit, such as '500MB', '20GB' or '8GiB', not 'much'" in err


def test_how_many_passes_stay(chaoskit):
    chaoskit("run", *job())
    finish(Store())
    Store().write_verdicts(Store().all_runs()[0], checks=[], verdicts=[passed("completed", "It ended.")])
    chaoskit("run", "--keep", "0", *job())
    assert len(Store().all_runs()) == 3, "the pass of the first session is gone"


def test_clean_where_an_environment_cannot_be_reached(chaoskit, monkeypatch):
    from chaoskit.environments import LocalEnvironment

    def sweep(root):
        raise ChaoskitError("no daemon answers: start it")

    monkeypatch.setattr(LocalEnvironment, "sweep", staticmethod(sweep))
    assert chaoskit("clean")[0] == ExitCode.PASS  # nobody has used it
    chaoskit("run", *job())
    code, out, err = chaoskit("clean")
    assert (code, out) == (ExitCode.INTERNAL, "")
    why = "what runs with --env local may have left was not looked for: no daemon answers: start it"
    assert err == f"chaoskit: {why}; then clean again\n"


def test_help_and_version_load_nothing_of_weight():
    script = (
        "import sys\nfrom chaoskit.cli import main as cli\n"
        "try: cli.main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print(sorted({'torch', 'rich', 'pytest', 'psutil', 'docker', 'kubernetes'} & set(sys.modules)))"
    )
    for flag in ("--help", "--version"):
        done = subprocess.run([sys.executable, "-c", script, flag], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"


def test_python_m_chaoskit():
    said = subprocess.check_output([sys.executable, "-m", "chaoskit", "--version"], text=True)
    assert re.fullmatch(r"chaoskit \d+\.\d+\.\d+\n", said)


def test_the_packaged_battery_has_names_of_its_own_and_a_title_for_each():
    titles = battery.titles()
    assert len(titles) >= 11
    assert all(titles.values())
    assert {"test_control", "test_resume", "test_one_rank_mid_epoch", "test_rank_exits_0"} <= set(titles)
    home = battery.directory()
    source = "".join(path.read_text() for path in home.glob("test_*.py"))
    tests = re.findall(r"^def test_(\w+)", source, re.M)
    assert len(tests) == len(set(tests))


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A run that was stored with nothing in its record, in the store of the current directory."""
    monkeypatch.chdir(tmp_path)
    store = Store()
    told = {"command": [sys.executable, "{out}"]}
    run_dir = store.new_run(job=told, experiment="test_x", schedule=[])
    store.finish(run_dir, "finished")
    return run_dir


def test_analyze_judges_a_run_that_nobody_had_judged(stored, capsys):
    assert main.main(["analyze", stored.name, "--json", "-"]) == ExitCode.INCONCLUSIVE
    out, err = capsys.readouterr()
    (entry,) = json.loads(out)["experiments"]
    assert (entry["name"], entry["run"]) == ("test_x", f".chaoskit/runs/{stored.name}")
    assert "INCONCLUSIVE test_x: " in err
    assert err.endswith(f"HTML report: chaoskit report .chaoskit/runs/{stored.name}\n")
    assert main.main(["analyze", str(stored)]) == ExitCode.INCONCLUSIVE
    assert re.search(r"^test_x +inconclusive", capsys.readouterr().out, re.M)


def test_analyze_writes_pages_and_says_how_to_get_them(stored, capsys):
    assert main.main(["analyze", stored.name, "--report", "pages", "--summary", "s.md"]) == ExitCode.INCONCLUSIVE
    out, err = capsys.readouterr()
    assert out.endswith("/pages/index.html\n")
    assert "no check was applied to" in err
    assert Path(f"pages/runs/{stored.name}.html").is_file()
    assert f'href="runs/{stored.name}.html"' in Path("pages/index.html").read_text()
    assert "? inconclusive | test_x |" in Path("s.md").read_text()


@pytest.mark.parametrize("command", ["analyze", "replay"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "has no run.json, so it is not a run of chaoskit"),
        ('{"format": 1, "id"', "is truncated or no JSON"),
        ('{"format": 99}', "is of format 99, this chaoskit reads 1"),
    ],
)
def test_a_run_that_cannot_be_read(stored, capsys, command, content, said):
    (stored / "run.json").unlink()
    if content is not None:
        (stored / "run.json").write_text(content)
    assert main.main([command, str(stored)]) == ExitCode.USAGE
    _, err = capsys.readouterr()
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["analyze", "explain", "replay"])
def test_a_run_that_does_not_exist(stored, capsys, command):
    assert main.main([command, "nosuch"]) == ExitCode.USAGE
    assert "nosuch names no stored run: they are in" in capsys.readouterr().err


# The configuration of the project.

FILE = """
[tool.chaoskit]
command = ["env", "OUT={{out}}", {python!r}, "train.py"]
json = "r.json"

[[tool.chaoskit.accept]]
code = "rng-not-restored"
reason = "decided"
"""


def keep(text=FILE, name="pyproject.toml"):
    Path(name).write_text(text.format(python=sys.executable) if "{python" in text else text)


def test_run_needs_no_arguments_where_a_file_has_them(chaoskit, project):
    keep()
    code, out, err = chaoskit("run")
    assert code == 0 and "test_bad: accepted" in err and "test_good: pass" in err
    assert "accepted: rng-not-restored, shown by test_bad: decided" in out
    assert "1 passed, 1 accepted" in out
    report = json.loads(Path("r.json").read_text())
    assert {each["name"]: each["verdict"] for each in report["experiments"]} == {
        "test_good": "pass", "test_bad": "accepted"
    }  # fmt: skip
    code, out, _ = chaoskit("run", "--strict", "--no-proof")
    assert code == 1 and "1  rng-not-restored" in out


def test_the_command_line_wins_over_the_file(chaoskit, project):
    keep(FILE.replace('json = "r.json"', 'select = "test_good"\nlaunch = "cold"'))
    code, out, _ = chaoskit("run")
    assert code == 0 and "test_bad" not in out
    code, out, _ = chaoskit("run", "-k", "test_bad", "--json", "mine.json", *job("crash.py"))
    assert code == 3 and "test_good" not in out and "ZeroDivisionError" in out
    assert Path("mine.json").is_file()


def test_an_acceptance_that_matches_nothing_is_reported_after_a_whole_battery(chaoskit, project):
    keep(FILE + '\n[[tool.chaoskit.accept]]\ncode = "hang"\nreason = "x"\n')
    code, _, err = chaoskit("run")
    assert code == 0 and "pyproject.toml:10: the acceptance of hang matched nothing in any of 2 experiments" in err
    _, _, err = chaoskit("run", "-k", "good")
    assert "matched nothing" not in err


def test_an_expired_acceptance_fails(chaoskit, project):
    keep(FILE + "until = 2020-01-01\n")
    code, _, err = chaoskit("run", "--no-proof")
    assert code == 1 and "has expired: it was valid until 2020-01-01 (pyproject.toml:6)" in err


def test_workers_of_the_battery_have_the_list(chaoskit, project):
    keep(FILE.replace("json =", "workers = 2\njson ="))
    code, out, _ = chaoskit("run")
    assert code == 0 and "accepted: rng-not-restored, shown by test_bad" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.chaoskit]\ntimout = 3\n", "pyproject.toml:2: there is no key 'timout'; did you mean 'timeout'?"),
        ("[tool.chaoskit\n", "pyproject.toml:1: not TOML"),
        ("[tool.chaoskit]\nselect = 'nothing'\ncommand = 'env O={{out}} true'\n", "selects no experiment"),
        (FILE.replace("rng-", "rgn-"), "did you mean 'rng-not-restored'?"),
    ],
)
def test_a_wrong_file_is_a_mistake_in_usage(chaoskit, project, text, said):
    keep(text)
    code, _, err = chaoskit("run")
    assert code == ExitCode.USAGE and said in err


def test_parameters_that_an_experiment_does_not_have(chaoskit, project, monkeypatch):
    monkeypatch.setattr(battery, "CANDIDATES", (Path(__file__).parents[2] / "experiments",))
    keep(FILE + 'experiment = "test_none_is_whole[truncat]"\n')
    code, _, err = chaoskit("run")
    assert code == ExitCode.USAGE and "pyproject.toml:6" in err
    assert "did you mean 'test_none_is_whole[truncate]'?" in err


@pytest.mark.parametrize(("select", "said"), [("nothing", "selects no experiment"), ("good and", "column 9")])
@pytest.mark.parametrize("words", [["run"], ["run", "--list"]])
def test_a_selection_of_the_file_is_named_with_its_line(chaoskit, project, select, said, words):
    keep(FILE.replace("json =", f'select = "{select}"\njson ='))
    code, _, err = chaoskit(*words)
    assert code == ExitCode.USAGE and err.splitlines()[-1].startswith("chaoskit: pyproject.toml:4: select: "), err
    assert said in err
    # What is typed replaces it, and is not the file's.
    code, _, err = chaoskit("run", "--list", "-k", "nobody")
    assert code == ExitCode.USAGE and "pyproject" not in err


def test_without_a_command_the_nearest_file_is_named(chaoskit, project, monkeypatch):
    keep()
    Path("deep").mkdir()
    monkeypatch.chdir("deep")
    code, _, err = chaoskit("run")
    assert code == ExitCode.USAGE and f"start chaoskit in {project}" in err


def test_init_keeps_the_last_run(chaoskit, project):
    code, _, err = chaoskit("init")
    assert code == ExitCode.USAGE and "no run whose command could be kept" in err and "'chaoskit run'" in err
    Path("pyproject.toml").write_text('[project]\nname = "mine"')
    typed = ["chaoskit", "run", "-k", "good", "--relaunches", "2", "--resume-args", "--go 'on it'", "--json", "r.json"]
    typed += ["--fail-on", "problems"]
    before, sys.argv = sys.argv, [*typed, *job()]
    try:
        chaoskit(*typed[1:], *job())
    finally:
        sys.argv = before
    code, out, err = chaoskit("init")
    assert code == 0 and "pyproject.toml" in err and "Not kept" in out and "-k good" in out
    found = configuration.read(project)
    assert found.command == ("env", "OUT={out}", sys.executable, "train.py")
    assert found.values == {"relaunches": 2, "resume-args": ["--go", "on it"], "fail-on": "problems"}
    assert "OUT={out} " in out and "'{out}'" not in out and "'OUT" not in out
    assert Path("pyproject.toml").read_text().startswith('[project]\nname = "mine"')
    code, out, _ = chaoskit("run")
    assert code == 1 and "test_bad" in out
    kept = Path("pyproject.toml").read_text()
    code, out, err = chaoskit("init")
    assert code == ExitCode.USAGE and "nothing was written" in err and "command =" in out
    assert Path("pyproject.toml").read_text() == kept


def test_init_writes_a_file_of_its_own_where_there_is_no_pyproject(chaoskit, project):
    chaoskit("run", *job())
    code, out, _ = chaoskit("init")
    assert code == 0 and Path("chaoskit.toml").read_text() == out
    assert configuration.read(project).command[-1] == "train.py"


def test_what_only_a_cluster_does_is_for_clusters_and_runs_by_name():
    assert "test_time_limit" in battery.titles(env="slurm") and "test_evicted" not in battery.titles(env="slurm")
    assert "test_time_limit" not in battery.titles(nodes="2", env="kubernetes")
    assert set(battery.titles(battery.Selection("time_limit"), env="local")) == {"test_time_limit"}
    own = {"test_drained", "test_evicted", "test_suspended"}
    assert own <= battery.titles(nodes="2", env="kubernetes").keys()
    assert not own & battery.titles(nodes="2", env="netns").keys() and not own & battery.titles(env="kubernetes").keys()
    for name in ("test_evicted", "evicted"):
        assert set(battery.titles(battery.Selection(name), nodes="2", env="netns")) == {"test_evicted"}
    assert "test_evicted" not in battery.titles(battery.Selection("not evicted"), nodes="2", env="netns")


def test_areas_and_the_quick_experiments():
    quick = battery.titles(battery.Selection(quick=True))
    assert set(quick) == set(selection.QUICK)
    every = battery.titles()
    for area in selection.AREAS:
        found = {
            name
            for env in ("kubernetes", "slurm")
            for name in battery.titles(
                battery.Selection(only=area), nodes="1:2", every="30m", env=env, notices="aws,slurm"
            )
        }
        modules = [battery.directory() / f"{module}.py" for module in selection.AREAS[area]]
        own = {name for name, path in selection.experiments(battery.directory()).items() if path in modules}
        assert {name.partition("[")[0] for name in found} == own
        left_out = (*selection.NEED_NODES, *selection.ON_REQUEST)
        assert (area in left_out) != bool(every.keys() & found)
    # An area also has the experiments that are not in the battery.
    assert "test_read_only" in battery.titles(battery.Selection(only="storage"))
    assert set(battery.titles(battery.Selection("disk_full", only="storage"))) == {"test_disk_full"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--only", "storag"), "did you mean 'storage'?"),
        (("--only", ","), "name an area"),
        (("--only", "storage", "--quick"), "exclude each other"),
        (("--quick", "-k", "nothing"), "--quick -k 'nothing' selects no experiment"),
        (("--only", "resume"), "--only resume selects no experiment"),
    ],
)
def test_a_wrong_selection(chaoskit, project, monkeypatch, args, said):
    if "resume" not in args:
        monkeypatch.setattr(battery, "CANDIDATES", (Path(__file__).parents[2] / "experiments",))
    code, _, err = chaoskit("run", *args, *job())
    assert code == ExitCode.USAGE and said in err
