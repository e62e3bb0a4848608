"""`rank_modules`: the files of chaoskit's own code that runs inside the processes of a job, or starts them.

They decide what is recorded of the job and how its processes come up. If one of them changes, stored references no
longer hold, and warm parents that run the older code must not be used.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

#: chaoskit's package.
PACKAGE = Path(__file__).parents[2]
#: What is started inside the processes of a job, relative to the package: the probe, the keeper, the warm parent; and
#: what starts these.
ENTRIES = (
    "probe/site/sitecustomize.py",
    "protocol/bootstrap.py",
    "probe/session.py",
    "environments/launch/keeper.py",
    "environments/launch/forkserver.py",
    "environments/launch/cold.py",
    "environments/launch/warm.py",
)


@cache
def rank_modules(package: Path = PACKAGE) -> tuple[Path, ...]:
    """The entry points and every module of the package that they import, directly or not, also inside functions.

    Imports for type checking only do not count, nor do those whose name is computed: ranks execute neither.
    """
    found: set[Path] = set()
    waiting = [package / entry for entry in ENTRIES]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for name in _imported(ast.parse(path.read_bytes())):
            waiting += _files(package, name)
    return tuple(sorted(found))


def _imported(tree: ast.AST) -> Iterator[str]:
    """The dotted names that the code may import; of `from a import b` both `a` and `a.b`."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from _imported(ast.Module(node.orelse, []))
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module)):
                yield module
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case _:
                yield from _imported(node)


def _files(package: Path, name: str) -> Iterator[Path]:
    """The files that importing a name executes: the module and the packages around it."""
    first, *parts = name.split(".")
    if first != package.name:
        return
    for depth in range(len(parts) + 1):
        base = package.joinpath(*parts[:depth])
        for path in (base / "__init__.py", base.with_suffix(".py")):
            if path.is_file():
                yield path
