"""`action.yml` and `.pre-commit-hooks.yaml`: what they pin, what they pass to chaoskit, and their steps, run here."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.cli import main
from tests.run_options import OPTIONS

yaml = pytest.importorskip("yaml")
REPOSITORY = Path(__file__).resolve().parents[1]
TEXT = (REPOSITORY / "action.yml").read_text()
ACTION = yaml.safe_load(TEXT)
STEPS = ACTION["runs"]["steps"]
INSTALL, RUN = (step for step in STEPS if "run" in step)
HOOKS = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())


def options_in(words):
    return {word for word in words if word.startswith("-") and word != "--"}


def test_it_is_composite_and_describes_every_input():
    assert ACTION["runs"]["using"] == "composite" and ACTION["name"] == "chaoskit"
    assert all(one["description"] and isinstance(one["default"], str) for one in ACTION["inputs"].values())
    named = set(re.findall(r"inputs\.([a-z-]+)", TEXT))
    assert named == ACTION["inputs"].keys()


def test_other_actions_are_pinned_by_commit_with_their_version():
    used = re.findall(r"uses: (.+)", TEXT)
    assert len(used) == sum("uses" in step for step in STEPS) == 2
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one) for one in used), used


def test_no_input_is_part_of_a_script():
    assert not any("${{" in step["run"] for step in (INSTALL, RUN))


def test_every_option_that_it_passes_is_one_of_chaoskit_run():
    passed = set(re.findall(r'"(--?[a-z][a-z-]*)"', RUN["run"])) - {"-m"}
    passed |= options_in(shlex.split(ACTION["inputs"]["args"]["default"]))
    assert {"--summary", "--report", "--json", "--junitxml"} < passed
    assert passed <= OPTIONS


class Runner:
    """A machine of GitHub's: a Python that writes down what it is asked to run, and the files of the runner."""

    def __init__(self, place):
        self.place, self.asked = place, place / "asked.json"
        for name in ("summary", "output"):
            (place / name).touch()

    def step(self, step, *, stub=True, code=0, **inputs):
        """Run a step as GitHub does, with the default of each input that is not given."""
        given = {name: one["default"] for name, one in ACTION["inputs"].items()}
        given |= {name.replace("_", "-"): text for name, text in inputs.items()}
        variables = {
            name: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda found: given[found[1]], text)
            for name, text in step["env"].items()
        }
        script = self.place / "step.py"
        # What costs is not run: the words of the command are written down instead.
        before = (
            f"import json, subprocess\n"
            f"def run(words):\n"
            f"    json.dump(words, open({str(self.asked)!r}, 'w'))\n"
            f"    return subprocess.CompletedProcess(words, {code})\n"
            f"subprocess.run = run\n"
        )
        script.write_text((before if stub else "") + step["run"])
        assert step["shell"] == "python"
        env = {
            **os.environ, **variables, "PYTHONPATH": str(REPOSITORY),
            "GITHUB_STEP_SUMMARY": str(self.place / "summary"), "GITHUB_OUTPUT": str(self.place / "output"),
            "GITHUB_ACTION_PATH": "/action",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, str(script)], cwd=self.place, env=env, capture_output=True, text=True
        )
        words = json.loads(self.asked.read_text()) if self.asked.exists() else None
        return done, words

    @property
    def output(self):
        return (self.place / "output").read_text()


@pytest.fixture
def runner(tmp_path):
    return Runner(tmp_path)


def test_it_installs_itself_or_what_it_is_told(runner):
    _, words = runner.step(INSTALL)
    assert words[1:] == ["-m", "pip", "install", "--disable-pip-version-check", "/action"]
    _, words = runner.step(
        INSTALL, requirements="-r 'my requirements.txt'", install="chaoskit @ git+https://a.example/b"
    )
    assert words[5:] == ["-r", "my requirements.txt", "chaoskit @ git+https://a.example/b"]
    done, _ = runner.step(INSTALL, code=7)
    assert done.returncode == 7


def test_it_installs_nothing_where_it_is_told_so(runner):
    done, words = runner.step(INSTALL, install="")
    assert (done.returncode, words) == (0, None)


