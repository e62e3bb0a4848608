"""A PyTorchJob as the job template of a team: what can be run, what is added, and why its operator gives up."""

from __future__ import annotations

import pytest

from chaoskit.environments.kubernetes.filled_template import difference, filled
from chaoskit.environments.kubernetes.job_template import JobTemplate
from chaoskit.environments.kubernetes.objects import owned
from chaoskit.environments.kubernetes.selectors import REPLICA_INDEX, REPLICA_TYPE, RunIdentity
from chaoskit.environments.kubernetes.team_jobs.pytorch_job import PyTorchJob
from chaoskit.environments.kubernetes.team_jobs.team_job import ControllerReport
from chaoskit.errors import UsageError
from tests.environments.kubernetes.a_job import IMAGE, OUT, a_pytorch_job, added, an_elastic_job

REPLICAS = "spec.pytorchReplicaSpecs"
POD = f"{REPLICAS}.Worker.template.spec"
RUN = RunIdentity("staging", "r1", "u1")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("apiVersion", "kubeflow.org/v2", "has the kind kubeflow.org/v2 PyTorchJob, which is not supported"),
        (REPLICAS, None, "has no mapping spec.pytorchReplicaSpecs"),
        (REPLICAS, {}, "must have Worker, Master or both in spec.pytorchReplicaSpecs, and nothing else"),
        (f"{REPLICAS}.Launcher", {}, "must have Worker, Master or both in spec.pytorchReplicaSpecs"),
        (f"{REPLICAS}.Worker", 3, r"has no mapping spec\.pytorchReplicaSpecs\.Worker$"),
        (f"{REPLICAS}.Worker.template", None, r"has no mapping spec\.pytorchReplicaSpecs\.Worker\.template$"),
        (f"{REPLICAS}.Worker.replicas", 0, "must have a number of replicas of the Worker"),
        (f"{REPLICAS}.Worker.replicas", "2", "must have a number of replicas of the Worker"),
        (f"{REPLICAS}.Master.replicas", 2, "must have 1 replicas of the Master"),
        (f"{REPLICAS}.Worker.restartPolicy", "Always", "has restartPolicy: Always for the Worker: write OnFailure, E"),
        (f"{POD}.containers.0.name", "trainer", "trains in the container 'trainer': the operator needs .* 'pytorch'"),
        (f"{POD}.containers", None, r"has no list spec\.pytorchReplicaSpecs\.Worker\.template\.spec\.containers"),
        (f"{POD}.containers.0.image", "other:1", f"has the images other:1 and {IMAGE} in the containers that train"),
        (f"{POD}.containers.0.args", ["train.py"], "names no {out}"),
        (f"{POD}.containers.0.command", None, "has no command for the container 'pytorch'"),
        ("spec.runPolicy", {"suspend": True}, "is suspended: leave suspend out"),
        ("spec.elasticPolicy", {"maxRestarts": 3}, "has elasticPolicy beside a Master"),
        (
            f"{POD}.containers.0.args",
            ["--rdzv-endpoint=nightly-train-master-0:29400", "{out}"],
            "names its first pod, nightly-train-master-0, in .* so write {job}-master-0, which chaoskit fills in",
        ),
    ],
)
def test_what_cannot_be_run_is_one_sentence_with_the_remedy(path, value, said):
    with pytest.raises(UsageError, match=said):
        JobTemplate(a_pytorch_job(path, value))


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"minReplicas": 1}, "must have elasticPolicy.minReplicas: 2, or none"),
        ({"maxReplicas": 4}, "must have elasticPolicy.maxReplicas: 2, or none"),
        ({"rdzvHost": "x"}, "has elasticPolicy.rdzvHost: leave it out; the nodes meet at the first Worker of the run"),
        ({"standalone": True}, "has elasticPolicy.standalone: leave it out"),
    ],
)
def test_nodes_of_another_number_or_that_meet_elsewhere(policy, said):
    with pytest.raises(UsageError, match=said):
        JobTemplate(an_elastic_job("spec.elasticPolicy", policy))


