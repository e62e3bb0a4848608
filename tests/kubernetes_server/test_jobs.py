"""Jobs: how many pods they make, how these are counted, and when a Job is over."""

from __future__ import annotations

from collections import Counter

import pytest
from kubernetes import client

from tests.kubernetes_server.job_pods import read_indexes, write_indexes

pytestmark = pytest.mark.launches
FOREVER = "exec sleep 1000"
INDEXED = {"completionMode": "Indexed"}
JOB_NAME, INDEX = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"


class Jobs:
    """The Jobs of a test and their pods."""

    def __init__(self, api, pods):
        self.batch, self.pods = client.BatchV1Api(api), pods

    def make(self, name, script, *, restart="Never", pod=None, **spec):
        container = {"name": "main", "image": self.pods.image, "command": ["sh", "-c", script]}
        template = {"restartPolicy": restart, "terminationGracePeriodSeconds": 1, "containers": [container]}
        template |= pod or {}
        body = {"metadata": {"name": name}, "spec": {"template": {"spec": template}, **spec}}
        return self.batch.create_namespaced_job(self.pods.namespace, body)

    def read(self, name):
        return self.batch.read_namespaced_job(name, self.pods.namespace)

    def wait(self, name, condition):
        """Wait until something holds of the status of a Job; gives it."""
        self.pods.until(lambda: condition(self.read(name).status), timeout=60)
        return self.read(name).status

    def ends(self, name):
        """Wait for the end of a Job; gives its status, and the type, reason and message of the last condition."""
        status = self.wait(name, lambda status: {"Complete", "Failed"} & set(holding(status)))
        kind = "Complete" if "Complete" in holding(status) else "Failed"
        return status, (kind, *holding(status)[kind])

    def change(self, name, **spec):
        self.batch.patch_namespaced_job(name, self.pods.namespace, {"spec": spec})

    def of(self, name):
        """The pods of a Job."""
        core, namespace = self.pods.core, self.pods.namespace
        return core.list_namespaced_pod(namespace, label_selector=f"{JOB_NAME}={name}").items

    def running(self, name, count):
        """Wait until so many pods of a Job run; gives them by their indexes."""
        def found():
            return [pod for pod in self.of(name) if pod.status.phase == "Running"]

        self.pods.until(lambda: len(found()) == count, timeout=60)
        return {pod.metadata.labels.get(INDEX, pod.metadata.name): pod for pod in found()}


def holding(status):
    """The reasons and messages of the conditions that hold, by their types."""
    return {one.type: (one.reason, one.message) for one in status.conditions or () if one.status == "True"}


@pytest.fixture
def jobs(api, pods, real_cluster):
    real_cluster.kubelet.jobs.back_off = 0.0
    return Jobs(api, pods)


def test_indexes_are_written_as_the_controller_writes_them():
    assert write_indexes({0, 1, 3, 4, 5, 7}) == "0,1,3-5,7" and write_indexes(()) == ""
    assert read_indexes("0,1,3-5,7") == {0, 1, 3, 4, 5, 7} and read_indexes("") == set()