@pytest.mark.parametrize("code", [0, 1, 3])
def test_it_runs_the_command_and_ends_with_its_exit_code(runner, code):
    command = "torchrun train.py --name 'a b; touch $HOME' --out {out}"
    done, words = runner.step(RUN, code=code, command=command, args="-k 'resume or twice'", fail_on="problems")
    assert done.returncode == code and runner.output == f"exit-code={code}\n"
    own, job = main.split(words[3:])
    assert job == ["torchrun", "train.py", "--name", "a b; touch $HOME", "--out", "{out}"]
    assert own[0] == "run" and own[-4:] == ["-k", "resume or twice", "--fail-on", "problems"]
    assert own[own.index("--summary") + 1] == str(runner.place / "summary")


def test_without_a_command_the_configuration_of_the_project_decides(runner):
    _, words = runner.step(RUN)
    assert "--" not in words and "--fail-on" not in words and words[-1] == "--quick"


def test_an_unclosed_quote_is_an_error_and_starts_nothing(runner):
    done, words = runner.step(RUN, command="torchrun 'train.py --out {out}")
    assert done.returncode != 0 and words is None and "No closing quotation" in done.stderr


@pytest.mark.slow
@pytest.mark.launches
def test_a_real_run_writes_the_summary_and_the_report(runner):
    """One experiment, with the trainer of the other tests."""
    trainer = REPOSITORY / "tests" / "trainers" / "simple.py"
    torchrun = f"{shlex.quote(sys.executable)} -m torch.distributed.run --nproc-per-node 2"
    done, _ = runner.step(
        RUN, stub=False, command=f"{torchrun} {trainer} --out {{out}}", args="-k test_resume --launch warm"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert runner.output == "exit-code=0\n"
    assert "test_resume" in (runner.place / "summary").read_text()
    report = runner.place / "chaoskit-report"
    assert {path.name for path in report.iterdir()} == {"pages", "suite.json", "junit.xml"}
    assert (report / "pages" / "index.html").is_file()


def test_the_artifact_holds_what_the_run_wrote_and_no_checkpoints():
    (upload,) = (step for step in STEPS if "upload-artifact" in step.get("uses", ""))
    assert upload["if"].startswith("always()")
    paths = upload["with"]["path"].replace("${{ inputs.working-directory }}", ".").split()
    assert paths == ["./chaoskit-report/", "./.chaoskit/runs/", "!./.chaoskit/runs/*/out/"]


def test_the_hooks_are_described_and_call_chaoskit_run():
    assert {hook["id"] for hook in HOOKS} == {"chaoskit-config", "chaoskit-quick"}
    for hook in HOOKS:
        words = shlex.split(hook["entry"])
        assert words[:2] == ["chaoskit", "run"] and hook["name"] and hook["description"]
        # A hook is run once, whatever files changed: their names would be taken for options.
        assert hook["pass_filenames"] is False
    (quick,) = (hook for hook in HOOKS if hook["id"] == "chaoskit-quick")
    assert quick["stages"] == ["pre-push"]


def test_every_option_of_a_hook_is_one_of_chaoskit_run():
    for hook in HOOKS:
        assert options_in(shlex.split(hook["entry"])) <= OPTIONS


def test_the_check_of_the_configuration_needs_no_torch(tmp_path):
    """pre-commit installs chaoskit alone for it."""
    (tmp_path / "torch.py").write_text("raise ImportError('there is no torch')\n")
    (hook,) = (hook for hook in HOOKS if hook["id"] == "chaoskit-config")
    words = [sys.executable, "-m", *shlex.split(hook["entry"])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(REPOSITORY)])}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "test_resume" in done.stdout, done.stderr


def test_the_check_of_the_configuration_finds_an_unknown_key(tmp_path):
    (tmp_path / "chaoskit.toml").write_text('comand = "torchrun train.py --out {out}"\n')
    (hook,) = (hook for hook in HOOKS if hook["id"] == "chaoskit-config")
    words = [sys.executable, "-m", *shlex.split(hook["entry"])]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 2 and "command" in done.stderr
