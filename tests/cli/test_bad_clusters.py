"""`chaoskit run --env kubernetes` where a cluster refuses or fails: one sentence, the remedy, the exit code,
and nothing is left."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import yaml

from chaoskit.environments.kubernetes import permissions
from chaoskit.environments.kubernetes.permissions import ClusterUser, SmallestRole
from chaoskit.errors import ExitCode
from tests.docker_images import images
from tests.environments.kubernetes.conftest import connection, left  # noqa: F401
from tests.kubernetes_server.admission import absent_webhook, policy, webhook
from tests.users import REPOSITORY

pytestmark = pytest.mark.launches
RBAC = "rbac.authorization.k8s.io"
#: For each process of chaoskit: no pod and no server is waited for longer than some seconds.
SOONER = """
from chaoskit.environments.kubernetes import connection, image_look, pods
image_look.UP_LIMIT = {up}
pods.PodNodes.__init__.__kwdefaults__["limit"] = {up}
connection.ClusterConnection.__init__.__kwdefaults__["patience"] = {patience}
"""
MAIN = "import sys; from chaoskit.cli.main import main; sys.exit(main())"


class Shell:
    """Types commands in a directory of the user's own."""

    def __init__(self, machines, directory):
        self.machines, self.directory = machines, directory
        self.cluster, self.store = machines.cluster, machines.volume / "store"
        shutil.copytree(REPOSITORY / "tinymodels", self.store / "code" / "tinymodels")
        self.script = self.store / "code" / "train.py"
        self.script.write_text("import runpy\nrunpy.run_module('tinymodels.train', run_name='__main__')\n")

    def words(self, *more, image="", kubeconfig="", namespace="", volume="", names="one_rank_mid_epoch"):
        return [
            sys.executable, "-c", MAIN, "run", "--env", "kubernetes",
            "--image", image or images.image(), "--context", self.cluster.context,
            "--kubeconfig", kubeconfig or str(self.cluster.kubeconfig),
            "--namespace", namespace or self.cluster.namespace,
            "--volume", f"{volume or 'runs'}:{self.machines.volume}",
            "--dir", str(self.store), "--address", self.machines.address, "--nodes", "2", "-k", names,
            "-n", "1", "--no-proof", *more, "--",
            "torchrun", "--nproc-per-node", "1", str(self.script), "--out", "{out}",
        ]  # fmt: skip

    def start(self, *more, patience=1.0, up=4.0, **how):
        (self.directory / "sitecustomize.py").write_text(SOONER.format(patience=patience, up=up))
        paths = [str(self.directory), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        return subprocess.Popen(
            self.words(*more, **how), cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=env,
        )  # fmt: skip

    def run(self, *more, **how):
        """The exit code, and the last line of standard error, on which nothing follows but where the traceback is."""
        return self.end(self.start(*more, **how))

    def end(self, process):
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err + out
        print(out, err)
        return process.returncode, err.strip().splitlines()[-1]


@pytest.fixture
def shell(machines, connection, tmp_path):  # noqa: F811
    yield Shell(machines, tmp_path)
    assert left(connection, machines.cluster.namespace) == []


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ({"kubeconfig": "/none"}, ExitCode.USAGE, "no kubeconfig at /none: set KUBECONFIG, or give --kubeconfig FILE"),
        ({"namespace": "kube-system"}, ExitCode.USAGE, "'kube-system' is one of the cluster itself: use a name"),
        ({"namespace": "absent"}, ExitCode.USAGE, '"absent" not found: .*kubectl create namespace absent'),
        ({"image": "absent:1"}, ExitCode.USAGE, "ErrImagePull .*check the name of the image.*pull-secret"),
        ({"volume": "absent"}, ExitCode.USAGE, "no volume claim 'absent' in its namespace: make it, .*--volume"),
    ],
)
def test_what_is_not_there(shell, how, code, said):
    found, last = shell.run(**how)
    assert found == code and re.match(f"chaoskit: .*{said}", last), last


def test_credentials_that_have_expired(shell, api_server, tmp_path):
    code, last = shell.run(kubeconfig=str(api_server.kubeconfig(tmp_path, token="expired")))
    assert code == ExitCode.USAGE and "does not accept the credentials of this context: log in" in last


