"""What tests share: one store, so that a reference is made once for all of them; Hypothesis without a clock."""

import gc
import os
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from chaoskit.engine.run_store import Store
from chaoskit.environments.launch.warm import WarmLauncher
from tests.docker_images.fixtures import build_image, docker_image  # noqa: F401
from tests.kubernetes_server.fixtures import (  # noqa: F401
    api_server,
    cluster,
    crds,
    machines,
    mesh_in_pods,
    real_cluster,
)
from tests.probe.started import MODULES
from tests.slurm_cluster.fixtures import slurm, slurm_daemons  # noqa: F401
from tests.warm_modes import teach

# The jobs are tiny: more threads than one would only spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")

#: Tests that take half a minute or more alone on two cores, the longest first; files, or the beginnings of names.
LONGEST = (
    "tests/test_ten_minutes.py::test_whoever", "tests/environments/tcp_hosts", "tests/frameworks/test_frameworks.py",
    "tests/kinds", "tests/environments/netns/test_experiments.py", "tests/benchmarks/test_smallest.py::test_it_runs",
    "tests/engine/test_launch_mode.py", "tests/environments/fusefs/test_storage.py::test_all",
    "tests/cli/test_prove.py", "tests/cli/test_accepted_loss.py",
    "tests/test_readme.py::test_the_tutorial_fails", "tests/test_five_bugs.py",
    "tests/studies/upgrade", "tests/cli/test_battery.py", "tests/environments/netns/test_studies_on_hosts.py",
    "tests/environments/netns/test_ordinary_user.py", "tests/environments/netns/test_polling_daemon.py",
    "tests/studies/crash_states/test_explore.py",
    "tests/environments/docker", "tests/environments/launch/test_rank_modules.py", "tests/test_gallery.py",
    "tests/engine/test_harness_death.py", "tests/engine/test_hangs.py", "tests/faults",
)  # fmt: skip
END = len(LONGEST)

# Machines are shared: how long an example takes says nothing.
settings.register_profile("chaoskit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("chaoskit")


def pytest_addoption(parser):
    about = "the Python of the tests that need another torch than ours (make upgrade)"
    parser.addoption("--upgrade-to", metavar="PYTHON", help=about)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """The longest begin first: whichever worker ends last then has short ones left, and nobody waits for it."""
    items.sort(key=lambda item: next((at for at, name in enumerate(LONGEST) if item.nodeid.startswith(name)), END))


def pytest_collection_finish():
    """Four thousand collected tests stay to the end: no garbage collection needs to look at them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def parents(request):
    """The warm parents are there for as long as the tests are, for every process that a test starts. Each test asks
    for them, because a process lets go of the parents that it has not used for longest."""
    if any(request.node.get_closest_marker(mark) for mark in ("launches", "slow", "exhaustive")):
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
