"""What is stored of the windows of a job."""

import json

import pytest

from chaoskit.engine.windows import earned
from chaoskit.errors import StoreError


@pytest.fixture
def source(tmp_path):
    made = tmp_path / "abc" / "control-1"
    (made / "events").mkdir(parents=True)
    (made / "events" / "rank-0-0-0-7.jsonl").write_text("{}\n")
    return made


def test_it_is_read_as_it_was_kept(source):
    made = earned.keep(source, ["one", "two"], why="")
    found = earned.load(source.parent, ["one", "two"])
    assert found == made and found.source == source and (found.why, found.audits) == ("", ())
    found.verify()


def test_it_applies_to_its_controls_alone(source):
    earned.keep(source, ["one", "two"], why="")
    assert earned.load(source.parent, ["one", "three"]) is None
    assert earned.load(source, ["one", "two"]) is None


def test_a_record_that_was_altered_is_noticed(source):
    made = earned.keep(source, ["one", "two"], why="")
    (source / "events" / "rank-0-0-0-7.jsonl").write_text("[]\n")
    with pytest.raises(StoreError, match="altered since"):
        made.verify()


def test_audits_add_up_and_giving_up_stays(source):
    made = earned.keep(source, ["one", "two"], why="")
    made.add_audit("test_a")
    made.add_audit("test_b")
    made.add_audit("test_a")
    made.give_up("it differs")
    made.add_audit("test_c")
    found = earned.load(source.parent, ["one", "two"])
    assert (found.why, found.audits) == ("it differs", ("test_a", "test_b", "test_c"))


def test_nothing_is_said_of_the_windows_of_later_controls(source):
    old = earned.keep(source, ["one", "two"], why="")
    earned.keep(source, ["three", "four"], why="")
    old.give_up("it differs")
    assert earned.load(source.parent, ["three", "four"]).why == ""


def test_a_source_elsewhere_is_not_followed(source, tmp_path):
    earned.keep(source, ["one"], why="")
    path = source.parent / earned.RESULT
    path.write_text(json.dumps({**json.loads(path.read_text()), "source": "../../other"}))
    assert earned.load(source.parent, ["one"]).source == source.parent / "other"