@pytest.mark.parametrize(
    "gone", [("pods", "create"), ("pods/log", "get"), ("jobs", "list"), ("configmaps", "list"), ("services", "create")]
)
def test_each_permission_that_is_missing_is_named_with_its_rule(shell, api_server, cluster, tmp_path, gone):
    api_server.add_user("chaosbot")
    text = SmallestRole(cluster.namespace, permissions.BASE, user=ClusterUser("chaosbot")).as_yaml()
    role, binding = yaml.safe_load_all(text)
    role["rules"] = [
        {"apiGroups": [rule.group], "resources": [resource], "verbs": [verb]}
        for rule in permissions.BASE
        for resource in rule.resources
        for verb in rule.verbs
        if (resource, verb) != gone
    ]
    api_server.put("roles", role, group=RBAC, namespace=cluster.namespace)
    api_server.put("rolebindings", binding, group=RBAC, namespace=cluster.namespace)
    code, last = shell.run(kubeconfig=str(api_server.kubeconfig(tmp_path, token="chaosbot")))
    assert code == ExitCode.USAGE
    assert f"resources: [{gone[0]}], verbs: [{gone[1]}]}} (chaoskit" in last and "add to a Role of the names" in last


@pytest.mark.parametrize("which", ["look", "node0"])
def test_no_machine_takes_a_pod(shell, machines, which):
    machines.kubelet.scheduler.unschedulable = (
        lambda pod: "Insufficient nvidia.com/gpu" if which in pod["metadata"]["name"] else None
    )
    code, last = shell.run()
    assert code == (ExitCode.USAGE if which == "look" else ExitCode.INTERNAL)
    assert "0/2 nodes are available: 2 Insufficient nvidia.com/gpu" in last and "smaller resources" in last


def test_a_claim_that_is_not_bound(shell, machines):
    said = "pod has unbound immediate PersistentVolumeClaims"
    machines.kubelet.scheduler.unschedulable = lambda pod: said
    code, last = shell.run()
    assert code == ExitCode.USAGE and said in last and "kubectl describe pvc" in last


def test_a_quota_that_is_used_up(shell, api_server, cluster):
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
    api_server.put("resourcequotas", quota, namespace=cluster.namespace)
    code, last = shell.run()
    assert code == ExitCode.INTERNAL and "exceeded quota: small" in last and "ask for a larger quota" in last


@pytest.mark.parametrize("plural", ["configmaps", "pods"])
def test_a_webhook_or_a_policy_that_refuses(shell, api_server, plural):
    def refuses(attempt):
        return "not on Fridays" if attempt.verb == "create" and attempt.resource.plural == plural else None

    hooks = api_server.api.admission.hooks
    for hook, named in (
        (webhook("guard.example.com", plural, refuses), 'admission webhook "guard.example.com" denied'),
        (policy("fridays", "", refuses), "ValidatingAdmissionPolicy 'fridays'"),
    ):
        hooks[:] = [hook]
        code, last = shell.run()
        assert code == ExitCode.USAGE and named in last and "not on Fridays: change what it names" in last


def test_a_webhook_that_does_not_answer(shell, api_server):
    api_server.api.admission.hooks.append(absent_webhook("lost.example.com", "services"))
    code, last = shell.run()
    assert code == ExitCode.INTERNAL
    assert 'calling webhook "lost.example.com"' in last and "check that its pods run" in last


@pytest.mark.exhaustive
def test_the_server_is_away_in_mid_run_and_comes_back(shell, machines, api_server, until):
    process = shell.start("--json", "found.json", patience=60.0, up=60.0)
    until(lambda: len(machines.kubelet.running()) == 2, timeout=60)
    with api_server.away():
        time.sleep(8)
    code, _ = shell.end(process)
    (found,) = json.loads((shell.directory / "found.json").read_text())["experiments"]
    assert (code, found["verdict"]) == (ExitCode.PASS, "pass")


def test_the_server_is_away_for_too_long(shell, machines, api_server, until):
    process = shell.start("--json", "found.json", patience=2.0)
    until(lambda: len(machines.kubelet.running()) == 2, timeout=60)
    with api_server.away():
        code, last = shell.end(process)
    (found,) = json.loads((shell.directory / "found.json").read_text())["experiments"]
    assert code == ExitCode.INTERNAL and "does not answer" in last and "check that the cluster runs" in last
    assert found["verdict"] == "inconclusive" and found["trouble"] == "environment"
    clean = [sys.executable, "-m", "chaoskit", "clean", "--dir", str(shell.store)]
    assert subprocess.run(clean, check=False, capture_output=True).returncode == ExitCode.PASS


def test_the_harness_is_evicted(shell, machines, until):
    """SIGTERM, as for a pod that is evicted."""
    process = shell.start()
    until(lambda: len(machines.kubelet.running()) == 2, timeout=60)
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code, last = shell.end(process)
    assert code == ExitCode.INTERRUPTED and "interrupted" in last
    assert time.monotonic() - begun < 60
