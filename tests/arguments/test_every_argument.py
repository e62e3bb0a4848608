"""Every argument of every public callable, with every wrong value: what does not fit is refused by the argument's name,
and what is accepted fits, and comes back from what is stored. Calls and arguments are read from registries and
signatures.
"""

import pytest

from chaoskit import Job, checks, faults
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Run, Runner
from chaoskit.errors import UsageError
from tests.arguments.calls import every_call
from tests.arguments.survey import GOOD, endings

JOB = Job.from_command(["true", "{out}"])


@pytest.mark.parametrize("call", list(every_call()), ids=lambda call: call.name)
def test_no_value_of_an_argument_gives_another_error_than_one_that_names_it(call):
    wrong = [str(ending) for ending in endings(call) if ending.how not in GOOD]
    assert not wrong, "\n".join(wrong)


def runner():
    return Runner(Store("/nowhere"))


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        (lambda: runner().run("x"), "chaos.run: job must be a Job, as Job('train.py', ['--out', '{out}']), not 'x'"),
        (lambda: runner().run(JOB, "kill"),
         "chaos.run: faults: must be of chaoskit.faults, as faults.kill(rank=1).at_step(25), not 'kill'"),
        (lambda: runner().run(JOB, faults.noop), "chaos.run: faults: faults.noop needs parentheses: faults.noop()"),
        (lambda: runner().run(JOB, faults.kill(rank=0).every("1s", during="3s")),
         "chaos.run: faults: give them one by one, not as a tuple: chaos.run(*faults)"),
        (lambda: judged(checks.completed),
         "Run.verify: checks: checks.completed needs parentheses: checks.completed()"),
        (lambda: judged([checks.completed()]),
         "Run.verify: checks: give them one by one, not as a list: Run.verify(*checks)"),
        (lambda: Job("train.py", env={"A": 1}), "Job: env['A'] must be a string, which variables are, not 1"),
        (lambda: Job("train.py", nproc_per_node=1.5), "Job: nproc_per_node must be a whole number from 1, not 1.5"),
        (lambda: Job("train.py", timeout=float("nan")),
         "Job: timeout must be a positive number up to 320000000, not nan"),
        (lambda: Job("train.py", args=(word for word in ("a", "b"))), "Job: args must be a list of strings, not <gen"),
        (lambda: faults.kill(rank=0).every("1ms", during="1d"), "every: interval must be a time such as"),
        (lambda: faults.kill(rank=0).every(0.001, during="1d"), "every: interval=0.001 fits into during=1d more than"),
    ],
)  # fmt: skip
def test_a_slip_gets_the_line_that_was_meant(slip, meant):
    with pytest.raises(UsageError) as raised:
        slip()
    assert str(raised.value).startswith(meant)


def judged(*given):
    return Run("1", Store("/nowhere").runs / "1", JOB, Store("/nowhere"), None).verify(*given)


def test_paths_are_texts_to_a_job(tmp_path):
    made = Job(tmp_path / "train.py", ["{out}"], cwd=tmp_path)
    assert (made.script, made.cwd) == (str(tmp_path / "train.py"), str(tmp_path))


def test_a_quota_on_all_files_comes_back_from_its_schedule():
    made = faults.quota(files="*", seconds=2).at_step(3)
    assert faults.from_json(made.to_json()) == made
