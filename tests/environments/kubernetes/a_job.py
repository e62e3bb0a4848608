"""The manifest of an Indexed Job as a team has it."""

from __future__ import annotations

import copy
from typing import Any

IMAGE = "registry/trainer:7"
WORDS = ["torchrun", "--nnodes=2", "--rdzv-endpoint={job}-0.{service}:29400", "train.py", "--out", "{out}"]


def a_job(path: str = "", value: Any = None) -> dict[str, Any]:
    """The manifest with this value at a path such as `spec.completions`, or without it if the value is None."""
    container = {"name": "trainer", "image": IMAGE, "command": WORDS[:1], "args": WORDS[1:]}
    made: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "nightly-train", "labels": {"team": "vision"}},
        "spec": {
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    if path:
        part, *names = made, *path.split(".")
        *above, last = [int(name) if name.isdecimal() else name for name in names]
        for name in above:
            part = part[name]
        if value is None:
            del part[last]
        else:
            part[last] = value
    return copy.deepcopy(made)
