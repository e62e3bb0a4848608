"""`chaoskit nightly --gpus` on a cluster: experiments go side by side, and their pods take no more GPUs than that."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading

import pytest
from kubernetes import client, config

from chaoskit.errors import ExitCode
from tests.docker_images import images
from tests.environments.kubernetes.conftest import connection, left  # noqa: F401
from tests.users import REPOSITORY

pytestmark = [pytest.mark.exhaustive, pytest.mark.launches]

GPU = "nvidia.com/gpu"
SCRIPT = "import runpy\nrunpy.run_module('tinymodels.train', run_name='__main__')\n"
SETTINGS = f"""
env = "kubernetes"
[kubernetes]
resources = {{limits = {{"{GPU}" = "2"}}}}
"""


class GpuCount(threading.Thread):
    """Counts the GPUs that pods of a namespace take, again and again; `seen` are the different counts."""

    def __init__(self, core, namespace):
        super().__init__(daemon=True)
        self.core, self.namespace = core, namespace
        self.seen, self.over = set(), threading.Event()

    def run(self):
        while not self.over.wait(0.2):
            pods = self.core.list_namespaced_pod(self.namespace).items
            alive = [pod for pod in pods if pod.status.phase not in ("Succeeded", "Failed")]
            limits = [one.resources.limits or {} for pod in alive for one in pod.spec.containers if one.resources]
            self.seen.add(sum(int(each.get(GPU, 0)) for each in limits))


def test_experiments_side_by_side_stay_within_the_gpus(machines, connection, tmp_path):  # noqa: F811
    cluster, store = machines.cluster, machines.volume / "store"
    shutil.copytree(REPOSITORY / "tinymodels", store / "code" / "tinymodels")
    (store / "code" / "train.py").write_text(SCRIPT)
    (tmp_path / "chaoskit.toml").write_text(SETTINGS)
    words = [
        sys.executable, "-m", "chaoskit", "nightly", "--image", images.image(), "--gpus", "5", "--minutes", "60",
        "--context", cluster.context, "--kubeconfig", str(cluster.kubeconfig), "--namespace", cluster.namespace,
        "--volume", f"runs:{machines.volume}", "--dir", str(store), "--address", machines.address,
        "-k", "one_rank_mid_epoch or epoch_boundary or test_resume", "--no-proof", "--json", str(tmp_path / "out.json"),
        "--", "torchrun", "--nproc-per-node", "1", str(store / "code" / "train.py"), "--out", "{out}",
    ]  # fmt: skip
    with config.new_client_from_config(str(cluster.kubeconfig), context=cluster.context) as api:
        core = client.CoreV1Api(api)
        for node in core.list_node().items:
            core.patch_node_status(node.metadata.name, {"status": {"allocatable": {GPU: "8"}, "capacity": {GPU: "8"}}})
        count = GpuCount(core, cluster.namespace)
        count.start()
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=1500)
        count.over.set()
        count.join()
    assert done.returncode == ExitCode.PASS, done.stderr
    found = json.loads((tmp_path / "out.json").read_text())["experiments"]
    assert {each["verdict"] for each in found} == {"pass"} and len(found) == 3
    assert max(count.seen) == 4, f"two experiments of 2 GPUs fit into 5: {count.seen}"
    assert left(connection, cluster.namespace) == []
