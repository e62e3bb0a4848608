"""State belongs to a name, in real jobs: the groups of an optimizer are built in another way after the resume."""

import sys
from pathlib import Path

import pytest

from chaoskit import Job, checks, faults
from chaoskit.analysis.diagnosis import diagnose
from chaoskit.engine.runner import Runner

TRAINER = Path(__file__).parents[1] / "trainers" / "grouped.py"
CLAIMS = (
    checks.completed(), checks.resumed_from_last_valid(), checks.state_restored(), checks.matches_reference(),
    checks.checkpoints_faithful(), checks.lr_schedule_kept(), checks.same_data(),
)  # fmt: skip
#: Whose state a parameter is given by position.
GIVEN = {
    "order": ("a.weight", "c.weight"), "moved": ("b.weight", "c.weight"), "swapped": ("a.weight", "b.weight"),
    "late": ("c.weight", "d.weight"), "tied": ("a.bias", "d.bias"), "second": ("a.weight", "c.weight"),
}  # fmt: skip


@pytest.fixture
def resumed(shared_store):
    """A job that is killed and resumes; the same job that loads by name is the one whose flags say so."""

    def run(way, *flags):
        job = Job.from_command([sys.executable, str(TRAINER), "--out", "{out}", "--way", way, *flags])
        done = Runner(shared_store, launch="warm").run(job, faults.kill(rank=0).at_step(13))
        done.judge(*CLAIMS)
        return done

    return run


@pytest.mark.launches
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=() if way == "order" else pytest.mark.slow) for way in GIVEN]
)
def test_state_that_is_loaded_by_position(resumed, way):
    run = resumed(way)
    assert {code for verdict in run.verdicts for code in verdict.codes} == {"optimizer-not-restored"}
    (finding,) = diagnose(run.case).findings
    assert dict(finding.given)[GIVEN[way][0]] == GIVEN[way][1]


@pytest.mark.launches
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=() if way == "order" else pytest.mark.slow) for way in GIVEN]
)
def test_state_that_is_loaded_by_name(resumed, way):
    run = resumed(way, "--by-name")
    assert not [verdict.sentence for verdict in run.verdicts if verdict.codes]
