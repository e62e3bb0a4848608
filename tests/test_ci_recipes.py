"""The recipes of docs/how-to/ci.md: the YAML is YAML, the commands are chaoskit's, and the script of cron is run."""

import fcntl
import json
import os
import re
import shlex
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from chaoskit.cli import battery, main

REPOSITORY = Path(__file__).resolve().parents[1]
TEXT = (REPOSITORY / "docs" / "how-to" / "ci.md").read_text()
#: Blocks by language.
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.M | re.S)
YAML = [text for language, text in BLOCKS if language == "yaml"]
CONF, SCRIPT = (text for language, text in BLOCKS if language == "bash")


def commands(text):
    """What chaoskit is called with, in YAML and in the script: lines that go on are one."""
    text = re.sub(r"\s*\\\n\s*", " ", text)
    folded = re.sub(
        r"^( *)- .*>\n((?:\1 {2,}\S.*\n)+)", lambda found: found[0].replace("\n", " ") + "\n", text, flags=re.M
    )
    lines = [line.partition("#")[0] for line in folded.splitlines() if "pip install" not in line]
    called = re.findall(r"(?:^|[\s;&|-])(chaoskit (?:run|history|clean|report)\b.*)", "\n".join(lines), re.M)
    return [re.sub(r"\s+(?:\|\||\d?>).*", "", one) for one in called]


def test_the_yaml_is_yaml():
    yaml = pytest.importorskip("yaml")
    workflow, frameworks, gitlab, *_ = documents = [yaml.safe_load(text) for text in YAML]
    assert all(isinstance(each, dict) for each in documents)
    for jobs in (workflow["jobs"], frameworks["jobs"]):
        for job in jobs.values():
            assert job["timeout-minutes"] <= 360 and job["runs-on"]
            assert all(("uses" in step) != ("run" in step) for step in job["steps"])
            kept = [step for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
            assert all(step["if"] == "always()" for step in kept)
            # The action uploads by itself.
            assert kept or any(step.get("uses") == "OWNER/chaoskit@COMMIT" for step in job["steps"])
    # YAML 1.1 takes 'on' for a truth.
    assert {*workflow[True]} == {"push", "pull_request", "schedule", "workflow_dispatch"}
    for name in ("change", "night"):
        assert gitlab[name]["extends"] == ".chaoskit" and len(gitlab[name]["script"]) == 1
    assert gitlab[".chaoskit"]["artifacts"]["when"] == "always"


def test_the_yaml_has_a_structure():
    """As far as it shows without a reader of YAML: no tabs, and each line deeper than what it belongs to."""
    for text in YAML:
        assert "\t" not in text
        depths = [len(line) - len(line.lstrip()) for line in text.splitlines() if line.strip()]
        assert all(depth % 2 == 0 for depth in depths), text
        assert all(later <= earlier + 4 for earlier, later in pairwise(depths))


def test_every_command_is_one_that_chaoskit_takes():
    found = [command for text in [*YAML, SCRIPT] for command in commands(text)]
    named = [shlex.split(command)[1] for command in found]
    assert named.count("run") == 3 and named.count("history") == 3 and named.count("clean") == 1
    for command in found:
        own, job = main.split(shlex.split(command)[1:])
        # The script's options are in its configuration.
        own = [word for word in own if word != "${OPTIONS[@]}"]
        args = main.make_parser().parse_args(own)
        assert args.do is not None
        if own[0] == "run":
            assert (
                job[-1] in ("{out}", "${JOB[@]}") and args.junitxml and args.report and args.summary and args.json
            )
            assert battery.titles(battery.Selection(args.k))


def test_actions_are_pinned_by_commit_with_their_version():
    """But for chaoskit itself, whose commit the reader puts in."""
    used = [found for text in YAML for found in re.findall(r"uses: (.+)", text)]
    others = [one for one in used if one != "OWNER/chaoskit@COMMIT"]
    assert len(used) - len(others) == 2 and len(others) >= 6
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one) for one in others), others
    assert len({one.partition("@")[0] for one in others}) == len(set(others)), "one action, one commit"


def test_the_recipes_give_the_action_what_it_takes_and_name_hooks_that_are_there():
    yaml = pytest.importorskip("yaml")
    inputs = yaml.safe_load((REPOSITORY / "action.yml").read_text())["inputs"]
    documents = [yaml.safe_load(text) for text in YAML]
    steps = [step for jobs in documents for job in jobs.get("jobs", {}).values() for step in job["steps"]]
    given = [step["with"] for step in steps if step.get("uses", "").startswith("OWNER/chaoskit@")]
    for one in given:
        assert one.keys() <= inputs.keys() and "{out}" in one["command"]
        options = main.make_parser().parse_args(["run", *shlex.split(one.get("args", ""))])
        assert options.do is not None
    table = re.findall(r"^\| `([a-z-]+)` \|", TEXT, re.M)
    assert table == list(inputs)
    hooks = {hook["id"] for hook in yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())}
    (named,) = (one["repos"] for one in documents if "repos" in one)
    assert {hook["id"] for repository in named for hook in repository["hooks"]} == hooks


