"""Jobs that hang are ended soon, and jobs that are slow but alive run to their end. Real jobs, and less patience than
usual."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaoskit import Job, checks, faults
from chaoskit.engine import hang_watch
from chaoskit.engine.runner import Runner
from chaoskit.errors import ReferenceFailed

TRAINER = Path(__file__).parents[1] / "trainers" / "waiting.py"


class Phases(list):
    def phase(self, text):
        self.append(text)


@pytest.fixture
def runner(shared_store, monkeypatch):
    for name, value in (("FLOOR", 2.0), ("FLOOR_WITHOUT_REFERENCE", 8.0), ("PACE", 0.5), ("TIMEOUT_MORE", 0.0)):
        monkeypatch.setattr(hang_watch, name, value)
    return Runner(shared_store, launch="warm", progress=Phases())


def job(resumed, **options):
    return Job(str(TRAINER), ["--out", "{out}", "--resumed", resumed], **options)


@pytest.mark.launches
def test_ranks_that_wait_for_each_other_are_ended_before_the_deadline(runner):
    run = runner.run(job("deadlock"), faults.kill(rank=1).at_step(8))
    verdict = next(one for one in run.judge(checks.completed()) if one.check == "completed")
    assert verdict.codes == ("hang",) and run.history.end == "hang" and run.history.launches[-1].cause == "hang"
    assert run.history.quiet >= 2.0 and {0, 1} <= run.history.stacks.keys()
    assert verdict.evidence["waits"]["1"]["collective"] == "barrier"
    told = [text for text in runner.progress if "nothing new" in text]
    assert told and "barrier (waiting.py" in told[-1]


@pytest.mark.parametrize(
    "resumed",
    [
        pytest.param("evaluate", marks=pytest.mark.launches),
        pytest.param("prepare", marks=pytest.mark.slow),
        pytest.param("write", marks=pytest.mark.slow),
    ],
)
def test_a_rank_that_is_slow_but_alive_is_waited_for(runner, resumed):
    run = runner.run(job(resumed), faults.kill(rank=1).at_step(8))
    run.verify(checks.completed(), checks.matches_reference())
    assert any("nothing new" in text for text in runner.progress), "it was not slow"


@pytest.mark.launches
def test_a_reference_that_hangs_says_so_and_fails(runner):
    with pytest.raises(ReferenceFailed, match="hung, after") as caught:
        runner.reference(job("forever", timeout=600.0))
    assert "rank 1 stood at" in str(caught.value) and any("nothing new" in text for text in runner.progress)
