"""Reports the packages of an interpreter as JSON: a script that runs inside that interpreter.

It uses only the standard library and old syntax, because it must also run in a Python that is too old for the probe.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib import metadata
from typing import Any


def _torch(told: dict[str, Any]) -> None:
    """Add the versions of torch and of the libraries that it was built with."""
    import torch

    told["torch"] = str(torch.__version__)
    if torch.version.cuda:
        told["cuda"] = str(torch.version.cuda)
        told["cudnn"] = str(torch.backends.cudnn.version())
        told["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    elif getattr(torch.version, "hip", None):
        told["hip"] = str(torch.version.hip)


def _algorithm(bootstrap: str) -> str:
    """Return the fingerprint algorithm that the probe would use here."""
    with open(bootstrap) as file:
        exec(file.read(), {"__file__": bootstrap})
    from chaoskit.protocol.fingerprint import ALGORITHM

    return ALGORITHM


def _main(bootstrap: str) -> None:
    versions: dict[str, Any] = {"python": platform.python_version()}
    told: dict[str, Any] = {}
    try:
        _torch(versions)
    except Exception as error:
        if "torch" not in versions:  # the versions of its libraries are optional
            told["missing"] = f"{type(error).__name__}: {error}"
    told["packages"] = {
        one.metadata["Name"]: one.version for one in metadata.distributions() if one.metadata["Name"]
    }
    told["implementation"], told["version"] = sys.implementation.name, sys.version_info[:2]
    if told["version"] >= (3, 11):
        told["algorithm"] = _algorithm(bootstrap)
    print("\n" + json.dumps({"versions": versions, **told}))


if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(os.path.abspath(__file__))]
    _main(sys.argv[1])
