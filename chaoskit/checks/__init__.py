"""Checks: claims about a run. One file each.

Each file registers its check with `@check`, and importing this package imports them all. Type checkers and editors read
`__init__.pyi` instead, which `make tables` writes: a list made at run time is invisible to them.
"""

from __future__ import annotations

import sys

from chaoskit.analysis.case import Case
from chaoskit.checks.check import Check
from chaoskit.checks.judge import judge
from chaoskit.checks.registry import REGISTRY, from_json, scan

globals().update(_made := scan(sys.modules[__name__]))
__all__ = ["REGISTRY", "Case", "Check", "from_json", "judge", *_made]
