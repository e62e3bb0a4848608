"""Starts the probe in a Python process of a job under test, and runs the sitecustomize that it hides.

The environment puts this directory first on PYTHONPATH. It removes itself from `sys.path`, so that the user's program
sees its normal path.
"""

import importlib.machinery
import importlib.util
import os
import sys


def _chain(own: str) -> None:
    """Run the next `sitecustomize` on the path, as if this one were not there."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None or os.path.dirname(spec.origin or "") == own:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _start() -> None:
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != own]
    try:
        _chain(own)
    finally:
        if os.environ.get("CHAOSKIT_RUN"):
            try:
                path = os.path.join(os.path.dirname(os.path.dirname(own)), "protocol", "bootstrap.py")
                with open(path) as file:
                    exec(file.read(), {"__file__": path})
                from chaoskit.probe.session import start

                start()
            except Exception as error:  # the user's program must start even if the probe fails
                print(f"chaoskit: the probe did not start: {error!r}", file=sys.stderr)


_start()
