"""A store, and verdicts to keep in it."""

import pytest

from chaoskit.engine.run_store import Store
from chaoskit.verdict import failed, passed

GOOD = passed("completed", "The job ended.")
BAD = failed("state_restored", "It was not.", "rng-not-restored", steps=[1, 2])


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / ".chaoskit")


@pytest.fixture
def run_dir(store):
    return store.new_run(job={"script": "train.py"}, experiment="x", schedule=[{"text": "kill rank 1"}])


def judge(store, run_dir, *verdicts):
    store.write_verdicts(run_dir, checks=[{"name": v.check} for v in verdicts], verdicts=verdicts)