def test_a_job_runs_each_index_once(jobs, pods):
    script = "echo $JOB_COMPLETION_INDEX $(hostname)"
    made = jobs.make("one", script, completions=3, parallelism=2, **INDEXED)
    assert made.status.active is None
    status, end = jobs.ends("one")
    assert end == ("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
    assert holding(status)["SuccessCriteriaMet"] == end[1:]
    assert (status.succeeded, status.failed, status.active, status.completed_indexes) == (3, None, None, "0-2")
    assert status.start_time <= status.completion_time
    found = {pod.metadata.labels[INDEX]: pod for pod in jobs.of("one")}
    assert sorted(found) == ["0", "1", "2"]
    for index, pod in found.items():
        name = pod.metadata.name
        assert name.startswith(f"one-{index}-") and pods.log(name) == f"{index} one-{index}\n"
        assert not pod.metadata.finalizers and pod.metadata.owner_references[0].uid == made.metadata.uid
    assert pods.events("one")["Completed"] == "Job completed"


def test_a_job_without_indexes_counts_its_pods(jobs):
    jobs.make("one", "true", completions=3, parallelism=2)
    status, end = jobs.ends("one")
    assert end[0] == "Complete" and status.succeeded == 3 and len(jobs.of("one")) == 3


def test_so_many_pods_run_side_by_side_as_the_job_says(jobs):
    jobs.make("one", FOREVER, completions=3, parallelism=2, **INDEXED)
    assert sorted(jobs.running("one", 2)) == ["0", "1"]
    assert jobs.wait("one", lambda status: status.ready == 2).active == 2
    jobs.change("one", parallelism=1)
    jobs.running("one", 1)
    jobs.change("one", parallelism=3)
    assert sorted(jobs.running("one", 3)) == ["0", "1", "2"]


def test_a_pod_that_is_killed_is_replaced_under_its_index(jobs, pods, real_cluster):
    jobs.make("one", FOREVER, completions=2, parallelism=2, **INDEXED)
    before = jobs.running("one", 2)
    real_cluster.kubelet.kill_container(before["1"].metadata.uid)
    jobs.wait("one", lambda status: status.failed == 1)
    after = jobs.running("one", 2)
    assert after["0"].metadata.uid == before["0"].metadata.uid
    assert after["1"].metadata.uid != before["1"].metadata.uid and after["1"].spec.hostname == "one-1"


@pytest.mark.parametrize(("policy", "beside"), [("TerminatingOrFailed", True), ("Failed", False)])
def test_a_deleted_pod_is_replaced_before_its_end_or_after_it(jobs, pods, until, policy, beside):
    slow = {"terminationGracePeriodSeconds": 3600}
    script = "trap true TERM; echo ready; while :; do sleep 0.1; done"
    jobs.make("one", script, completions=1, parallelism=1, podReplacementPolicy=policy, pod=slow, **INDEXED)
    (old,) = jobs.running("one", 1).values()
    until(lambda: "ready" in pods.core.read_namespaced_pod_log(old.metadata.name, pods.namespace))
    pods.core.delete_namespaced_pod(old.metadata.name, pods.namespace)
    jobs.wait("one", lambda status: status.terminating == 1)
    pods.make("meanwhile", "true")
    pods.phase("meanwhile", "Succeeded")
    uids = {pod.metadata.uid for pod in jobs.of("one")}
    assert old.metadata.uid in uids and len(uids) == 1 + beside
    assert (jobs.read("one").status.failed or 0) == beside
    pods.core.delete_namespaced_pod(old.metadata.name, pods.namespace, grace_period_seconds=0)
    jobs.wait("one", lambda status: status.failed == 1)
    (new,) = jobs.running("one", 1).values()
    assert new.metadata.uid != old.metadata.uid


def test_a_job_gives_up(jobs, pods):
    jobs.make("one", "exit 1", backoffLimit=1)
    status, end = jobs.ends("one")
    assert end == ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    assert holding(status)["FailureTarget"] == end[1:]
    assert status.failed == 2 and len(jobs.of("one")) == 2
    assert pods.events("one")["BackoffLimitExceeded"] == end[2]


def test_a_job_counts_the_restarts_within_its_pods(jobs, real_cluster):
    real_cluster.kubelet.back_off = 0.1
    jobs.make("one", "exit 1", restart="OnFailure", backoffLimit=2)
    _, end = jobs.ends("one")
    assert end[:2] == ("Failed", "BackoffLimitExceeded")


def test_a_replacement_takes_its_time(jobs, pods, real_cluster):
    real_cluster.kubelet.jobs.back_off = 3600.0
    jobs.make("one", "exit 1", backoffLimit=5)
    jobs.wait("one", lambda status: status.failed == 1)
    pods.make("meanwhile", "true")
    pods.phase("meanwhile", "Succeeded")
    assert len(jobs.of("one")) == 1 and not holding(jobs.read("one").status)


def test_each_index_has_its_own_limit(jobs):
    script = "exit $((JOB_COMPLETION_INDEX == 1))"
    jobs.make("one", script, completions=3, parallelism=3, backoffLimitPerIndex=1, **INDEXED)
    status, end = jobs.ends("one")
    assert end == ("Failed", "FailedIndexes", "Job has failed indexes")
    assert (status.completed_indexes, status.failed_indexes, status.succeeded, status.failed) == ("0,2", "1", 2, 2)
    counts = [p.metadata.annotations["batch.kubernetes.io/job-index-failure-count"] for p in jobs.of("one")]
    assert sorted(counts) == ["0", "0", "0", "1"]


def test_too_many_indexes_fail(jobs):
    limits = {"backoffLimitPerIndex": 0, "maxFailedIndexes": 1}
    script = "test $JOB_COMPLETION_INDEX = 2 && exec sleep 1000; exit 1"
    jobs.make("one", script, completions=3, parallelism=3, **limits, **INDEXED)
    status, end = jobs.ends("one")
    assert end[:2] == ("Failed", "MaxFailedIndexesExceeded") and status.failed_indexes == "0,1"


POLICY = [
    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42], "containerName": "main"}},
    {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [143, 137]}},
    {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [7]}},
]


