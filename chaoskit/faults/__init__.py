"""Faults: what goes wrong. One file each, in a folder named for what it breaks.

Each file registers its fault with `@fault`, and importing this package imports them all. Type checkers and editors read
`__init__.pyi` instead, which `make tables` writes: a list made at run time is invisible to them.
"""

from __future__ import annotations

import sys

from chaoskit.faults.fault import Action, Fault
from chaoskit.faults.registry import REGISTRY, from_json, scan

globals().update(_made := scan(sys.modules[__name__]))
__all__ = ["REGISTRY", "Action", "Fault", "from_json", *_made]
