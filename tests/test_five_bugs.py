"""examples/five_bugs: the patches fit one after the other, and each is named after the code that asks for it.

The script fails before them and passes after them.
"""

import ast
import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.errors import CODES

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / "examples" / "five_bugs"
#: What a failing resume of the broken script shows, whatever the fault was.
BUGS = {"stale-checkpoint", "optimizer-not-restored", "data-replayed", "rng-not-restored"}


@pytest.fixture
def five_bugs(monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    yield importlib.import_module("five_bugs")
    for name in ("five_bugs", "table"):
        sys.modules.pop(name, None)


@pytest.fixture
def place(tmp_path):
    shutil.copy(FOLDER / "train.py", tmp_path)
    return tmp_path


def test_the_script_is_as_long_as_a_newcomer_would_write_it():
    assert len((FOLDER / "train.py").read_text().splitlines()) <= 110
    assert "chaoskit" not in (FOLDER / "train.py").read_text()


def test_each_patch_fits_after_those_before_it_and_is_named_after_a_code(five_bugs, place):
    found = five_bugs.patches()
    assert [int(path.name.split("-")[0]) for path in found] == list(range(1, 9))
    assert {five_bugs.asked_by(path) for path in found} <= CODES.keys()
    for path in found:
        five_bugs.mend(place, path)
        ast.parse((place / "train.py").read_text())
    assert not list(place.glob("*.rej")) and not list(place.glob("*.orig"))
    assert (
        subprocess.run([sys.executable, "-m", "ruff", "check", "--quiet", str(place)], check=False).returncode == 0
    )


def test_a_round_counts_problems_and_weaknesses_apart(five_bugs):
    experiments = [
        {"verdict": "fail", "codes": ["data-replayed", "rng-not-restored"]},
        {"verdict": "fail", "codes": ["nonfinite-accepted"]},
        {"verdict": "pass", "codes": []},
    ]
    problems = [
        {"code": "data-replayed", "weakness": False},
        {"code": "nonfinite-accepted", "weakness": True},
    ]
    one = five_bugs.read({"experiments": experiments, "problems": problems}, "a\nb\n", 1.0, 1, "x.patch")
    assert (one.problems, one.weaknesses, one.lines) == (("data-replayed",), ("nonfinite-accepted",), 2)
    assert one.verdicts == {"fail": 2, "pass": 1} and one.codes["rng-not-restored"] == 1


def test_a_patch_that_nothing_asks_for_makes_the_exit_code_1(five_bugs, monkeypatch, capsys):
    """Every round asks for what the first patch is for, and so not for the second patch."""
    said = {"experiments": [{"verdict": "fail", "codes": ["stale-checkpoint"]}]}
    monkeypatch.setattr(five_bugs, "run", lambda _, __, patch="": five_bugs.read(said, "", 1.0, 1, patch))
    monkeypatch.setattr(sys, "argv", ["five_bugs.py", "--patches", "1"])
    assert five_bugs.main() == 0
    monkeypatch.setattr(sys, "argv", ["five_bugs.py", "--patches", "2"])
    assert five_bugs.main() == 1 and "NOT ASKED FOR" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.launches
def test_the_script_fails_with_its_bugs_and_passes_without_them(five_bugs, place):
    options = ["--launch", "warm", "--no-proof", "-k", "one_rank_mid_epoch"]
    broken = five_bugs.run(place, options)
    (place / "suite.json").rename(place / "before.json")
    assert broken.exit_code == 1 and broken.codes.keys() == BUGS
    for path in five_bugs.patches()[:4]:
        assert five_bugs.asked_by(path) in BUGS
        five_bugs.mend(place, path)
    mended = five_bugs.run(place, options)
    assert (mended.exit_code, mended.verdicts) == (0, {"pass": 1}), mended.text
    # The repair of the random numbers gives the job other ones, and that is no loss.
    compared = [sys.executable, "-m", "chaoskit", "compare", "before.json", "suite.json"]
    for words, code in ((compared, 0), ([*compared[:-2], "suite.json", "before.json"], 1)):
        done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout
        *_, answer = done.stdout.splitlines()
        assert answer.startswith("WORSE" if code else "BETTER: 1 experiment compared: 1 became better"), answer
        assert ("1 pair of references diverges, as train.py was changed" in answer) is (code == 0), answer
