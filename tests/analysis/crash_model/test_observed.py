"""What was looked at decides which states are the same to a job, and nothing else does."""

from __future__ import annotations

import pytest

from chaoskit.analysis.crash_model import crash_states
from chaoskit.analysis.crash_model.observed import Access, ObservedState
from tests.analysis.crash_model.script import Script


@pytest.fixture
def states(tmp_path):
    """Two publications by rename of which the second may be torn: every prefix of it."""
    script = Script(tmp_path)
    script.mkdir("old")
    script.create("old/weights")
    script.write("old/weights", b"good")
    first = len(script.operations)
    script.mkdir("new")
    script.create("new/weights")
    script.write("new/weights", b"bet")
    script.write("new/weights", b"ter", offset=3)
    script.rename("new", "newer")
    journal = script.journal()
    found = crash_states(journal, first=first, last=len(script.operations), profiles=("kill",))
    return {state.cause.after - first: state.tree for state in found.states}


@pytest.mark.parametrize(
    "looks, same",
    [
        # By the prefix that was visited: which prefixes look the same.
        ((2, [("content", "old/weights")]), [0, 1, 2, 3, 4, 5]),
        ((2, [("name", "newer")]), [0, 1, 2, 3, 4]),
        ((5, [("name", "newer"), ("content", "newer/weights")]), [5]),
        ((3, [("name", "new/weights")]), [2, 3, 4]),
        ((3, [("size", "new/weights")]), [3]),
        ((1, [("names", "")]), [1, 2, 3, 4]),
        ((1, [("names", "new")]), [1]),
        ((1, [("size", "new")]), [1, 2, 3, 4]),
        ((4, [("content", "")]), [4]),
        ((0, []), [0, 1, 2, 3, 4, 5]),
    ],
)
def test_states_that_differ_elsewhere_are_the_same(states, looks, same):
    visited, seen = looks
    sight = ObservedState.of(states[visited], [Access(*look) for look in seen])
    assert [after for after, tree in sorted(states.items()) if sight.fits(tree)] == same


def test_a_mode_is_a_part_of_what_is_seen(tmp_path):
    script = Script(tmp_path)
    script.create("file")
    script.chmod("file", 0o600)
    found = {s.cause.after: s.tree for s in crash_states(script.journal(), first=1, last=2, profiles=("kill",))}
    assert ObservedState.of(found[1], [Access("name", "file")]).fits(found[2])
    assert not ObservedState.of(found[1], [Access("size", "file")]).fits(found[2])


def test_where_a_file_has_two_names_nothing_is_alike(tmp_path):
    script = Script(tmp_path)
    script.create("one")
    script.link("one", "other")
    script.write("other", b"through the other name")
    found = {s.cause.after: s.tree for s in crash_states(script.journal(), first=1, last=3, profiles=("kill",))}
    sight = ObservedState.of(found[1], [Access("name", "one")])
    assert sight.fits(found[1]) and not sight.fits(found[2]) and not sight.fits(found[3])
