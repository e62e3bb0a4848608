"""States that a job cannot tell apart take one visit, unless the job shows that it can tell them apart after all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaoskit.analysis.crash_model import crash_states
from chaoskit.studies.crash_states.resume_trial import Answer
from chaoskit.studies.crash_states.scheduler import TRIED, TrialScheduler
from tests.analysis.crash_model.script import Script

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
    return Answer("resumed", base + 10 * (fickle and state.crashes[0].done % 2), accesses=LOOKS)


def explore(scheduler, answer):
    while (index := scheduler.take()) is not None:
        scheduler.put(index, answer(scheduler.states[index]))
    return scheduler.answers()


def test_one_visit_for_all_that_look_alike(states):
    scheduler = TrialScheduler(states, most=None, seed=0)
    answers = explore(scheduler, resumed)
    assert len(answers) == len(states) == 24
    # No directory, a directory that is being filled, one that was published; and those that were tried out.
    assert len(scheduler.trials) == 3 + TRIED and (scheduler.tried, scheduler.unlike) == (TRIED, 0)
    assert {index: answer.base for index, (answer, _) in answers.items()} == {
        index: resumed(state).base for index, state in enumerate(states)
    }
    assert sum(seen for _, seen in answers.values()) == len(scheduler.trials)


def test_a_job_that_tells_them_apart_is_shown_all(states):
    scheduler = TrialScheduler(states, most=None, seed=0)
    answers = explore(scheduler, lambda state: resumed(state, fickle=True))
    assert scheduler.unlike > 0
    right = {index: resumed(state, fickle=True).base for index, state in enumerate(states)}
    wrong = [index for index, (answer, _) in answers.items() if answer.base != right[index]]
    assert not wrong


def test_no_more_visits_than_were_asked_for(states):
    scheduler = TrialScheduler(states, most=2, seed=0)
    answers = explore(scheduler, lambda state: replace(resumed(state), accesses=frozenset({("content", "")})))
    assert len(answers) == len(scheduler.trials) == 2
