"""Make `chaoskit` importable from the directory of this file, in an interpreter that may have none, or another one.

Executed by its path, by programs that start inside such interpreters: the probe's sitecustomize, the warm parent, the
agent in a container. What they import must be of the same version as they are themselves.
"""

import importlib.util
import os
import sys

if "chaoskit" not in sys.modules:
    _package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    _spec = importlib.util.spec_from_file_location(
        "chaoskit", os.path.join(_package, "__init__.py"), submodule_search_locations=[_package]
    )
    assert _spec is not None and _spec.loader is not None
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["chaoskit"] = _module
    _spec.loader.exec_module(_module)