def test_what_the_configuration_says_is_what_chaoskit_takes():
    told = subprocess.run(
        ["bash", "-c", CONF + 'printf "%s\\0" run "${OPTIONS[@]}" -- "${JOB[@]}"'],
        env={"HOME": "/home/a", "USER": "a"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    own, job = main.split(told.stdout.rstrip("\0").split("\0"))
    assert main.make_parser().parse_args(own).n == "2" and job[0] == "torchrun" and job[-1] == "{out}"


class Workstation:
    """Somebody's machine: a project, the two files, and a `mail` that keeps what it is given."""

    def __init__(self, place):
        self.place, self.letters = place, place / "letters"
        (place / "bin").mkdir()
        (place / "project").mkdir()
        (place / "nightly.sh").write_text(SCRIPT)
        self.command("mail", f'{{ printf "%s\\n" "$*"; cat; }} >>{shlex.quote(str(self.letters))}')

    def command(self, name, text):
        path = self.place / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def tell(self, *job, options=()):
        """Write the configuration."""
        words = {"JOB": job, "OPTIONS": options}
        arrays = "".join(f"{name}=({' '.join(map(shlex.quote, own))})\n" for name, own in words.items())
        conf = f"PROJECT={self.place}/project\nVENV={self.place}/venv\nTO=somebody\nKEEP=14\n{arrays}"
        (self.place / "nightly.conf").write_text(conf)

    def night(self):
        path = os.pathsep.join([str(self.place / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        env = {**os.environ, "PATH": path, "HOME": str(self.place)}
        script = str(self.place / "nightly.sh")
        return subprocess.run(["bash", script], env=env, capture_output=True, text=True, timeout=600)

    @property
    def nights(self):
        return sorted((self.place / "nights").iterdir())


@pytest.fixture
def workstation(tmp_path):
    return Workstation(tmp_path)


def test_a_night_that_is_at_work_is_left_alone(workstation):
    workstation.tell("true")
    with open(workstation.place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = workstation.night()
    assert done.returncode == 75 and "still running" in done.stderr
    assert not (workstation.place / "nights").exists() and not workstation.letters.exists()


def test_a_mistake_in_the_command_is_told_by_mail(workstation):
    workstation.tell("torchrun", "nowhere.py", "{out}")
    done = workstation.night()
    assert done.returncode == 2, done.stderr
    letter = workstation.letters.read_text()
    assert "exit code 2 somebody" in letter and "nowhere.py" in letter


def test_old_nights_go_and_suites_stay(workstation):
    workstation.tell("torchrun", "nowhere.py", "{out}")
    old = workstation.place / "nights" / "2020-01-01-000000"
    store = workstation.place / "project" / ".chaoskit"
    run, suite = store / "runs" / "20200101-000000-abc", store / "suites"
    for path in (old, run, suite):
        path.mkdir(parents=True)
        os.utime(path, (time.time() - 15 * 86400,) * 2)
    workstation.night()
    assert not old.exists() and not run.exists() and suite.exists() and len(workstation.nights) == 1


@pytest.mark.exhaustive
def test_a_good_night_and_a_bad_one(workstation):
    """The script as it is printed, with a trainer that resumes exactly, and that trainer without a line of it."""
    whole = (REPOSITORY / "tests" / "trainers" / "simple.py").read_text()
    trainer = workstation.place / "project" / "train.py"
    trainer.write_text(whole)
    job = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py", "--out", "{out}")
    workstation.tell(*job, options=("-k", "one_rank_mid_epoch"))
    done = workstation.night()
    (night,) = workstation.nights
    assert done.returncode == 0, (night / "log").read_text()
    assert json.loads((night / "suite.json").read_text())["verdict"] == "pass" and not workstation.letters.exists()
    made = {"log", "pages", "summary.md", "suite.json", "junit.xml", "history"}
    assert {path.name for path in night.iterdir()} == made
    assert (workstation.place / "history.html").exists() and (done.stdout, done.stderr) == ("", "")

    line = '        torch.set_rng_state(state["torch"])\n'
    assert line in whole
    trainer.write_text(whole.replace(line, ""))
    done = workstation.night()
    assert done.returncode == 1 and len(workstation.nights) == 2
    letter = workstation.letters.read_text()
    assert letter.startswith("-s chaoskit: ") and "exit code 1 somebody" in letter
    # Both are told: what is wrong, and that it is new.
    assert "rng-not-restored" in letter and "red" in letter
