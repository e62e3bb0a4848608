"""benchmarks/breaks.py forgets no check, no fault and no launcher, and each of its breaks is one."""

import ast
import sys
from pathlib import Path

import pytest

from chaoskit import checks, faults

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from breaks import chosen, read_options, table  # noqa: E402
from breaks_catalogue import breaks  # noqa: E402
from breaks_tests import ranked, test_files  # noqa: E402

test_files.__test__ = False

#: It looks at nothing and does nothing: there is nothing to break.
UNBREAKABLE = {"noop"}


@pytest.fixture(scope="module")
def found():
    return breaks(ROOT)


def made_by(found, kind):
    return {name for one in found if one.kind == kind for name in one.names}


@pytest.mark.parametrize("kind", ["check always passes", "check never passes", "check cannot speak"])
def test_every_check_is_broken_in_every_way(found, kind):
    assert {maker.__name__ for maker in checks.REGISTRY.values()} <= made_by(found, kind)


def test_every_check_that_can_fail_is_kept_from_it(found):
    missing = {maker.__name__ for maker in checks.REGISTRY.values()} - made_by(found, "check never fails")
    assert missing == {"controls_agree", "faults_took_effect"}, "they say pass or inconclusive only"


@pytest.mark.parametrize(
    "kind", ["fault claims to be observed", "fault is never observed", "fault does nothing when applied"]
)
def test_every_fault_is_broken_in_every_way(found, kind):
    missing = {maker.__name__ for maker in faults.REGISTRY.values()} - made_by(found, kind)
    assert missing == UNBREAKABLE


def test_every_launcher_is_broken_in_every_way(found):
    kinds = {one.kind for one in found if one.group == "launchers"}
    for launcher in ("ColdLauncher", "WarmLauncher"):
        own = {one.kind for one in found if one.owner == launcher}
        assert own == kinds - {"launcher forgets who survived", "launcher does not close"}
    several = [one for one in found if one.kind == "launcher forgets who survived"]
    assert len(several) == 4, "the launch of one command, in a container, on several nodes, and by a queue"


def test_each_break_changes_the_sources_and_leaves_them_readable(found):
    assert len({one.id for one in found}) == len(found)
    for one in found:
        lines = (ROOT / one.file).read_text().splitlines(keepends=True)
        changed = "".join([*lines[: one.line], one.text, *lines[one.line :]])
        names = [getattr(node, "name", "") for node in ast.parse(changed).body]
        assert one.owner in names and "_broken" in one.text and one.text.rstrip().endswith(" = _broken"), one.id


def test_every_break_has_tests_that_are_about_it(found):
    files = test_files(ROOT)
    for one in found:
        assert ranked(files, one, {}), one.id
    first = {one.owner: ranked(files, one, {})[:1] for one in found}
    assert first["StateRestored"] == ["tests/checks/test_state_restored.py"]


def test_the_table_counts_what_was_caught_and_lists_what_was_not():
    one = {
        "kind": "check always passes",
        "owner": "A",
        "names": ["A", "a"],
        "test": "",
        "files": 3,
        "seconds": 1.0,
    }
    told = [
        {**one, "result": "caught", "test": "t::a"},
        {**one, "result": "hung"},
        {**one, "result": "not caught"},
    ]
    said = table(told, commit="abc")
    assert "| check always passes | 3 | 2 (1) | 1 |" in said and "| all | 3 | 2 (1) | 1 |" in said
    assert "- check always passes: `A` (a): not caught by 3 selected files" in said


def test_a_sample_is_the_same_again(found, monkeypatch):
    monkeypatch.setattr("breaks.breaks", lambda root: found)
    one, two, other = (chosen(read_options(["--sample", "3", "--seed", seed])) for seed in "778")
    assert one == two != other and len(one) == len(other) == 3
    assert chosen(read_options(["--only", "launchers"])) == [one for one in found if one.group == "launchers"]
