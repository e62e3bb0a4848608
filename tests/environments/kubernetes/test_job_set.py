"""A JobSet as the job template of a team: what can be run, what is added, and why its controller gives up."""

from __future__ import annotations

import pytest

from chaoskit.environments.kubernetes.filled_template import difference, filled
from chaoskit.environments.kubernetes.job_template import JobTemplate
from chaoskit.environments.kubernetes.objects import owned
from chaoskit.environments.kubernetes.selectors import INDEX, RunIdentity
from chaoskit.environments.kubernetes.team_jobs.job_set import JobSet
from chaoskit.environments.kubernetes.team_jobs.team_job import ControllerReport
from chaoskit.errors import UsageError
from tests.environments.kubernetes.a_job import IMAGE, OUT, a_job_set, added

JOB = "spec.replicatedJobs.0"
POD = f"{JOB}.template.spec.template.spec"
RUN = RunIdentity("staging", "r1", "u1")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("apiVersion", "jobset.x-k8s.io/v1alpha1", "has the kind jobset.x-k8s.io/v1alpha1 JobSet, which is not supp"),
        ("spec.replicatedJobs", None, "must have one entry in spec.replicatedJobs: chaoskit runs a JobSet of one Job"),
        ("spec.replicatedJobs", [{}, {}], "must have one entry in spec.replicatedJobs"),
        (f"{JOB}.replicas", 2, "must have replicas: 1 in spec.replicatedJobs: chaoskit runs a JobSet of one Job"),
        (f"{JOB}.name", None, r"has no spec.replicatedJobs\[0\].name"),
        (f"{JOB}.template", None, r"has no mapping spec\.replicatedJobs\[0\]\.template$"),
        (f"{JOB}.template.spec.template", 1, r"has no mapping spec\.replicatedJobs\[0\]\.template\.spec\.template$"),
        (f"{POD}.containers", [], r"has no list spec\.replicatedJobs\[0\].template.spec.template.spec.containers"),
        (f"{JOB}.template.spec.completionMode", None, "has no completionMode: Indexed"),
        (f"{JOB}.template.spec.parallelism", 1, "must have the same number of completions and parallelism"),
        (f"{POD}.restartPolicy", None, "must have restartPolicy: Never"),
        ("spec.suspend", True, "is suspended: leave suspend out"),
        ("spec.network", {"subdomain": "train"}, "has spec.network.subdomain: leave it out"),
        (f"{JOB}.template.metadata", {"labels": {"chaoskit.dev/run": "x"}}, "are those of chaoskit"),
        (
            f"{POD}.containers.0.args",
            ["--rdzv-endpoint=nightly-train-node-0-0.nightly-train:29400", "{out}"],
            r"names its first pod, nightly-train-node-0-0, in .* so write {job}-node-0-0\.{service}",
        ),
    ],
)
def test_what_cannot_be_run_is_one_sentence_with_the_remedy(path, value, said):
    with pytest.raises(UsageError, match=said):
        JobTemplate(a_job_set(path, value))


def test_its_job_is_what_runs_and_every_pod_has_the_labels_of_the_run():
    template = JobTemplate(a_job_set(f"{POD}.containers.0.resources", {"limits": {"memory": "1Gi"}}))
    assert (template.nodes, template.image, template.words[0]) == (2, IMAGE, "torchrun")
    made = owned(filled(template, added(), out=OUT), RUN, role="node")
    own = {"chaoskit.dev/role": "node", "chaoskit.dev/run": "r1", "chaoskit.dev/owner": "u1"}
    assert made["metadata"]["name"] == "chaoskit-r1" and own.items() <= made["metadata"]["labels"].items()
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u1"
    job = made["spec"]["replicatedJobs"][0]["template"]
    pod = job["spec"]["template"]
    assert job["metadata"]["labels"] == pod["metadata"]["labels"] == own
    (container,) = pod["spec"]["containers"]
    assert container["args"][1] == "--rdzv-endpoint=chaoskit-r1-node-0-0.chaoskit-r1:29400"
    assert container["command"][-2:] == ["--", "torchrun"] and pod["spec"]["subdomain"] == "chaoskit-r1"
    gone = [line for line in difference(template, made).splitlines()[2:] if line.startswith("-")]
    assert len(gone) == 3, "the name, the address and {out} are filled in, and nothing is taken away"


