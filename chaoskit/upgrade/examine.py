"""Says what an interpreter has, in JSON: a script that is run inside it, by its path.

Standard library only, and nothing that an old Python could not read: it is there to say that it is too old.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib import metadata
from typing import Any


def _torch(told: dict[str, Any]) -> None:
    """The versions of torch and of what it was built with."""
    import torch

    told["torch"] = str(torch.__version__)
    if torch.version.cuda:
        told["cuda"] = str(torch.version.cuda)
        told["cudnn"] = str(torch.backends.cudnn.version())
        told["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    elif getattr(torch.version, "hip", None):
        told["hip"] = str(torch.version.hip)


def _algorithm(importable: str) -> str:
    """How the probe would make fingerprints here."""
    with open(importable) as file:
        exec(file.read(), {"__file__": importable})
    from chaoskit.fingerprint import ALGORITHM

    return ALGORITHM


def _main(importable: str) -> None:
    versions: dict[str, Any] = {"python": platform.python_version()}
    told: dict[str, Any] = {}
    try:
        _torch(versions)
    except Exception as error:
        if "torch" not in versions:  # what it was built with is good to know, and no more
            told["missing"] = f"{type(error).__name__}: {error}"
    told["packages"] = {
        one.metadata["Name"]: one.version for one in metadata.distributions() if one.metadata["Name"]
    }
    told["implementation"], told["version"] = sys.implementation.name, sys.version_info[:2]
    if told["version"] >= (3, 11):
        told["algorithm"] = _algorithm(importable)
    print("\n" + json.dumps({"versions": versions, **told}))


if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(os.path.abspath(__file__))]
    _main(sys.argv[1])
