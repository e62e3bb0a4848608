"""TrainJobs: the JobSet that is made of a runtime, what a patch changes, and when they are over."""

from __future__ import annotations

import pytest

from tests.environments.kubernetes.a_job import a_runtime
from tests.kubernetes_server.job_set_controller import GROUP as JOB_SETS
from tests.kubernetes_server.test_jobs import Jobs

pytestmark = pytest.mark.launches
FOREVER = "exec sleep 1000"


class TrainJobs:
    """The TrainJobs of a test, each of two nodes."""

    def __init__(self, custom, jobs, where, server):
        self.custom, self.jobs, self._where, self._server = custom, jobs, where, server

    def make(self, name, script, *, runtime=None, **spec):
        pods = self.jobs.pods
        body = a_runtime(job={"backoffLimit": 0}, **(runtime or {}))
        self._server.put("trainingruntimes", body, group="trainer.kubeflow.org", namespace=pods.namespace)
        trainer = {"image": pods.image, "command": ["sh", "-c", script], "numNodes": 2, "numProcPerNode": 4}
        made = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": name}}
        made["spec"] = {"runtimeRef": {"kind": "TrainingRuntime", "name": "torch"}, "trainer": trainer, **spec}
        return self.custom.create_namespaced_custom_object(**self._where, body=made)

    def holding(self, name):
        """The reasons and the messages of the conditions that hold, by their types."""
        found = self.custom.get_namespaced_custom_object(**self._where, name=name).get("status") or {}
        held = [one for one in found.get("conditions") or () if one["status"] == "True"]
        return {one["type"]: (one["reason"], one["message"]) for one in held}

    def holds(self, name, kind):
        """Wait until a condition holds; its reason and its message."""
        self.jobs.pods.until(lambda: kind in self.holding(name), timeout=90)
        return self.holding(name)[kind]

    def change(self, name, **spec):
        self.custom.patch_namespaced_custom_object(**self._where, name=name, body={"spec": spec})

    def job_set(self, name):
        where = {"group": JOB_SETS, "version": "v1alpha2", "plural": "jobsets"}
        return self.custom.get_namespaced_custom_object(**where, namespace=self.jobs.pods.namespace, name=name)


@pytest.fixture
def train_jobs(api, pods, real_cluster, custom, trainjobs, api_server):
    real_cluster.kubelet.jobs.back_off = 0.0
    real_cluster.kubelet.back_off = 0.1
    return TrainJobs(custom, Jobs(api, pods), trainjobs, api_server)


def test_a_job_set_is_made_of_the_runtime_and_torchrun_is_told_of_the_nodes(train_jobs):
    train_jobs.make("one", "env")
    reason, message = train_jobs.holds("one", "Complete")
    assert (reason, message) == ("AllJobsCompleted", "jobset completed successfully")
    made = {pod.spec.hostname: pod for pod in train_jobs.jobs.of("one-node-0")}
    assert sorted(made) == ["one-node-0-0", "one-node-0-1"]
    told = train_jobs.jobs.pods.log(made["one-node-0-1"].metadata.name).splitlines()
    for line in ("PET_NNODES=2", "PET_NPROC_PER_NODE=4", "PET_NODE_RANK=1", "PET_MASTER_ADDR=one-node-0-0.one"):
        assert line in told, told


def test_a_patch_adds_to_the_pods_and_labels_each_object(train_jobs):
    mine = {"labels": {"a": "1"}}
    pod = {"metadata": mine, "spec": {"terminationGracePeriodSeconds": 1, "volumes": [{"name": "v", "emptyDir": {}}],
           "containers": [{"name": "node", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}  # fmt: skip
    job = {"name": "node", "template": {"metadata": mine, "spec": {"template": pod}}}
    template = {"metadata": mine, "spec": {"replicatedJobs": [job]}}
    patch = {"manager": "acme.io/x", "trainingRuntimeSpec": {"template": template}}
    train_jobs.make("one", "echo > /v/file && exec sleep 1000", runtimePatches=[patch])
    pods = train_jobs.jobs.running("one-node-0", 2)
    assert {pod.metadata.labels["a"] for pod in pods.values()} == {"1"}
    assert train_jobs.job_set("one")["metadata"]["labels"] == {"a": "1"}
    assert train_jobs.jobs.read("one-node-0").metadata.labels["a"] == "1"


def test_a_failure_of_the_job_set_is_that_of_the_train_job(train_jobs):
    train_jobs.make("one", "exit 1", runtime={"failurePolicy": {"maxRestarts": 0}})
    reason, message = train_jobs.holds("one", "Failed")
    assert reason == "ReachedMaxRestarts" and message.endswith("(first failed job: one-node-0)")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"runtimeRef": {"kind": "TrainingRuntime", "name": "absent"}}, "must be created before the TrainJob"),
        (
            {"trainer": {"numNodes": 2, "env": [{"name": "PET_NNODES", "value": "2"}]}},
            "must not have reserved envs, invalid envs configured: ['PET_NNODES']",
        ),
        ({"runtimePatches": [{"manager": "me"}]}, "must be a domain-prefixed path"),
    ],
)
def test_what_the_controller_does_not_take(train_jobs, spec, said):
    train_jobs.make("one", FOREVER, **spec)
    pods = train_jobs.jobs.pods
    pods.until(lambda: said in pods.events("one").get("TrainJobResourcesCreationFailed", ""), timeout=60)


@pytest.mark.slow
def test_a_suspended_train_job_has_no_pods_and_gets_others(train_jobs):
    train_jobs.make("one", FOREVER)
    before = {pod.metadata.uid for pod in train_jobs.jobs.running("one-node-0", 2).values()}
    train_jobs.change("one", suspend=True)
    assert train_jobs.holds("one", "Suspended") == ("Suspended", "TrainJob is suspended")
    train_jobs.jobs.pods.until(train_jobs.jobs.pods.are_gone, timeout=90)
    train_jobs.change("one", suspend=False)
    after = {pod.metadata.uid for pod in train_jobs.jobs.running("one-node-0", 2).values()}
    assert before.isdisjoint(after)
    train_jobs.jobs.pods.until(lambda: "Suspended" not in train_jobs.holding("one"))
