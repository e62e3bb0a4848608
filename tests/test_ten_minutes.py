"""docs/tutorial/ten-minutes.md: its diffs are the patches, and whoever types its commands sees what it shows."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaoskit.engine.run_store import Store
from chaoskit.environments.launch.warm import WarmLauncher
from chaoskit.errors import CODES
from tests.probe.started import MODULES
from tests.warm_modes import teach

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / "examples" / "five_bugs"
TEXT = (REPOSITORY / "docs" / "tutorial" / "ten-minutes.md").read_text()
CODES_PAGE = (REPOSITORY / "docs" / "reference" / "codes.md").read_text()
#: What to change for each code, as the page of the codes has it.
REMEDIES = dict(re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \|$", CODES_PAGE, re.M))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
PATCHES = sorted(FOLDER.glob("*.patch"))
#: What the tutorial promises: the rows of a table that begins with `code`, and the quoted advice.
TABLE = re.compile(r"^\| code \| what happened \|\n\|---\|---\|\n((?:\|.+\|\n)+)", re.M)
ADVICE = re.compile(r"^> `([a-z-]+)`: (.+(?:\n> .+)*)", re.M)


@dataclass(frozen=True)
class Section:
    """The blocks of one section, and the codes of its table."""

    title: str
    blocks: tuple[tuple[str, str], ...]
    codes: tuple[str, ...]

    @property
    def commands(self):
        return [line for language, text in self.blocks if language == "sh" for line in text.splitlines()]


def sections():
    for text in re.split(r"^## ", TEXT, flags=re.M)[1:]:
        rows = "".join(TABLE.findall(text))
        yield Section(
            text.splitlines()[0], tuple(BLOCK.findall(text)), tuple(re.findall(r"^\| `(.+?)`", rows, re.M))
        )


SECTIONS = list(sections())


def test_the_diffs_are_the_patches_and_each_is_applied_where_it_is_shown():
    shown = [(section, text) for section in SECTIONS for language, text in section.blocks if language == "diff"]
    assert len(shown) == 6
    for (section, text), patch in zip(shown, PATCHES, strict=False):
        assert text == "".join(patch.read_text().splitlines(keepends=True)[2:]), patch
        assert f"patch train.py {patch.name}" in section.commands
    assert all(f"`{patch.name}`" in TEXT for patch in PATCHES[len(shown) :])


def test_the_codes_are_codes_and_the_advice_is_that_of_chaoskit():
    """Quoted, it may leave words out, and has the marks of Markdown."""
    quoted = ADVICE.findall(TEXT)
    assert len(quoted) == 7
    for code, text in quoted:
        said = re.sub(r"[`]|\n>", "", text)
        advice = REMEDIES[code]
        assert all(piece.strip(" :") in advice for piece in said.split("[…]")), (code, said)
    assert {code for section in SECTIONS for code in section.codes} <= CODES.keys()


def test_every_code_with_a_patch_is_in_a_table():
    named = {code for section in SECTIONS for code in section.codes}
    assert {patch.stem.partition("-")[2] for patch in PATCHES} <= named


class Reader:
    """Somebody who types every command, in a copy of the examples. All launches are warm, from the first one on, and
    one experiment follows another: that is faster, and the record does not differ. `whole`: all experiments run where
    the tutorial runs all, with proofs; otherwise those whose loss it accepts, and one that passes, without."""

    def __init__(self, place, *, whole):
        self.place, self.whole = place, whole
        teach(Store(place / ".chaoskit"), ("torchrun", "--nproc-per-node", "2", "train.py"))
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        self.env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), self.env["PATH"]])
        WarmLauncher(MODULES, threads="1").prepare(self.env, str(place))  # all of their runs share the parents

    def types(self, line):
        return subprocess.run(
            ["bash", "-c", line], cwd=self.place, env=self.env, capture_output=True, text=True, check=False
        )

    def narrower(self, line):
        if self.whole:
            return ""
        return " --no-proof" if "--quick" in line else f" --no-proof -k '{ACCEPTED}'"

    def asks(self, line):
        """A run of chaoskit: its exit code, and the codes of its list."""
        options = f"-n 0 --launch warm --json suite.json{self.narrower(line)}"
        words = line.replace("chaoskit run", f"chaoskit run {options}", 1)
        done = self.types(words)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        document = json.loads((self.place / "suite.json").read_text())
        verdicts = {experiment["verdict"] for experiment in document["experiments"]}
        return done, {problem["code"] for problem in document["problems"]}, verdicts


def looks_like(shown, line):
    return line.startswith(shown[:-1]) if shown.endswith("…") else line == shown


#: What the tutorial says of each section in which chaoskit runs: the exit code.
EXITS = {"2": 1, "7": 1, "8": 0, "9": 0}


#: The experiments with the losses that its file accepts, and one without a loss.
ACCEPTED = "delete_whole or transient_error or one_rank_mid_epoch"


@pytest.mark.parametrize(
    "whole", [pytest.param(False, marks=pytest.mark.slow), pytest.param(True, marks=pytest.mark.exhaustive)]
)
def test_whoever_follows_it_sees_what_it_shows(tmp_path, whole):
    for path in FOLDER.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    reader, asked = Reader(tmp_path, whole=whole), {}
    # Two commands of the first section make the copy.
    assert SECTIONS[0].commands[:4] == [
        "source .venv/bin/activate", "mkdir /tmp/ten-minutes", "cp examples/five_bugs/* /tmp/ten-minutes",
        "cd /tmp/ten-minutes",
    ]  # fmt: skip
    for section in SECTIONS:
        for language, text in section.blocks:
            if language == "toml":
                (tmp_path / "chaoskit.toml").write_text(text)
        for line in section.commands[4 if section is SECTIONS[0] else 0 :]:
            if not line.startswith("chaoskit"):
                done = reader.types(line)
                assert done.returncode == 0, line + done.stdout + done.stderr
                shown = [each for language, text in section.blocks if not language for each in text.splitlines()]
                printed = done.stdout.splitlines()
                assert all(any(looks_like(each, one) for one in printed) for each in shown), done.stdout
                continue
            number = section.title.partition(".")[0]
            done, codes, verdicts = reader.asks(line)
            asked[number] = codes
            assert done.returncode == EXITS[number], done.stdout
            if done.returncode:
                assert codes == set(section.codes), done.stdout
            elif "--quick" in line:
                assert not codes, done.stdout
            else:
                assert {"pass", "accepted"} <= verdicts <= {"pass", "accepted", "skipped"}, done.stdout
    assert asked.keys() == EXITS.keys()
