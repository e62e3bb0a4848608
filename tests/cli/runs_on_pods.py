"""`chaoskit run --env kubernetes` as a user types it, on a trainer that lies on the volume of the cluster."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.docker_images import images
from tests.environments.kubernetes.a_job import a_job
from tests.environments.kubernetes.conftest import left
from tests.kubernetes_server.fixtures import Machines
from tests.users import REPOSITORY

_SCRIPT = "import runpy\nrunpy.run_module({module!r}, run_name='__main__')\n"


def of_torchrun(script: str, *, max_restarts: int = 2, **spec: Any) -> dict[str, Any]:
    """A team's manifest: torchrun in two pods that meet at the first one."""
    words = [
        "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-endpoint={job}-0.{service}:29400",
        f"--max-restarts={max_restarts}", script, "--out", "{out}",
    ]  # fmt: skip
    container = {"name": "trainer", "image": images.image(), "command": ["torchrun"], "args": words}
    container["env"] = [{"name": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "value": "1"}]
    made = a_job("spec.template.spec.containers", [container])
    made["spec"] |= {"backoffLimit": 20, **spec}
    return made


class RunsOnPods:
    """Types commands in `directory`. `script` is the trainer."""

    def __init__(self, machines: Machines, connection: Any, directory: Path) -> None:
        self._machines, self._connection, self._directory = machines, connection, directory
        self._store = machines.volume / "store"
        shutil.copytree(REPOSITORY / "tinymodels", self._store / "code" / "tinymodels")
        self.script = self._store / "code" / "train.py"

    def experiments(
        self, module: str, chosen: str, *options: str, command: Sequence[str] = ()
    ) -> tuple[int, dict[str, Any]]:
        """Run the experiments that are chosen on a trainer; the exit code, and the results by name. Nothing is left."""
        self.script.write_text(_SCRIPT.format(module=module))
        cluster, answer = self._machines.cluster, self._directory / "found.json"
        words = [
            sys.executable, "-m", "chaoskit", "run", "--env", "kubernetes",
            "--context", cluster.context, "--kubeconfig", str(cluster.kubeconfig), "--namespace", cluster.namespace,
            "--volume", f"runs:{self._machines.volume}", "--dir", str(self._store),
            "--address", self._machines.address, "-k", chosen, "-n", "1", "--no-proof", "--json", str(answer),
            *options, *(["--", *command] if command else []),
        ]  # fmt: skip
        done = subprocess.run(words, cwd=self._directory, capture_output=True, text=True, timeout=900, check=False)
        assert answer.exists(), done.stderr
        found = json.loads(answer.read_text())["experiments"]
        assert left(self._connection, cluster.namespace) == []
        return done.returncode, {each["name"]: each for each in found}