def test_master_and_workers_have_the_agent_and_the_labels_of_the_run():
    template = JobTemplate(a_pytorch_job(f"{REPLICAS}.Worker.replicas", 2))
    assert (template.nodes, template.image, template.telling) == (3, IMAGE, {})
    made = owned(filled(template, added(), out=OUT), RUN, role="node")
    own = {"chaoskit.dev/role": "node", "chaoskit.dev/run": "r1", "chaoskit.dev/owner": "u1"}
    for replica in made["spec"]["pytorchReplicaSpecs"].values():
        pod = replica["template"]
        (container,) = pod["spec"]["containers"]
        assert pod["metadata"]["labels"] == own and "subdomain" not in pod["spec"]
        assert container["command"][-2:] == ["--", "torchrun"]
        assert container["args"][1] == "--rdzv-endpoint=chaoskit-r1-master-0:29400"
        assert [one["mountPath"] for one in container["volumeMounts"]] == ["/ckpt/store", "/ckpt/store/runs/r1"]
    gone = [line for line in difference(template, made).splitlines()[2:] if line.startswith("-")]
    assert len(gone) == 5, "the name, two addresses and two {out} are filled in, and nothing is taken away"


def test_restarts_that_the_operator_tells_torchrun_are_those_of_the_job():
    assert JobTemplate(an_elastic_job()).telling == {"PET_MAX_RESTARTS": "3"}
    assert JobTemplate(an_elastic_job("spec.elasticPolicy", {})).telling == {}


def pod(replica, index):
    return {"metadata": {"labels": {REPLICA_TYPE: replica, REPLICA_INDEX: str(index)}}}


def test_the_master_is_the_first_node_and_the_workers_follow():
    job = PyTorchJob(a_pytorch_job(f"{REPLICAS}.Worker.replicas", 2))
    assert [job.number(pod(*one)) for one in (("master", 0), ("worker", 0), ("worker", 1))] == [0, 1, 2]
    assert [job.address(number, job="a") for number in range(3)] == ["a-master-0", "a-worker-0", "a-worker-1"]
    labels = job.selector(RUN, "node", 2).labels
    assert labels == {
        "chaoskit.dev/role": "node", REPLICA_TYPE: "worker", REPLICA_INDEX: "1",
        "chaoskit.dev/run": "r1", "chaoskit.dev/owner": "u1",
    }  # fmt: skip
    assert job.selector(RUN, "node", 0).labels[REPLICA_TYPE] == "master"
    workers = PyTorchJob(an_elastic_job())
    assert workers.number(pod("worker", 1)) == 1 and workers.address(0) == "{job}-worker-0"
    assert job.suspension(False) == {"spec": {"runPolicy": {"suspend": False}}}


def told(message, manifest, codes=None):
    condition = {"type": "Failed", "status": "True", "reason": "PyTorchJobFailed", "message": message}
    job = {"status": {"conditions": [condition] if message else []}}
    over = PyTorchJob(manifest).gave_up(ControllerReport(job=job, container="pytorch", codes=codes or {}))
    return (over.code, str(over)) if over is not None else None


def with_policy(policy):
    return an_elastic_job(f"{REPLICAS}.Worker.restartPolicy", policy)


FAILING = 'job "x" is failing because "Worker" replica(s) failed.'


def test_one_that_goes_on():
    assert told("", with_policy("ExitCode"), {0: 1}) is None


def test_a_budget_that_is_spent():
    manifest = an_elastic_job("spec.runPolicy", {"backoffLimit": 2})
    code, text = told("Job x has failed because it has reached the specified backoff limit", manifest)
    assert code == "restart-budget-spent"
    assert text.startswith("the PyTorchJob had no restart left (runPolicy.backoffLimit: 2): Job x has failed")


def test_a_policy_that_restarts_nothing_is_a_budget_of_none():
    code, text = told("PyTorchJob x is failed because 1 Worker replica(s) failed.", with_policy("Never"), {0: 1})
    assert code == "restart-budget-spent" and "no restart left (restartPolicy: Never)" in text


def test_an_exit_code_that_the_policy_takes_as_final_is_named():
    code, text = told(FAILING, with_policy("ExitCode"), {0: 137, 1: 1})
    assert code == "failure-policy-final"
    assert text == f"restartPolicy: ExitCode takes exit code 1 as final, as all from 1 to 127: {FAILING}"


@pytest.mark.parametrize(
    ("message", "policy", "codes"),
    [
        ("Job x has failed because it was active longer than specified deadline", "ExitCode", {0: 1}),
        ("Job x has failed because it was active longer than specified deadline", "Never", {}),
        (FAILING, "ExitCode", {0: 137}),
        (FAILING, "OnFailure", {0: 1}),
    ],
)
def test_another_reason_is_told_as_it_is(message, policy, codes):
    code, text = told(message, with_policy(policy), codes)
    assert (code, text) == ("crash-loop", f"the PyTorchJob has failed (PyTorchJobFailed): {message}")
