"""Writes the stubs that list every fault and every check for type checkers and editors: `make tables`.

The packages list nothing themselves: each file registers what it defines. With `--check`, only says which are stale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def faults() -> str:
    """The stub of `chaoskit.faults`."""
    from chaoskit.faults import REGISTRY

    names = {"Action": "fault", "Fault": "fault", "REGISTRY": "registry", "from_json": "registry"}
    return _stub("chaoskit.faults", names, REGISTRY)


def checks() -> str:
    """The stub of `chaoskit.checks`."""
    from chaoskit.checks import REGISTRY

    names = {"Check": "check", "REGISTRY": "registry", "from_json": "registry", "judge": "judge"}
    return _stub("chaoskit.checks", names, REGISTRY, {"Case": "chaoskit.analysis.case"})


#: By the path of a stub: what makes its text.
STUBS: dict[Path, Callable[[], str]] = {
    ROOT / "chaoskit" / "faults" / "__init__.pyi": faults,
    ROOT / "chaoskit" / "checks" / "__init__.pyi": checks,
}


def _stub(
    package: str,
    own: Mapping[str, str],
    registry: Mapping[str, Callable[..., object]],
    others: Mapping[str, str] | None = None,
) -> str:
    where = {name: f"{package}.{module}" for name, module in own.items()} | dict(others or {})
    where |= {make.__name__: make.__module__ for make in registry.values()}
    lines = ["# Written by `make tables`: do not edit."]
    for module in sorted(set(where.values())):
        lines.append(f"from {module} import {', '.join(sorted(name for name in where if where[name] == module))}")
    names = sorted(where, key=lambda name: (not name.isupper(), name.islower(), name))
    return "\n".join([*lines, "", "__all__ = [", *(f'    "{name}",' for name in names), "]", ""])


def main(arguments: list[str] | None = None) -> int:
    """Write the stale stubs and name them; with `--check` name them only, and return 1 if there are any."""
    parser = argparse.ArgumentParser(description="Write the stubs of chaoskit.faults and chaoskit.checks.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a stub is stale")
    check = parser.parse_args(arguments).check
    stale = [path for path, make in STUBS.items() if not path.exists() or path.read_text() != make()]
    for path in stale:
        if not check:
            path.write_text(STUBS[path]())
        print(f"{path.relative_to(ROOT)}: {'stale; run make tables' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
