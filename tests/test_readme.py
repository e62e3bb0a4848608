"""The README and the guides show commands, scripts and an experiment: they are taken from the pages and tried."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.cli import battery, main
from chaoskit.engine.result import Result
from chaoskit.engine.run_store import Store
from chaoskit.report.problem_words import count_line
from chaoskit.report.terminal.table import console_in_memory, printed, show_rows, took
from tests.warm_modes import teach

REPOSITORY = Path(__file__).resolve().parents[1]
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
DOCS = REPOSITORY / "docs"
README = (REPOSITORY / "README.md").read_text()
HOUR = (DOCS / "tutorial" / "first-hour.md").read_text()
GUIDES = [
    REPOSITORY / "README.md",
    *sorted((DOCS / "tutorial").glob("*.md")),
    *sorted((DOCS / "how-to").glob("*.md")),
]
PAGES = [*sorted(DOCS.rglob("*.md")), REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]


def blocks(text, language):
    """The blocks of code of one language in a page."""
    return [block for name, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S) if name == language]


def commands(text):
    """Every command line of chaoskit in the blocks of a shell."""
    lines = re.sub(r"\\\n\s*", " ", "".join(blocks(text, "sh"))).splitlines()
    return [re.split(r"  #| > ", line)[0].strip() for line in lines if line.startswith("chaoskit ")]


def test_the_readme_fits_on_two_screens():
    assert len(README.splitlines()) <= 110


def test_the_guides_show_commands():
    assert len(commands(README)) >= 1 and len(commands(HOUR)) >= 5
    assert {"make demo", "make test"} <= set(re.findall(r"make \w+", "".join(blocks(README, "sh"))))


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_every_command_of_a_guide_is_one_that_chaoskit_takes(page):
    for line in commands(page.read_text()):
        own, job = main.split(shlex.split(line)[1:])
        args = main.make_parser().parse_args(own)
        assert args.do is not None, line
        if own[0] == "run" and own[1:] not in ([], ["--strict"]):  # these take the command of the project's file
            assert bool(job) != bool(args.job_template), line
            assert args.job_template or job == ["COMMAND"] or "{out}" in job, line
            given = {"nodes": args.nodes, "every": args.every, "notices": args.notices}
            assert not args.k or battery.titles(battery.Selection(args.k), **given), line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_target_of_make_that_a_page_names_is_there(page):
    targets = set(re.findall(r"^([a-z][a-z-]*):", (REPOSITORY / "Makefile").read_text(), re.M))
    text = page.read_text()
    assert set(re.findall(r"`make ([a-z-]+)[` ]", text)) <= targets
    assert set(re.findall(r"^make ([a-z-]+)", "".join(blocks(text, "sh")), re.M)) <= targets


@pytest.mark.parametrize("text", [README, HOUR], ids=["README.md", "first-hour.md"])
def test_the_table_of_the_demo_is_the_one_that_is_printed(text):
    (table,) = (block for block in blocks(text, "") if "(1 experiment: 1 passed)" in block)
    demo = Result(
        "test_one_rank_mid_epoch", "pass", resumed_from=30, last_valid=30, steps_lost=5,
        recovery_seconds=0.8, seconds=22.0, launched=("warm",),
    )  # fmt: skip
    console = console_in_memory()
    show_rows([demo], console)
    shown = [line.rstrip() for line in printed(console).splitlines()]
    assert table.splitlines()[:3] == shown[:3]
    assert table.splitlines()[-2:] == [count_line([], [demo]), took([demo], seconds=16.6)]


def test_the_readme_and_the_gallery_agree():
    (told,) = re.findall(r"holds (\d+) trainers broken on purpose", README)
    assert f"**{told} of {told} caught" in (DOCS / "reference" / "gallery.md").read_text()


class Hour:
    """A directory of somebody who follows the tutorial, and the commands of this environment."""

    def __init__(self, place):
        self.place = place
        (script, test) = (block for block in blocks(HOUR, "python") if "import" in block)
        (place / "train.py").write_text(script)
        (place / "test_mine.py").write_text(test)
        # All launches are warm, from the first one on: that is faster, and the record does not differ.
        launchers = (("torchrun", "--nproc-per-node", "2"), (*TORCHRUN, "--nproc-per-node", "2", "--max-restarts", "0"))
        teach(Store(place / ".chaoskit"), *((*launcher, "train.py") for launcher in launchers))

    def repair(self):
        """Put both lines of the tutorial where it says."""
        path = self.place / "train.py"
        text = path.read_text()
        for block in blocks(HOUR, "python"):
            if "import" not in block:
                known = block.splitlines()[0] + "\n"
                assert text.count(known) == 1
                text = text.replace(known, block)
        path.write_text(text)

    def run(self, *words):
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
        return subprocess.run(words, cwd=self.place, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_tutorial_fails_and_passes_where_it_says(tmp_path):
    """Its script loses the random state, and resumes exactly once it is repaired; its experiment is a test."""
    hour = Hour(tmp_path)
    (command,) = {line for line in commands(HOUR) if "one_rank_mid_epoch" in line}
    broken = hour.run(*shlex.split(command.replace("chaoskit run", "chaoskit run --launch warm", 1)))
    assert broken.returncode == 1, broken.stdout + broken.stderr
    shown = next(block for block in blocks(HOUR, "") if block.startswith("1 problem"))
    assert " ".join(shown.split()) in " ".join(broken.stdout.split())
    hour.repair()
    result = hour.run(
        sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "-c", "/dev/null",
        "--chaos-launch", "warm",
    )
    assert result.returncode == 0, result.stdout
    assert "1 passed" in result.stdout and "test_survives_a_lost_rank" in result.stdout
    assert (tmp_path / ".chaoskit" / "runs").is_dir()


def test_the_experiment_of_the_guide_is_that_of_the_tutorial():
    """But for the arguments of the script and the step; so what was tried there holds here too."""
    (mine,) = (block for block in blocks(HOUR, "python") if "def test" in block)
    (guide,) = blocks((DOCS / "how-to" / "write-an-experiment.md").read_text(), "python")
    assert guide == mine.replace('["{out}"]', '["--out", "{out}"]').replace("at_step(23)", "at_step(25)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_installs_chaoskit_by_a_name_that_no_index_has(page):
    installed = re.findall(r"pip install .*", "".join(blocks(page.read_text(), "sh")))
    assert not [line for line in installed if re.search(r"""install (-\S+ )*['"]?chaoskit\b""", line)]
