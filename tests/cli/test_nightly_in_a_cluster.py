"""A night in a cluster as a user sets it up: the manifests are applied, and the Job of the CronJob runs chaoskit in a
pod, which makes the pods of the job with its service account alone."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
import yaml
from kubernetes import client, config

from chaoskit.cli.main import main
from chaoskit.engine.run_store import Store
from chaoskit.errors import ExitCode
from chaoskit.studies.nights.archive import Archive
from tests.docker_images import images
from tests.environments.kubernetes.conftest import connection, left  # noqa: F401
from tests.users import REPOSITORY

pytestmark = pytest.mark.launches

MOUNT = "/mnt/runs"
SCRIPT = "import runpy\nrunpy.run_module({module!r}, run_name='__main__')\n"
ENDED = ("Complete", "Failed")


@pytest.fixture
def night(machines, connection, tmp_path, monkeypatch, capsys):  # noqa: F811
    """Applies the manifests for a trainer, runs one night, and gives the Job's condition, chaoskit's exit code, what it
    said, and its suite."""
    cluster, store = machines.cluster, machines.volume / "chaoskit"
    shutil.copytree(REPOSITORY / "tinymodels", store / "code" / "tinymodels")
    script = store / "code" / "train.py"
    monkeypatch.chdir(tmp_path)

    def run(module, chosen, *, bound=True):
        script.write_text(SCRIPT.format(module=module))
        words = ["kubernetes", "manifest", "--harness-image", images.image("chaoskit"), "--image", images.image(),
                 "--namespace", cluster.namespace, "--volume", f"runs:{MOUNT}", "-k", chosen, "--no-proof",
                 "--minutes", "30", "--publish", f"{MOUNT}/pages",
                 "--", "torchrun", "--nproc-per-node", "2", f"{MOUNT}/chaoskit/code/train.py", "--out", "{out}",
                 ]  # fmt: skip
        assert main(words) == ExitCode.PASS
        found = list(yaml.safe_load_all(capsys.readouterr().out))
        with config.new_client_from_config(str(cluster.kubeconfig), context=cluster.context) as api:
            job = applied(api, cluster.namespace, found, bound=bound)
            condition = until_ended(client.BatchV1Api(api), cluster.namespace, job)
            core = client.CoreV1Api(api)
            (pod,) = core.list_namespaced_pod(cluster.namespace, label_selector=f"job-name={job}").items
            said = core.read_namespaced_pod_log(pod.metadata.name, cluster.namespace)
            code = pod.status.container_statuses[0].state.terminated.exit_code
        mine = [name for name in left(connection, cluster.namespace) if not name.startswith("chaoskit-nightly")]
        assert mine == [], said
        archive = Archive(Store(store))
        return condition, code, said, archive.read(archive.last()) if archive.all() else None

    return run


def applied(api, namespace, found, *, bound):
    """Make the objects, and a Job as the controller of CronJobs would; its name."""
    core, batch, rbac = client.CoreV1Api(api), client.BatchV1Api(api), client.RbacAuthorizationV1Api(api)
    account, role, binding, settings, night = found
    core.create_namespaced_service_account(namespace, account)
    rbac.create_namespaced_role(namespace, role)
    if bound:
        rbac.create_namespaced_role_binding(namespace, binding)
    core.create_namespaced_config_map(namespace, settings)
    batch.create_namespaced_cron_job(namespace, night)
    name = f"{night['metadata']['name']}-29000000"
    batch.create_namespaced_job(namespace, {"metadata": {"name": name}, **night["spec"]["jobTemplate"]})
    return name


def until_ended(batch, namespace, job):
    """How the Job ended."""
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline:
        conditions = batch.read_namespaced_job(job, namespace).status.conditions or ()
        if ended := [one.type for one in conditions if one.type in ENDED and one.status == "True"]:
            return ended[0]
        time.sleep(0.5)
    raise TimeoutError(job)


@pytest.mark.slow
def test_a_night_runs_in_a_pod_and_its_verdict_is_the_status_of_the_job(night, machines):
    condition, code, said, suite = night("tinymodels.train", "one_rank_mid_epoch")
    assert (condition, code) == ("Complete", ExitCode.PASS), said
    assert {one.name: one.verdict for one in suite.results} == {"test_one_rank_mid_epoch": "pass"}
    pages = Path(machines.volume, "pages")
    assert (pages / "index.html").is_file() and (pages / "nights" / suite.id / "index.html").is_file()


@pytest.mark.exhaustive
def test_a_night_that_finds_a_problem_is_a_failed_job(night):
    condition, code, said, suite = night("tinymodels.gallery.rng_missing", "one_rank_mid_epoch")
    assert (condition, code) == ("Failed", ExitCode.FAIL), said
    assert "rng-not-restored" in suite.results[0].codes


@pytest.mark.slow
def test_without_its_role_the_pod_says_which_rule_is_missing(night):
    condition, code, said, suite = night("tinymodels.train", "one_rank_mid_epoch", bound=False)
    assert (condition, suite) == ("Failed", None) and code in (ExitCode.USAGE, ExitCode.INTERNAL), said
    assert "permissions are missing in namespace" in said and "add to a Role" in said and "Traceback" not in said
