"""`chaoskit run --job-template` with jobs whose kinds are not part of Kubernetes, each under its controller."""

from __future__ import annotations

import json

import pytest
import yaml

from chaoskit.errors import ExitCode
from tests.cli.runs_on_pods import RunsOnPods
from tests.docker_images import images
from tests.environments.kubernetes.a_job import a_job_set, a_runtime, a_train_job, an_elastic_job
from tests.environments.kubernetes.conftest import connection  # noqa: F401

#: In CI the pods of all kinds are tried with ranks that do no work, in tests/environments.
pytestmark = [pytest.mark.launches, pytest.mark.exhaustive]
GOOD = "one_rank_mid_epoch or worker_node or test_suspended"
PASSED = dict.fromkeys(("test_one_rank_mid_epoch", "test_worker_node", "test_suspended"), "pass")


def container(name, *words):
    env = [{"name": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "value": "1"}]
    return {"name": name, "image": images.image(), "command": ["torchrun"], "args": list(words), "env": env}


def job_set(script, *, torchrun=2, job_set=5):
    """torchrun in two pods of the one Job, which fails with its first pod."""
    words = [
        "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-endpoint={job}-node-0-0.{service}:29400",
        f"--max-restarts={torchrun}", script, "--out", "{out}",
    ]  # fmt: skip
    made = a_job_set("spec.failurePolicy.maxRestarts", job_set)
    job = made["spec"]["replicatedJobs"][0]["template"]["spec"]
    job["backoffLimit"] = 0
    job["template"]["spec"]["containers"] = [container("trainer", *words)]
    return made


def pytorch_job(script, *, torchrun=2, policy="OnFailure"):
    """torchrun in two Workers, which the operator tells where they meet."""
    made = an_elastic_job("spec.elasticPolicy.maxRestarts", torchrun)
    made["spec"]["nprocPerNode"] = "1"
    workers = made["spec"]["pytorchReplicaSpecs"]["Worker"]
    workers["restartPolicy"] = policy
    workers["template"]["spec"]["containers"] = [container("pytorch", script, "--out", "{out}")]
    return made


def train_job(script, *, torchrun=2):
    """torchrun in two nodes, which a JobSet has that is made of a runtime."""
    words = [
        "--rdzv-backend=c10d", "--rdzv-endpoint={job}-node-0-0.{service}:29400", f"--max-restarts={torchrun}", script,
        "--out", "{out}",
    ]  # fmt: skip
    made = a_train_job()
    of_node = container("node", *words)
    made["spec"]["trainer"] |= {name: of_node[name] for name in ("image", "command", "args", "env")}
    return made


@pytest.fixture
def run(machines, connection, api_server, crds, tmp_path):  # noqa: F811
    """Runs experiments on a job that is made of the trainer; returns the exit code and the results by name."""
    runs = RunsOnPods(machines, connection, tmp_path)
    machines.kubelet.jobs.back_off = machines.kubelet.back_off = 1.0

    def experiments(chosen, make, *, runtime=None, **limits):
        for_trainer = a_runtime(**{"job": {"backoffLimit": 20}, "failurePolicy": {"maxRestarts": 5}, **(runtime or {})})
        namespace = machines.cluster.namespace
        api_server.put("trainingruntimes", for_trainer, group="trainer.kubeflow.org", namespace=namespace)
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(make(str(runs.script), **limits)))
        return runs.experiments("tinymodels.train", chosen, "--job-template", "job.yaml")

    return experiments


@pytest.mark.parametrize("make", [job_set, pytorch_job, train_job])
def test_a_good_trainer_passes(run, make):
    code, found = run(GOOD, make)
    assert {name: each["verdict"] for name, each in found.items()} == PASSED, found
    assert code == ExitCode.PASS


@pytest.mark.parametrize(
    ("make", "limits", "diagnosis", "said"),
    [
        pytest.param(
            job_set, {"job_set": 0}, "restart-budget-spent",
            "the JobSet had no restart left (failurePolicy.maxRestarts: 0, restarts: 0)",
        ),
        pytest.param(
            pytorch_job, {"policy": "Never"}, "restart-budget-spent",
            "the PyTorchJob had no restart left (restartPolicy: Never)",
        ),
        pytest.param(
            pytorch_job, {"policy": "ExitCode"}, "failure-policy-final",
            "restartPolicy: ExitCode takes exit code 1 as final",
        ),
        pytest.param(
            train_job, {"runtime": {"job": {"backoffLimit": 1}, "failurePolicy": None}}, "restart-budget-spent",
            "the JobSet has no failurePolicy, so no failed Job is restarted; the Job had no restart left",
        ),
    ],
)  # fmt: skip
def test_a_job_that_its_controller_does_not_restart_is_a_finding(run, make, limits, diagnosis, said):
    code, found = run("one_rank_mid_epoch", make, torchrun=0, **limits)
    (one,) = found.values()
    assert code == ExitCode.FAIL and diagnosis in one["codes"], one
    assert said in json.dumps(one)
