"""States that a job cannot tell apart take one visit, unless the job shows that it can tell them apart after all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaoskit.board import TRIED, Board
from chaoskit.crash import crash_states
from chaoskit.visits import Answer
from tests.crash.script import Script

#: What a job looks at that only reads what was published.
LOOKS = frozenset({("names", ""), ("content", "old/weights"), ("content", "newer")})


@pytest.fixture
def states(tmp_path):
    script = Script(tmp_path)
    script.mkdir("old")
    script.create("old/weights")
    script.write("old/weights", b"good")
    first = len(script.operations)
    script.mkdir("new")
    script.create("new/weights")
    for at in range(20):
        script.write("new/weights", b"x", offset=at)
    script.rename("new", "newer")
    return crash_states(script.journal(), first=first, last=len(script.operations), profiles=("kill",)).states


def resumed(state, *, fickle=False):
    """Resumes from the newest that was published; if fickle, from another one by what it never seems to look at."""
    base = 2 if state.tree.find("newer") else 1
    return Answer("resumed", base + 10 * (fickle and state.crashes[0].done % 2), looks=LOOKS)


def explore(board, answer):
    while (index := board.take()) is not None:
        board.put(index, answer(board.states[index]))
    return board.answers()


def test_one_visit_for_all_that_look_alike(states):
    board = Board(states, most=None, seed=0)
    answers = explore(board, resumed)
    assert len(answers) == len(states) == 24
    # No directory, a directory that is being filled, one that was published; and those that were tried out.
    assert len(board.visits) == 3 + TRIED and (board.tried, board.unlike) == (TRIED, 0)
    assert {index: answer.base for index, (answer, _) in answers.items()} == {
        index: resumed(state).base for index, state in enumerate(states)
    }
    assert sum(seen for _, seen in answers.values()) == len(board.visits)


def test_a_job_that_tells_them_apart_is_shown_all(states):
    board = Board(states, most=None, seed=0)
    answers = explore(board, lambda state: resumed(state, fickle=True))
    assert board.unlike > 0
    right = {index: resumed(state, fickle=True).base for index, state in enumerate(states)}
    wrong = [index for index, (answer, _) in answers.items() if answer.base != right[index]]
    assert not wrong


def test_no_more_visits_than_were_asked_for(states):
    board = Board(states, most=2, seed=0)
    answers = explore(board, lambda state: replace(resumed(state), looks=frozenset({("content", "")})))
    assert len(answers) == len(board.visits) == 2
