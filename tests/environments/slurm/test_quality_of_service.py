"""A real Slurm with accounting, where a job of a higher QOS preempts that of a run."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from chaoskit.environments.slurm.environment import SlurmEnvironment
from tests.environments.slurm.test_batch_job_faults import ended
from tests.slurm_cluster.accounting import HIGH, NORMAL, AccountedCluster, why_not
from tests.slurm_cluster.cluster import PARTITION, processes_of
from tests.users import must_have

pytestmark = [pytest.mark.launches, pytest.mark.slow]


@pytest.fixture
def accounted(request, monkeypatch):
    """A cluster of its own; nothing is left of it."""
    must_have(request, why_not())
    with tempfile.TemporaryDirectory(prefix="chaoskit-slurm-") as directory:
        with AccountedCluster(Path(directory) / "cluster", nodes=1) as cluster:
            for name in ("SLURM_CONF", "PATH"):
                monkeypatch.setenv(name, cluster.variables[name])
            yield cluster
            assert cluster.queued() == []
        assert processes_of(cluster) == []


def test_a_job_of_a_higher_qos_preempts_it_and_ends(accounted, place, tell, until):
    code = f"import signal; signal.signal(15, signal.SIG_IGN); {tell[-1]}"
    with SlurmEnvironment(place) as env:
        env.launch(0, [*tell[:-1], code])
        until(lambda: (place.run_dir / "logs" / "launch-0.log").read_text(), timeout=60)
        with pytest.raises(LookupError, match=r"Slurm does not take the job: .*nvalid qos"):
            env.suspend(qos="nobody")
        evidence = env.suspend(qos=HIGH)
        shown = accounted.command("squeue", "-h", "-o", "%i %q %P").splitlines()
        jobs = {str(evidence["job"]): NORMAL, str(evidence["preempted_by"]): HIGH}
        assert sorted(shown) == sorted(f"{number} {qos} {PARTITION}" for number, qos in jobs.items())
        assert ended(env).code == -15
        assert env.is_suspended()
        env.resume()
        env.launch(1, tell)
        assert accounted.queued() == [str(evidence["job"])]
