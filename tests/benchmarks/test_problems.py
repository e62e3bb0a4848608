"""benchmarks/problems.py reads stored suites: what a trainer's experiments said, and which problems they come to."""

import sys
from pathlib import Path

import pytest

from chaoskit.engine.result import Result
from chaoskit.engine.run_store import Store
from chaoskit.studies.nights.archive import Archive

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import problems  # noqa: E402


@pytest.fixture
def stored(tmp_path):
    command = ["chaoskit", "run", "--", "torchrun", "-m", "tinymodels.gallery.torn_overwrite", "--out", "{out}"]
    writer = Archive(Store(tmp_path)).begin(command)
    codes = ("torn-checkpoint", "checkpoint-lost", "crash-loop")
    writer.add(Result("test_middle_of_save", "fail", codes=codes, sentences=("It crashed.",)))
    writer.add(Result("test_resume", "fail", codes=("rng-not-restored",), sentences=("Lost.",)))
    writer.add(Result("test_twice", "pass"))
    writer.end()
    return tmp_path


def test_a_trainer_that_is_known_for_one_bug(stored, capsys):
    (row,) = problems.rows(stored)
    assert row.mutant.slug == "torn-overwrite" and len(row.codes) == 4
    assert [one.code for one in row.problems] == ["rng-not-restored", "torn-checkpoint"]
    assert row.misnamed == ("rng-not-restored",)
    assert problems.main([str(stored)]) == 0
    said = capsys.readouterr().out
    assert "4.00 codes before, 2.00 problems after" in said and "torn-overwrite: rng-not-restored" in said


def test_what_may_come_along_is_not_misnamed(tmp_path, capsys):
    """pointer-early is known for crash-loop, and checkpoint-lost may come along."""
    command = ["chaoskit", "run", "--", "torchrun", "-m", "tinymodels.gallery.pointer_early", "--out", "{out}"]
    writer = Archive(Store(tmp_path)).begin(command)
    writer.add(Result("test_middle_of_save", "fail", codes=("checkpoint-lost",), sentences=("It is gone.",)))
    writer.add(Result("test_resume", "fail", codes=("rng-not-restored",), sentences=("Lost.",)))
    writer.end()
    (row,) = problems.rows(tmp_path)
    assert (row.misnamed, row.along) == (("rng-not-restored",), ("checkpoint-lost",))
    assert problems.main([str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "not what the trainer is known for: pointer-early: rng-not-restored" in said
    assert "may come along: pointer-early: checkpoint-lost" in said


def test_an_empty_store_is_said(tmp_path, capsys):
    assert problems.main([str(tmp_path)]) == 1 and "no suite" in capsys.readouterr().err
