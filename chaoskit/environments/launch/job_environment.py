"""The environment variables of a job: the harness's own, the user's additions, those of the probe, and those that
tell torchrun where the other nodes are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from chaoskit.environments.environment import RunSpec
from chaoskit.environments.launch.mode import Mode
from chaoskit.protocol.fingerprint import LENT, library

PROBE_SITE = Path(__file__).parents[2] / "probe" / "site"
#: The port of the rendezvous; torchrun's own default.
RENDEZVOUS_PORT = 29400


def job_environment(
    spec: RunSpec,
    *,
    run_dir: Path,
    launch: int,
    mode: Mode,
    tmp: Path | None,
    gate: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The variables for launch number `launch`. The probe writes its records below `run_dir`, temporary files go to
    `tmp` (None: to the usual place), and `gate` are the variables of the gate's door, None in a run without a gate."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CHAOSKIT_")}
    if tmp is not None:
        env["TMPDIR"] = str(tmp)
    env.update(spec.env)
    # torchrun takes PET_* as defaults of its flags, so a flag on the user's command line still wins.
    env.setdefault("PET_TEE", "3")
    env.setdefault("PET_LOG_DIR", str(run_dir / "logs" / "ranks" / f"launch-{launch}"))
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(PROBE_SITE), env.get("PYTHONPATH"))))
    env["CHAOSKIT_RUN"] = str(run_dir)
    env["CHAOSKIT_ID"] = spec.run_id
    env["CHAOSKIT_LAUNCH"] = str(launch)
    env["CHAOSKIT_OUT"] = str(spec.out)
    env[LENT] = library()
    env.update(gate or {})
    if mode.captures:
        env["CHAOSKIT_CAPTURES"] = json.dumps(mode.captures)
    if spec.learning:
        env["CHAOSKIT_LEARN"] = "1"
    return env


def node_environment(
    spec: RunSpec, *, node: str, run_dir: Path, launch: int, tmp: Path | None, meeting: str
) -> dict[str, str]:
    """The additional variables of one of several nodes. `meeting` is HOST:PORT of the rendezvous. What the user has
    set stays.
    """
    nodes = spec.nodes
    own = {
        "PET_NNODES": str(nodes),
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": meeting,
        "PET_RDZV_ID": spec.run_id,
        "PET_LOG_DIR": str(run_dir / "logs" / "ranks" / f"launch-{launch}" / node),
        **({"TMPDIR": str(tmp)} if tmp is not None else {}),
        **({"PET_RDZV_CONF": nodes.rdzv_conf} if nodes.rdzv_conf else {}),
    }
    given = {name: spec.env[name] for name in own if name in spec.env}
    elastic = {"CHAOSKIT_ELASTIC": "1"} if nodes.elastic else {}
    return {**own, **given, **elastic, "CHAOSKIT_NODE": node}
