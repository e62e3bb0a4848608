"""The cases of older versions: each names what it needs, and the page says what was measured. Needs no framework."""

import sys
from pathlib import Path

import pytest

from chaoskit.errors import CODES

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import older  # noqa: E402

CASES = older.cases()
EXPERIMENTS = "".join(path.read_text() for path in (ROOT / "experiments").glob("test_*.py"))


def answers(case, version):
    """What chaoskit says where all is as it has to be."""
    return {
        name: {"verdict": "fail" if codes else "pass", "codes": codes, "sentences": [f"{name} of {version}"]}
        for name, codes in case.expected(version).items()
    }


def test_there_are_two_at_least():
    assert len(CASES) >= 2


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_whole(case):
    compile((older.CASES / case.name / "train.py").read_text(), "train.py", "exec")
    repository, _, number = case.report.partition("#")
    assert repository.count("/") == 1 and number.isdigit()
    assert case.broken != case.fixed and not any(wish.startswith(f"{case.package}==") for wish in case.requires)
    assert any(wish.startswith("torch==") for wish in case.requires)
    assert {"{script}", "{out}"} <= set(case.command)
    assert "test_control" in case.experiments and not case.codes.get("test_control")
    for name in case.experiments:
        assert f"def {name}(" in EXPERIMENTS
    for table in (case.codes, case.left):
        assert set(table) <= set(case.experiments)
        assert all(codes and set(codes) <= set(CODES) for codes in table.values())
    assert case.codes
    assert bool(case.left) == bool(case.left_why)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_not_as_it_has_to_be_is_said(case):
    told = answers(case, case.broken)
    assert not list(older.mistakes(case, case.broken, told))
    name = next(iter(case.codes))
    told[name]["codes"] = [*told[name]["codes"], "hang"]
    assert "hang" in "".join(older.mistakes(case, case.broken, told))
    del told["test_control"]
    assert len(list(older.mistakes(case, case.broken, told))) == 2
    assert len(list(older.mistakes(case, case.fixed, answers(case, case.broken)))) >= 1


def test_the_page_has_each_cell_and_its_command():
    measured = {case.name: {version: answers(case, version) for version in case.versions} for case in CASES}
    text = older.page(CASES, measured)
    for case in CASES:
        assert case.report in text and case.where in text
        assert all(case.typed(version) in text for version in case.versions)
        assert all(f"`{code}`" in text for codes in case.codes.values() for code in codes)


def test_the_page_that_is_here_is_of_these_cases():
    text = older.PAGE.read_text()
    assert "not measured" not in text
    for case in CASES:
        assert all(f"{case.package} {version}" in text for version in case.versions)
        assert all(f"`{code}`" in text for codes in case.codes.values() for code in codes)
