"""The house: nine layers, few loose modules, no import cycle, and no class name that means two things.

That imports point down the layers is what import-linter checks (`make lint`).
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "chaoskit"
#: `__init__` and `__main__`, which every package has, are not counted.
LOOSE_AT_MOST = 8
#: A script by its place: Python imports it by a name that it does not choose.
SCRIPTS = ("chaoskit.probe.site",)


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees() -> dict[str, ast.Module]:
    """Every module by its name; whoever only collects the tests parses none."""
    return {module_name(path): ast.parse(path.read_bytes()) for path in sorted(PACKAGE.rglob("*.py"))}


def executed(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module outside of its functions and classes, those for type checking included."""
    for node in body:
        yield node
        match node:
            case ast.If() | ast.For() | ast.While():
                yield from executed([*node.body, *node.orelse])
            case ast.With():
                yield from executed(node.body)
            case ast.Try():
                handlers = [statement for handler in node.handlers for statement in handler.body]
                yield from executed([*node.body, *handlers, *node.orelse, *node.finalbody])


def imports(name: str, modules: set[str]) -> set[str]:
    """The modules of ours that a module imports as it is imported, or for type checking."""
    found = set()
    for node in executed(trees()[name].body):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name}: relative imports hide what depends on what"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in modules else str(node.module))
    return (found & modules) - {name}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """One cycle for each module that reaches itself, without repeats."""
    done: set[str] = set()
    found = []

    def visit(name: str, way: list[str]) -> None:
        if name in way:
            found.append([*way[way.index(name) :], name])
            return
        if name in done:
            return
        for other in sorted(graph[name]):
            visit(other, [*way, name])
        done.add(name)

    for name in graph:
        visit(name, [])
    return found


def test_no_modules_import_each_other_not_even_for_type_checking():
    modules = {name for name in trees() if not name.startswith(SCRIPTS)}
    assert [" -> ".join(cycle) for cycle in cycles({name: imports(name, modules) for name in modules})] == []


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}}, [["a", "b", "a"]]),
        ({"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}, [["b", "d", "b"]]),
    ],
)
def test_a_cycle_is_found(graph, expected):
    assert cycles(graph) == expected


def test_imports_for_type_checking_and_in_branches_count(monkeypatch):
    text = (
        "if TYPE_CHECKING:\n    from own import typed\n"
        "try:\n    import own.tried\nexcept ImportError:\n    import own.other\n"
        "def later():\n    import own.later\n"
    )
    monkeypatch.setitem(trees(), "own", ast.parse(text))
    modules = {"own", "own.typed", "own.tried", "own.other", "own.later"}
    assert imports("own", modules) == {"own.typed", "own.tried", "own.other"}


#: What removes files beside `files.removal`, and why that is right.
REMOVES_ITSELF = {
    "chaoskit.files.whole_files": "its own draft",
    "chaoskit.engine.origin": "the draft of the user's key",
    "chaoskit.environments.gate.doors": "its socket, by the descriptor of the directory",
    "chaoskit.environments.agents.agent": "the file that it has just made to try a directory out",
    "chaoskit.environments.cgroups.group": "control groups, in the kernel's file system",
    "chaoskit.environments.fusefs.names": "what the job removes, in the job's name",
    "chaoskit.environments.launch.keeper": "a script with the standard library alone: the scratch directory of its run",
    "chaoskit.environments.machine.preemptions": "the notice that it has made where the user said",
    "chaoskit.probe.rates": "in a rank: its own record",
    "chaoskit.probe.row_order": "in a rank: its own record",
}
REMOVALS = {"rmtree", "unlink", "rmdir", "removedirs"}


def removes(tree: ast.AST) -> bool:
    """Whether a module uses a function that removes files."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    plain = {node.attr for node in names} & REMOVALS
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    of_os = any(
        node.attr == "remove" and isinstance(node.value, ast.Name) and node.value.id == "os" for node in names
    )
    return bool(plain or imported & REMOVALS or of_os)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shutil.rmtree(place)", True),
        ("undo.callback(shutil.rmtree, place)", True),
        ("from os import unlink", True),
        ("os.remove(path)", True),
        ("path.unlink()", True),
        ("names.remove('a'); remove(path, within=root)", False),
    ],
)
def test_a_removal_is_seen(text, expected):
    assert removes(ast.parse(text)) is expected


def test_one_module_removes_files():
    """It follows no link; nobody else needs to know how."""
    # The table of the file system's operations names a method of `names`.
    found = {name for name, tree in trees().items() if removes(tree)} - {"chaoskit.environments.fusefs.dispatcher"}
    assert found == {"chaoskit.files.removal", *REMOVES_ITSELF}


def test_few_modules_are_loose():
    loose = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert len(loose) <= LOOSE_AT_MOST, sorted(loose)


def test_a_class_name_means_one_thing():
    defined = defaultdict(list)
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                defined[node.name].append(name)
    assert {name: where for name, where in defined.items() if len(where) > 1} == {}


def test_nine_layers_hold_every_package():
    settings = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    inside = [layer for layer in layers if layer != "__main__"]
    assert len(inside) == 9
    named = {part.strip() for layer in inside for part in layer.replace(":", "|").split("|")}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    loose = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert named == packages | loose
