"""PyTorchJobs: their pods and services, what restarts, and when they are over."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.launches
FOREVER = "exec sleep 1000"


class PyTorchJobs:
    """The PyTorchJobs of a test, each of Workers, or of a Master and Workers."""

    def __init__(self, custom, pods, where):
        self.custom, self.pods, self._where = custom, pods, where

    def make(self, name, script, *, master=False, workers=2, policy="OnFailure", **spec):
        container = {"name": "pytorch", "image": self.pods.image, "command": ["sh", "-c", script]}
        template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
        replicas = {"Worker": {"replicas": workers, "restartPolicy": policy, "template": template}}
        replicas |= {"Master": {"replicas": 1, "restartPolicy": policy, "template": template}} if master else {}
        body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}}
        body["spec"] = {"pytorchReplicaSpecs": replicas, **spec}
        return self.custom.create_namespaced_custom_object(**self._where, body=body)

    def status(self, name):
        return self.custom.get_namespaced_custom_object(**self._where, name=name).get("status") or {}

    def holding(self, name):
        """The messages of the conditions that hold, by their types."""
        conditions = self.status(name).get("conditions") or ()
        return {one["type"]: one["message"] for one in conditions if one["status"] == "True"}

    def holds(self, name, kind):
        """Wait until a condition holds; its message."""
        self.pods.until(lambda: kind in self.holding(name), timeout=90)
        return self.holding(name)[kind]

    def change(self, name, **spec):
        self.custom.patch_namespaced_custom_object(**self._where, name=name, body={"spec": spec})

    def running(self, count):
        """Wait until so many pods run; gives their uids by their names."""

        def found():
            pods = self.pods.core.list_namespaced_pod(self.pods.namespace).items
            return {one.metadata.name: one.metadata.uid for one in pods if one.status.phase == "Running"}

        self.pods.until(lambda: len(found()) == count, timeout=90)
        return found()


@pytest.fixture
def jobs(custom, pods, where, real_cluster):
    real_cluster.kubelet.back_off = 0.1
    return PyTorchJobs(custom, pods, where("kubeflow.org", "v1", "pytorchjobs"))


def test_each_pod_has_a_service_of_its_name_and_is_told_of_the_others(jobs, pods):
    jobs.make("one", "env", master=True, workers=1, nprocPerNode="4")
    assert jobs.holds("one", "Succeeded") == "PyTorchJob one is successfully completed."
    pods.phase("one-worker-0", "Succeeded")
    told = pods.log("one-worker-0").splitlines()
    for line in ("MASTER_ADDR=one-master-0", "PET_MASTER_PORT=23456", "PET_NNODES=2", "PET_NODE_RANK=1", "RANK=1",
                 "WORLD_SIZE=8", "PET_NPROC_PER_NODE=4"):  # fmt: skip
        assert line in told, told
    labels = pods.read("one-master-0").metadata.labels
    prefix = "training.kubeflow.org"
    assert {key: labels[f"{prefix}/{key}"] for key in ("job-name", "replica-type", "replica-index", "job-role")} == {
        "job-name": "one", "replica-type": "master", "replica-index": "0", "job-role": "master",
    }  # fmt: skip
    service = pods.core.read_namespaced_service("one-worker-0", pods.namespace)
    assert service.spec.selector[f"{prefix}/replica-index"] == "0" and service.spec.ports[0].port == 23456
    assert jobs.status("one")["replicaStatuses"]["Master"]["succeeded"] == 1


def test_elastic_workers_are_told_where_they_meet_and_one_that_ends_well_is_enough(jobs, pods):
    script = "env; case $(hostname) in *-1) exec sleep 1000;; esac"
    jobs.make("one", script, elasticPolicy={"maxRestarts": 3, "rdzvId": "x"})
    assert jobs.holds("one", "Succeeded").endswith("/one successfully completed.")
    told = pods.log("one-worker-0").splitlines()
    for line in ("PET_RDZV_ENDPOINT=one-worker-0:23456", "PET_RDZV_BACKEND=c10d", "PET_NNODES=2:2", "PET_RDZV_ID=x",
                 "PET_MAX_RESTARTS=3", "PET_NPROC_PER_NODE=auto"):  # fmt: skip
        assert line in told, told
    # Pods of a job that is over are left as they are: the other one may come up only now, and stays.
    pods.until(lambda: pods.read("one-worker-1").status.phase == "Running")


def test_the_kubelet_restarts_the_container_of_a_pod_that_failed(jobs, pods):
    jobs.make("one", "exit 1", workers=1, runPolicy={"backoffLimit": 2})
    message = jobs.holds("one", "Failed")
    assert message == "Job one has failed because it has reached the specified backoff limit"
    pods.until(pods.are_gone, timeout=60)


@pytest.mark.parametrize("code", [1, 137])
def test_an_exit_code_is_final_or_not(jobs, pods, code):
    jobs.make("one", f"sleep 1; exit {code}", workers=1, policy="ExitCode")
    if code == 1:
        assert jobs.holds("one", "Failed") == 'job "one" is failing because "Worker" replica(s) failed.'
        return
    before = jobs.running(1)
    assert jobs.holds("one", "Restarting").startswith(("job one is restarting because", "PyTorchJob one is restart"))
    pods.until(lambda: jobs.running(1) != before, timeout=60)
    assert "Failed" not in jobs.holding("one")


def test_without_restarts_the_first_failure_is_the_last(jobs):
    jobs.make("one", "exit 1", workers=1, policy="Never")
    assert jobs.holds("one", "Failed") == "PyTorchJob one is failed because 1 Worker replica(s) failed."


def test_a_pod_that_is_deleted_is_made_again_under_its_name(jobs, pods):
    jobs.make("one", FOREVER)
    before = jobs.running(2)
    pods.core.delete_namespaced_pod("one-worker-1", pods.namespace, grace_period_seconds=0)
    pods.until(lambda: jobs.running(2)["one-worker-1"] != before["one-worker-1"], timeout=60)
    assert jobs.running(2)["one-worker-0"] == before["one-worker-0"]


def test_a_suspended_job_has_no_pods_and_gets_others(jobs, pods):
    jobs.make("one", FOREVER)
    before = jobs.running(2)
    jobs.change("one", runPolicy={"suspend": True})
    pods.until(pods.are_gone, timeout=60)
    assert jobs.holds("one", "Suspended") == "PyTorchJob one is suspended."
    jobs.change("one", runPolicy={"suspend": False})
    assert set(before.values()).isdisjoint(jobs.running(2).values())
    pods.until(lambda: "Suspended" not in jobs.holding("one"))
