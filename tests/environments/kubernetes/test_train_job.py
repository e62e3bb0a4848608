"""A TrainJob as the job template of a team: what can be run, what is added, and why its controllers give up."""

from __future__ import annotations

import pytest

from chaoskit.environments.kubernetes.filled_template import difference, filled
from chaoskit.environments.kubernetes.job_template import JobTemplate
from chaoskit.environments.kubernetes.objects import owned
from chaoskit.environments.kubernetes.selectors import INDEX, RunIdentity
from chaoskit.environments.kubernetes.team_jobs.team_job import ControllerReport
from chaoskit.environments.kubernetes.team_jobs.train_job import TrainJob
from chaoskit.errors import UsageError
from chaoskit.nodes import ClusterPlace
from tests.environments.kubernetes.a_job import IMAGE, OUT, a_job_set, a_runtime, a_train_job, added
from tests.kubernetes_server.train_job_controller import new_job_set

RUN = RunIdentity("staging", "r1", "u1")
OWN = {"chaoskit.dev/role": "node", "chaoskit.dev/run": "r1", "chaoskit.dev/owner": "u1"}


def a_patch(job="node", **pod):
    """A patch of the team's own, of the pods of a job of the runtime."""
    replicated = {"name": job, "template": {"spec": {"template": {"spec": pod}}}}
    return {
        "manager": "acme.io/team",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [replicated]}}},
    }


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("apiVersion", "trainer.kubeflow.org/v2", "has the kind trainer.kubeflow.org/v2 TrainJob, which is not supp"),
        ("spec.runtimeRef", None, "has no mapping spec.runtimeRef"),
        ("spec.trainer", None, "has no mapping spec.trainer"),
        ("spec.trainer.image", None, "has no spec.trainer.image: write it, since chaoskit looks into it, and chaoskit"),
        ("spec.trainer.command", None, "has no spec.trainer.command: write it, since chaoskit starts it"),
        ("spec.trainer.numNodes", None, "has no spec.trainer.numNodes: write how many nodes the job has"),
        ("spec.trainer.numNodes", "2", "has no spec.trainer.numNodes"),
        ("spec.trainer.env", [{"name": "PET_NNODES", "value": "2"}], "sets PET_NNODES, which the controller sets"),
        ("spec.trainer.env", {"A": "1"}, "has a container 'node' whose env is no list of names and values"),
        ("spec.trainer.args", ["train.py"], "names no {out}"),
        ("spec.initializer", {"model": {}}, "has an initializer, whose pods are no nodes: fetch models and data"),
        ("spec.runtimePatches", {"a": 1}, "has spec.runtimePatches that are no list"),
        ("spec.runtimePatches", [a_patch("dataset-initializer")], "patches another job of its runtime than 'node'"),
        ("spec.suspend", True, "is suspended: leave suspend out"),
        (
            "spec.trainer.args",
            ["--rdzv-endpoint=nightly-train-node-0-0.nightly-train:29400", "{out}"],
            r"names its first pod, nightly-train-node-0-0, in .* so write {job}-node-0-0\.{service}",
        ),
    ],
)
def test_what_cannot_be_run_is_one_sentence_with_the_remedy(path, value, said):
    with pytest.raises(UsageError, match=said):
        JobTemplate(a_train_job(path, value))


def test_the_trainer_has_the_agent_and_a_patch_has_the_volume_and_the_labels():
    patch = a_patch(nodeSelector={"pool": "gpu"})
    template = JobTemplate(a_train_job("spec.runtimePatches", [patch]))
    assert (template.nodes, template.image, template.words[0]) == (2, IMAGE, "torchrun")
    place = template.place(ClusterPlace(namespace="staging", claim="runs", path="/ckpt"))
    assert place.node_selector == {"pool": "gpu"}, "the pod that looks at the image has them, too"
    made = owned(filled(template, added(), out=OUT), RUN, role="node")
    trainer, (team, own) = made["spec"]["trainer"], made["spec"]["runtimePatches"]
    assert trainer["command"][-2:] == ["--", "torchrun"] and trainer["args"][-1] == str(OUT)
    assert trainer["args"][1] == "--rdzv-endpoint=chaoskit-r1-node-0-0.chaoskit-r1:29400"
    assert [one["name"] for one in trainer["env"]] == ["CHAOSKIT_POD", "LENT"] and trainer["numProcPerNode"] == 1
    assert own["manager"] == "chaoskit.dev/run" and team["manager"] == "acme.io/team"
    gone = [line for line in difference(template, made).splitlines()[2:] if line.startswith("-")]
    assert len(gone) == 3, "the name, the address and {out} are filled in, and nothing is taken away"


def test_the_job_set_that_is_made_of_it_has_the_labels_of_the_run_everywhere():
    made = owned(filled(JobTemplate(a_train_job()), added(), out=OUT), RUN, role="node")
    job_set = new_job_set({**made, "metadata": {**made["metadata"], "uid": "u2"}}, a_runtime())
    (job,) = job_set["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    assert job_set["metadata"]["labels"] == pod["metadata"]["labels"] == OWN
    assert job["template"]["metadata"]["labels"] == {**step, **OWN}
    (container,) = pod["spec"]["containers"]
    assert container["image"] == IMAGE and container["command"][-1] == "torchrun"
    assert [one["mountPath"] for one in container["volumeMounts"]] == ["/ckpt/store", "/ckpt/store/runs/r1"]
    claim = {"persistentVolumeClaim": {"claimName": "runs"}}
    assert pod["spec"]["volumes"] == [{"name": f"chaoskit-runs-{number}", **claim} for number in range(2)]
    assert [one["name"] for one in container["volumeMounts"]] == ["chaoskit-runs-0", "chaoskit-runs-1"]


def test_a_node_is_a_completion_index():
    job = TrainJob(a_train_job())
    assert job.number({"metadata": {"labels": {INDEX: "1"}}}) == 1
    assert job.selector(RUN, "node", 1).labels == {**OWN, INDEX: "1"}
    assert job.address(1, job="a", service="b") == "a-node-0-1.b"
    assert job.suspension(False) == {"spec": {"suspend": False}}


def failed(reason, **manifest):
    condition = {"type": "Failed", "status": "True", "reason": reason, "message": "the controller's words"}
    return {"metadata": {}, **manifest, "status": {"conditions": [condition]}}


def told(found, *made, codes=None):
    report = ControllerReport(job=found, made=made, container="node", codes=codes or {})
    over = TrainJob(a_train_job()).gave_up(report)
    return (over.code, str(over)) if over is not None else None


def test_what_its_job_set_says():
    spec = a_job_set()["spec"]
    initializer = {"name": "model-initializer", "template": {}}
    beside = {**spec, "replicatedJobs": [initializer, *spec["replicatedJobs"]]}
    assert told({"metadata": {}}, {"metadata": {}, "spec": beside}) is None
    code, text = told(failed("ReachedMaxRestarts"), failed("ReachedMaxRestarts", spec=beside))
    assert code == "restart-budget-spent" and "failurePolicy.maxRestarts: 2" in text
    bare = {name: value for name, value in beside.items() if name != "failurePolicy"}
    job = failed("BackoffLimitExceeded", spec=spec["replicatedJobs"][0]["template"]["spec"])
    code, text = told(failed("FailedJobs"), failed("FailedJobs", spec=bare), job)
    assert code == "restart-budget-spent" and "the Job had no restart left (backoffLimit: 6" in text


def test_another_reason_is_told_as_it_is():
    assert told(failed("DeadlineExceeded")) == (
        "crash-loop", "the TrainJob has failed (DeadlineExceeded): the controller's words",
    )  # fmt: skip
