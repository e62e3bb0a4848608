"""Why an experiment is run whole, before anything is launched for it."""

import pytest

from chaoskit import Job, environments, faults
from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import STEPS
from chaoskit.engine.windows.why_whole import begin_before, why_whole
from tests.history_writer import Writer, truth

EQUAL = Writer(every=10).case().reference
KILL = faults.kill(rank=1).at_step(25)


def drawn(name, rank, position):
    return f"{truth(name, rank, position)}.{next(TIMES)}" if name == "rng.torch" else truth(name, rank, position)


TIMES = iter(range(10**6))


def reason(*schedule, of=EQUAL, environment="local", storage="", **job):
    resolved = [
        type(fault)(fault.action, fault.trigger.resolve(of)) if fault.trigger is not None else fault
        for fault in schedule
    ]
    return why_whole(Job("train.py", **job), resolved, of, environment=environment, storage=storage)


@pytest.mark.parametrize(
    ("fault", "before"),
    [
        (KILL, 25),
        (faults.kill(rank=0).during_save(2), 20),
        (faults.kill(rank=0).after_save(3), 30),
        (faults.kill(rank=0).between_writes(1), 10),
        (faults.kill(rank=0).at_random(seed=3), None),
    ],
)
def test_a_fault_whose_step_is_known(fault, before):
    assert reason(fault) == reason(fault, faults.file_bitflip().before_relaunch()) == ""
    resolved = type(fault)(fault.action, fault.trigger.resolve(EQUAL))
    assert before is None or begin_before([resolved], EQUAL) == before


@pytest.mark.parametrize(
    "fault",
    [
        faults.kill(rank=0).after(1.0),
        faults.kill(rank=0).at_start(),
        faults.kill(rank=0).before_relaunch(),
        faults.kill(rank=0).during_save(99),
    ],
)
def test_a_fault_whose_step_nobody_knows_has_a_window_from_the_first_step_on(fault):
    assert reason(fault) == reason(fault, KILL) == reason(KILL, fault) == ""
    resolved = type(fault)(fault.action, fault.trigger.resolve(EQUAL))
    assert begin_before([resolved, KILL], EQUAL) is None and begin_before([KILL, resolved], EQUAL) == 25


def test_a_schedule():
    assert reason(*faults.kill(rank=0).every("1s", during="9s")) == "a schedule strikes until the training ends"


def test_the_others():
    assert reason(KILL, storage="recorded").startswith("the writes of the job are recorded")
    assert reason(KILL, relaunch_command=["resume.sh"]) == "the job is relaunched by another command"
    assert reason(KILL, log_regex=r"step (?P<step>\d+) loss (?P<loss>\S+)") == "the job's log is judged, too"
    assert reason(KILL, nnodes="1:2") == "the job runs on a range of nodes"
    assert reason(storage="watched") and not reason(faults.disk_full(after_bytes=9, launches=0).at_step(30))


def test_without_a_fault_a_save_and_some_steps_are_left():
    assert begin_before([], EQUAL) == min(EQUAL.steps - STEPS, EQUAL.saves[-1])


def test_a_job_that_is_not_the_same_each_time():
    differ = [Writer(every=10, tell=drawn).launch().live(ends=True).exit(0).end().history() for _ in range(2)]
    assert reason(KILL, of=Reference.of(differ)) == "the job is not deterministic"
    clock = [Writer(every=every).launch().live(ends=True).exit(0).end().history() for every in (10, 15)]
    assert reason(KILL, of=Reference.of(clock)) == "the job does not save at the same steps each time"


@pytest.mark.parametrize("name", ["docker", "kubernetes", "slurm"])
def test_an_environment_on_other_machines(name):
    traits = environments.environment(name).traits
    whole = reason(KILL, environment=name)
    assert bool(whole) == (not (traits.one_clock and traits.files_here and traits.shares_files))