def strict(*rules):
    return {"podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": list(rules)}}


def test_a_code_may_end_the_job(jobs):
    jobs.make("one", "exit 42", **strict(*POLICY))
    status, (kind, reason, message) = jobs.ends("one")
    (pod,) = jobs.of("one")
    title = f"{pod.metadata.namespace}/{pod.metadata.name}"
    assert (kind, reason) == ("Failed", "PodFailurePolicy") and status.failed == 1
    assert message == f"Container main for pod {title} failed with exit code 42 matching FailJob rule at index 0"


def test_an_ignored_failure_does_not_count(jobs, real_cluster):
    jobs.make("one", FOREVER, backoffLimit=0, **strict(*POLICY))
    (pod,) = jobs.running("one", 1).values()
    real_cluster.kubelet.kill_container(pod.metadata.uid)
    jobs.pods.until(lambda: len(jobs.of("one")) == 2, timeout=60)
    assert jobs.read("one").status.failed is None
    (other,) = jobs.running("one", 1).values()
    assert other.metadata.uid != pod.metadata.uid


def test_another_failure_counts(jobs):
    jobs.make("one", "exit 3", backoffLimit=0, **strict(*POLICY))
    status, end = jobs.ends("one")
    assert end[:2] == ("Failed", "BackoffLimitExceeded") and status.failed == 1


def test_a_code_may_end_an_index(jobs):
    rule = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [9]}}
    script = "exit $((JOB_COMPLETION_INDEX * 9))"
    jobs.make("one", script, completions=2, parallelism=2, backoffLimitPerIndex=5, **strict(rule), **INDEXED)
    status, end = jobs.ends("one")
    assert end[:2] == ("Failed", "FailedIndexes") and status.failed_indexes == "1" and status.failed == 1


def test_a_suspended_job_has_no_pods(jobs):
    jobs.make("one", FOREVER, suspend=True, backoffLimit=0)
    status = jobs.wait("one", holding)
    assert holding(status) == {"Suspended": ("JobSuspended", "Job suspended")} and status.start_time is None
    assert jobs.of("one") == []
    jobs.change("one", suspend=False)
    jobs.running("one", 1)
    assert not holding(jobs.read("one").status) and jobs.read("one").status.start_time
    jobs.change("one", suspend=True)
    jobs.pods.until(lambda: jobs.of("one") == [], timeout=60)
    assert "Suspended" in holding(jobs.read("one").status)
    jobs.change("one", suspend=False)
    jobs.running("one", 1)
    assert jobs.read("one").status.failed is None, "pods that go for that are no failures"


def test_a_job_may_be_active_only_so_long(jobs):
    jobs.make("one", FOREVER, activeDeadlineSeconds=1)
    _, end = jobs.ends("one")
    assert end == ("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    assert not [pod for pod in jobs.of("one") if pod.status.phase == "Running"]


def test_a_job_that_is_over_goes_after_a_while(jobs):
    jobs.make("one", "true", ttlSecondsAfterFinished=1)
    jobs.pods.until(lambda: jobs.batch.list_namespaced_job(jobs.pods.namespace).items == [], timeout=60)
    jobs.pods.until(jobs.pods.are_gone, timeout=60)


def test_a_job_goes_with_its_pods(jobs, real_cluster):
    jobs.make("one", FOREVER)
    jobs.running("one", 1)
    jobs.batch.delete_namespaced_job("one", jobs.pods.namespace, propagation_policy="Background")
    jobs.pods.until(jobs.pods.are_gone, timeout=60)
    assert real_cluster.kubelet.running() == []


def test_a_job_that_lets_its_pods_go_leaves_them(jobs):
    jobs.make("one", FOREVER)
    (pod,) = jobs.running("one", 1).values()
    jobs.batch.delete_namespaced_job("one", jobs.pods.namespace, propagation_policy="Orphan")
    jobs.pods.until(lambda: not jobs.pods.read(pod.metadata.name).metadata.finalizers, timeout=60)
    assert jobs.pods.read(pod.metadata.name).status.phase == "Running"


def test_a_job_says_which_pods_it_may_not_make(jobs):
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    jobs.pods.core.create_namespaced_resource_quota(jobs.pods.namespace, quota)
    jobs.make("one", FOREVER, completions=2, parallelism=2)
    jobs.pods.until(lambda: "FailedCreate" in jobs.pods.events("one"), timeout=60)
    assert "exceeded quota: q" in jobs.pods.events("one")["FailedCreate"]
    assert Counter(pod.status.phase for pod in jobs.running("one", 1).values()) == {"Running": 1}
