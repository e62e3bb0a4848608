"""`chaoskit run --harness-image` as a user types it on a machine without the volume: chaoskit itself runs in a pod.

Its service account has the printed Role alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
import yaml

from chaoskit.cli import main
from chaoskit.errors import ExitCode
from tests.cli.runs_on_pods import of_torchrun
from tests.docker_images import images
from tests.environments.kubernetes.conftest import connection, left  # noqa: F401
from tests.users import REPOSITORY

pytestmark = pytest.mark.launches
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def laptop(machines, connection, api_server, tmp_path, capsys):  # noqa: F811
    """Starts chaoskit with words; nothing of it may be left."""
    cluster = machines.cluster
    machines.volume.chmod(0o777)
    code = machines.volume / "code"
    shutil.copytree(REPOSITORY / "tinymodels", code / "tinymodels")
    (code / "train.py").write_text("import runpy\nrunpy.run_module('tinymodels.train', run_name='__main__')\n")
    reach = ["--context", cluster.context, "--kubeconfig", str(cluster.kubeconfig), "--namespace", cluster.namespace]
    assert main.main(["kubernetes", "check", *reach, "--role", "plain", "--account", "chaoskit"]) == ExitCode.PASS
    role, binding = yaml.safe_load_all(capsys.readouterr().out)
    api_server.put("serviceaccounts", {"metadata": {"name": "chaoskit"}}, namespace=cluster.namespace)
    api_server.put("roles", role, group=RBAC, namespace=cluster.namespace)
    api_server.put("rolebindings", binding, group=RBAC, namespace=cluster.namespace)

    def start(*more, path="/mnt/runs", harness="chaoskit", template=False):
        script = f"{path}/chaoskit/code/train.py"
        job = ["--", "torchrun", "--nproc-per-node", "1", script, "--out", "{out}"]
        given = ["--image", images.image(), "--nodes", "2"]
        if template:
            (tmp_path / "job.yaml").write_text(yaml.safe_dump(of_torchrun(script)))
            given, job = ["--job-template", "job.yaml"], []
        words = [
            sys.executable, "-m", "chaoskit", "run", "--env", "kubernetes", *reach, *given,
            "--harness-image", images.image(harness), "--volume", f"runs:{path}",
            "-k", "one_rank_mid_epoch", "-n", "1", "--no-proof", *more, *job,
        ]  # fmt: skip
        env = {**os.environ, "PYTHONFAULTHANDLER": "1"}
        return subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    (machines.volume / "chaoskit").mkdir()
    shutil.move(code, machines.volume / "chaoskit" / "code")
    yield start
    assert left(connection, cluster.namespace) == []


@pytest.mark.exhaustive
def test_a_run_from_a_machine_without_the_volume(laptop, tmp_path, machines):
    process = laptop("--json", "found.json", "--junitxml", "junit.xml", "--report", "pages", "--summary", "sum.md")
    out, err = process.communicate(timeout=400)
    assert process.returncode == ExitCode.PASS, out + err
    (found,) = json.loads((tmp_path / "found.json").read_text())["experiments"]
    assert (found["name"], found["verdict"]) == ("test_one_rank_mid_epoch", "pass")
    assert (tmp_path / "pages" / "index.html").is_file() and "<testsuite" in (tmp_path / "junit.xml").read_text()
    assert (tmp_path / "sum.md").is_file() and "Traceback" not in out + err
    assert "chaoskit runs in the pod" in err and "1 experiment to run" in out and "chaoskit-has-ended" not in out
    assert list((machines.volume / "chaoskit" / "runs").iterdir())


@pytest.mark.exhaustive
def test_the_job_template_goes_along(laptop, tmp_path):
    process = laptop("--json", "found.json", template=True)
    out, err = process.communicate(timeout=400)
    assert process.returncode == ExitCode.PASS, out + err
    (found,) = json.loads((tmp_path / "found.json").read_text())["experiments"]
    assert (found["name"], found["verdict"]) == ("test_one_rank_mid_epoch", "pass")


@pytest.mark.slow
def test_ctrl_c_lets_chaoskit_in_the_pod_clean_up(laptop, machines, until):
    process = laptop()
    until(lambda: len(machines.kubelet.running()) == 3, timeout=120)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == ExitCode.INTERRUPTED and "interrupted" in err, out + err


@pytest.mark.slow
def test_a_usage_error_in_the_pod_is_that_of_the_command(laptop):
    process = laptop("-k", "no_such_experiment")
    out, err = process.communicate(timeout=120)
    assert process.returncode == ExitCode.USAGE and "no_such_experiment" in out, out + err


@pytest.mark.slow
def test_an_image_without_chaoskit(laptop):
    process = laptop(harness="no-python")
    out, err = process.communicate(timeout=120)
    assert process.returncode == ExitCode.USAGE and "the pod of chaoskit cannot run in namespace" in err, out + err
