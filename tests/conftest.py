"""What tests share: one store, so that a reference is made once for all of them; Hypothesis without a clock."""

import gc
import os
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from chaoskit.engine.run_store import Store
from chaoskit.environments.launch.warm import WarmLauncher
from tests.probe.started import MODULES
from tests.warm_modes import teach

# The jobs are tiny: more threads than one would only spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Machines are shared: how long an example takes says nothing.
settings.register_profile("chaoskit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("chaoskit")


def pytest_addoption(parser):
    about = "the Python of the tests that need another torch than ours (make upgrade)"
    parser.addoption("--upgrade-to", metavar="PYTHON", help=about)


def pytest_collection_finish():
    """Four thousand collected tests stay to the end: no garbage collection needs to look at them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def parents(request):
    """The warm parents are there for as long as the tests are, for every process that a test starts."""
    if any(item.get_closest_marker(mark) for item in request.session.items for mark in ("launches", "slow")):
        WarmLauncher(MODULES, threads="1").prepare(os.environ, os.getcwd())


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory, worker_id):
    base = tmp_path_factory.getbasetemp()
    store = Store((base if worker_id == "master" else base.parent) / "chaos")
    teach(store)
    return store


@pytest.fixture
def until() -> Callable[..., None]:
    """Wait until something holds; fails after 10 seconds."""

    def wait(condition: Callable[[], object], *, timeout: float = 10.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, "it never came to hold"
            time.sleep(0.01)

    return wait