def test_a_node_is_a_completion_index():
    job = JobSet(a_job_set())
    assert job.number({"metadata": {"labels": {INDEX: "1"}}}) == 1
    assert job.selector(RUN, "node", 1).labels == {
        "chaoskit.dev/role": "node", INDEX: "1", "chaoskit.dev/run": "r1", "chaoskit.dev/owner": "u1",
    }  # fmt: skip
    assert job.address(1, job="a", service="b") == "a-node-0-1.b"
    assert job.suspension(True) == {"spec": {"suspend": True}}


def failed(reason, message="the controller's words", **status):
    condition = {"type": "Failed", "status": "True", "reason": reason, "message": message}
    return {"metadata": {}, "status": {"conditions": [condition], **status}}


def told(found, *made, manifest=None, codes=None):
    report = ControllerReport(job=found, made=made, container="trainer", codes=codes or {})
    over = JobSet(manifest or a_job_set()).gave_up(report)
    return (over.code, str(over)) if over is not None else None


def policy(*rules, **more):
    return a_job_set("spec.failurePolicy", {"rules": list(rules), **more})


def final(*codes):
    """A rule of the Job that takes these codes as final."""
    on = {"containerName": "trainer", "operator": "In", "values": list(codes)}
    return {"rules": [{"action": "FailJob", "onExitCodes": on}]}


def test_one_that_goes_on():
    running = {"metadata": {}, "status": {"restarts": 1}}
    assert told(running) is None
    assert told(running, failed("BackoffLimitExceeded")) is None, "the controller is about to make that Job anew"
    leaving = {"metadata": {"deletionTimestamp": "t"}, "status": {"failedIndexes": "1"}}
    assert told(running, leaving) is None


def test_a_budget_that_is_spent():
    code, text = told(failed("ReachedMaxRestarts", restarts=3, restartsCountTowardsMax=2))
    assert code == "restart-budget-spent"
    assert text == (
        "the JobSet had no restart left (failurePolicy.maxRestarts: 2, restarts: 2): the controller's words"
    )


def test_a_rule_of_the_set_is_named():
    other = {"action": "RestartJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}
    rule = {"action": "FailJobSet", "name": "bug", "onJobFailureReasons": ["PodFailurePolicy"]}
    manifest = policy(other, {**rule, "targetReplicatedJobs": ["other"]}, rule)
    code, text = told(failed("FailJobSetFailurePolicyAction"), failed("PodFailurePolicy"), manifest=manifest)
    assert code == "failure-policy-final"
    assert "takes a Job that failed by PodFailurePolicy (rule 2 'bug', FailJobSet) as final" in text
    code, text = told(failed("FailJobSetFailurePolicyAction"), manifest=manifest)
    assert code == "failure-policy-final" and "takes what happened as final" in text
    by_message = policy({"action": "FailJobSet", "onJobFailureMessagePatterns": ["exit code 3"]})
    said = "Container trainer for pod x failed with exit code 3"
    _, text = told(failed("FailJobSetFailurePolicyAction"), failed("PodFailurePolicy", said), manifest=by_message)
    assert "(rule 0, FailJobSet)" in text


def test_without_a_policy_the_reason_of_the_job_is_that_of_the_set():
    manifest = a_job_set("spec.failurePolicy")
    code, text = told(failed("FailedJobs"), failed("BackoffLimitExceeded", failed=7), manifest=manifest)
    assert code == "restart-budget-spent"
    assert "the JobSet has no failurePolicy, so no failed Job is restarted; the Job had no restart left" in text
    manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["podFailurePolicy"] = final(1)
    code, text = told(failed("FailedJobs"), failed("PodFailurePolicy"), manifest=manifest, codes={0: 1})
    assert code == "failure-policy-final" and "takes exit code 1 (rule 0, FailJob) as final" in text
    assert told(failed("FailedJobs"), manifest=manifest)[0] == "restart-budget-spent"


def test_an_index_that_has_failed_for_good_leaves_its_job_waiting():
    spec = {"backoffLimitPerIndex": 0}
    manifest = a_job_set()
    manifest["spec"]["replicatedJobs"][0]["template"]["spec"] |= spec
    code, text = told({"metadata": {}}, {"metadata": {}, "status": {"failedIndexes": "1"}}, manifest=manifest)
    assert code == "restart-budget-spent" and "backoffLimitPerIndex: 0, indexes failed: 1" in text


def test_another_reason_is_told_as_it_is():
    assert told(failed("Odd")) == ("crash-loop", "the JobSet has failed (Odd): the controller's words")
