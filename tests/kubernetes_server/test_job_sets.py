"""JobSets: the Jobs that they make, how often they make them anew, and when they are over."""

from __future__ import annotations

import pytest

from tests.kubernetes_server.job_set_controller import GROUP
from tests.kubernetes_server.test_jobs import FOREVER, Jobs

pytestmark = pytest.mark.launches
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


class JobSets:
    """The JobSets of a test. Each has one Job, called `node`, of two pods."""

    def __init__(self, custom, jobs, where):
        self.custom, self.jobs, self._where = custom, jobs, where

    def make(self, name, script, *, job=None, **spec):
        pods = self.jobs.pods
        container = {"name": "main", "image": pods.image, "command": ["sh", "-c", script]}
        pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
        own = {"completions": 2, "parallelism": 2, "backoffLimit": 0, "template": {"spec": pod}, **(job or {})}
        body = {"apiVersion": f"{GROUP}/v1alpha2", "kind": "JobSet", "metadata": {"name": name}}
        body["spec"] = {"replicatedJobs": [{"name": "node", "template": {"spec": own}}], **spec}
        return self.custom.create_namespaced_custom_object(**self._where, body=body)

    def read(self, name):
        return self.custom.get_namespaced_custom_object(**self._where, name=name)

    def status(self, name):
        return self.read(name).get("status") or {}

    def ends(self, name):
        """Wait until a JobSet is over; the type, the reason and the message of its condition."""
        self.jobs.pods.until(lambda: self.status(name).get("terminalState"), timeout=90)
        kind = self.status(name)["terminalState"]
        return (kind, *self.holding(name)[kind])

    def holding(self, name):
        conditions = self.status(name).get("conditions") or ()
        return {one["type"]: (one["reason"], one["message"]) for one in conditions if one["status"] == "True"}

    def change(self, name, **spec):
        self.custom.patch_namespaced_custom_object(**self._where, name=name, body={"spec": spec})

    def delete(self, name):
        self.custom.delete_namespaced_custom_object(**self._where, name=name)


@pytest.fixture
def job_sets(api, pods, real_cluster, custom, jobsets):
    real_cluster.kubelet.jobs.back_off = 0.0
    return JobSets(custom, Jobs(api, pods), jobsets)


def test_a_job_set_makes_its_job_and_a_service_for_the_names(job_sets):
    found = job_sets.make("one", "echo $JOB_COMPLETION_INDEX $(hostname)")
    kind, reason, message = job_sets.ends("one")
    assert (kind, reason) == ("Completed", "AllJobsCompleted") and message == "jobset completed successfully"
    job = job_sets.jobs.read("one-node-0")
    assert job.metadata.owner_references[0].uid == found["metadata"]["uid"]
    made = {pod.spec.hostname: pod for pod in job_sets.jobs.of("one-node-0")}
    assert sorted(made) == ["one-node-0-0", "one-node-0-1"]
    for pod in made.values():
        assert pod.spec.subdomain == "one" and pod.metadata.labels["jobset.sigs.k8s.io/jobset-name"] == "one"
    service = job_sets.jobs.pods.core.read_namespaced_service("one", job_sets.jobs.pods.namespace)
    assert service.spec.publish_not_ready_addresses and service.metadata.owner_references
    (of_job,) = job_sets.status("one")["replicatedJobsStatus"]
    assert (of_job["name"], of_job["succeeded"], of_job["failed"]) == ("node", 1, 0)


def test_a_failed_job_is_made_anew_until_its_restarts_are_spent(job_sets):
    job_sets.make("one", "exit 1", failurePolicy={"maxRestarts": 1})
    kind, reason, message = job_sets.ends("one")
    assert (kind, reason) == ("Failed", "ReachedMaxRestarts")
    assert message == "jobset failed due to reaching max number of restarts (first failed job: one-node-0)"
    status = job_sets.status("one")
    assert (status["restarts"], status["restartsCountTowardsMax"]) == (1, 1)
    assert job_sets.jobs.read("one-node-0").metadata.labels[ATTEMPT] == "1"
    assert {pod.metadata.labels[ATTEMPT] for pod in job_sets.jobs.of("one-node-0")} == {"1"}


def test_without_a_policy_the_first_failure_ends_it(job_sets):
    job_sets.make("one", "exit 1")
    assert job_sets.ends("one")[:2] == ("Failed", "FailedJobs")
    assert "restarts" not in job_sets.status("one")


def rules(*actions):
    made = [
        {"name": f"rule{number}", "action": action, "onJobFailureReasons": reasons}
        for number, (action, reasons) in enumerate(actions)
    ]
    return {"maxRestarts": 0, "rules": made}


def test_a_rule_may_end_it(job_sets):
    job_sets.make("one", "exit 1", failurePolicy=rules(("FailJobSet", ["BackoffLimitExceeded"])) | {"maxRestarts": 9})
    kind, reason, message = job_sets.ends("one")
    assert (kind, reason) == ("Failed", "FailJobSetFailurePolicyAction")
    assert message == "applying FailJobSet failure policy action (first failed job: one-node-0)"


def test_a_rule_for_another_reason_does_not_and_one_may_restart_without_counting(job_sets):
    ignored = ("RestartJobSetAndIgnoreMaxRestarts", ["BackoffLimitExceeded"])
    script = 'test "$(cat /attempt/labels)" = 0 && exit 1; true'
    volume = {"name": "attempt", "downwardAPI": {"items": [
        {"path": "labels", "fieldRef": {"fieldPath": f"metadata.labels['{ATTEMPT}']"}}
    ]}}  # fmt: skip
    container = {"name": "main", "image": job_sets.jobs.pods.image, "command": ["sh", "-c", script],
                 "volumeMounts": [{"name": "attempt", "mountPath": "/attempt"}]}  # fmt: skip
    pod = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
    policy = rules(("FailJobSet", ["PodFailurePolicy"]), ignored)
    job_sets.make("one", script, job={"template": {"spec": pod}}, failurePolicy=policy)
    assert job_sets.ends("one")[:2] == ("Completed", "AllJobsCompleted")
    status = job_sets.status("one")
    assert (status["restarts"], status["restartsCountTowardsMax"]) == (1, 0)


def test_a_suspended_job_set_has_no_pods(job_sets):
    job_sets.make("one", FOREVER)
    before = {pod.metadata.uid for pod in job_sets.jobs.running("one-node-0", 2).values()}
    job_sets.change("one", suspend=True)
    job_sets.jobs.pods.until(job_sets.jobs.pods.are_gone, timeout=60)
    job_sets.jobs.pods.until(lambda: "Suspended" in job_sets.holding("one"))
    assert job_sets.holding("one")["Suspended"] == ("SuspendedJobs", "jobset is suspended")
    job_sets.change("one", suspend=False)
    after = {pod.metadata.uid for pod in job_sets.jobs.running("one-node-0", 2).values()}
    assert before.isdisjoint(after)
    job_sets.jobs.pods.until(lambda: "Suspended" not in job_sets.holding("one"))


def test_a_job_set_goes_with_its_jobs(job_sets):
    job_sets.make("one", FOREVER)
    job_sets.jobs.running("one-node-0", 2)
    job_sets.delete("one")
    pods = job_sets.jobs.pods
    pods.until(lambda: job_sets.jobs.batch.list_namespaced_job(pods.namespace).items == [], timeout=60)
    pods.until(pods.are_gone, timeout=60)
