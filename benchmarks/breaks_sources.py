"""The sources of the package as a syntax tree: its classes, the functions that make them, and who uses whom.

Nothing is imported, so a tree that is broken on purpose, or laid out differently, can be read, too.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

#: Return types of the functions that tests call to make a check or a fault.
MADE = ("Check", "Fault")


@dataclass(frozen=True)
class Module:
    """A file of the package: what it defines at its top level, and what its imports mean."""

    file: str
    name: str
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    makers: dict[str, ast.AST] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Definition:
    """A class, with its methods, or a function, and the module that defines it."""

    module: Module
    node: ast.ClassDef | ast.FunctionDef

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def methods(self) -> dict[str, ast.FunctionDef]:
        return {each.name: each for each in self.node.body if isinstance(each, ast.FunctionDef)}

    @property
    def is_protocol(self) -> bool:
        return isinstance(self.node, ast.ClassDef) and any(
            "Protocol" in ast.dump(base) for base in self.node.bases
        )

    def takes(self, method: str, *arguments: str) -> bool:
        """Whether it defines that method, and the method's first arguments are called so."""
        found = self.methods.get(method)
        return found is not None and [each.arg for each in found.args.args[1:]][: len(arguments)] == [*arguments]


class Sources:
    """All modules of the package below `root`."""

    def __init__(self, root: Path, package: str = "chaoskit") -> None:
        files = sorted((root / package).rglob("*.py"))
        self.modules = {each.name: each for each in (_read(root, file) for file in files)}
        self.classes = [
            found
            for module in self.modules.values()
            for node in module.classes.values()
            if not (found := Definition(module, node)).is_protocol
        ]
        self._makers: dict[tuple[str, str], list[str]] = {}
        for module in self.modules.values():
            for name, node in module.makers.items():
                for reached in self._reached(module, node) if _returns(node) in MADE else ():
                    self._makers.setdefault(reached, []).append(name)
        self._uses = {
            (module.name, name): {found for each in _named(node) if (found := self._resolved(module, each))}
            for module in self.modules.values()
            for name, node in {**module.classes, **module.makers}.items()
        }

    def where(self, name: str) -> str:
        """The module that defines the class or function `name`."""
        found = [module.name for module in self.modules.values() if name in {*module.classes, *module.makers}]
        if len(found) != 1:
            raise LookupError(f"{name} is defined in {', '.join(found) or 'no module'}; expected exactly one")
        return found[0]

    def makers(self, definition: Definition) -> tuple[str, ...]:
        """The functions from which a check or fault of this class comes, by name."""
        return tuple(sorted(self._makers.get((definition.module.name, definition.name), ())))

    def users(self, definition: Definition) -> tuple[str, ...]:
        """The classes and functions that use a class, directly or through others that do."""
        found: set[tuple[str, str]] = {(definition.module.name, definition.name)}
        for _ in range(3):
            found |= {user for user, used in self._uses.items() if used & found}
        return tuple(sorted({name for _, name in found} - {definition.name}))

    def _reached(self, module: Module, node: ast.AST) -> set[tuple[str, str]]:
        """The classes that a function names, and those that the functions which it names do."""
        classes: set[tuple[str, str]] = set()
        seen: set[tuple[str, str]] = set()
        ahead = [(module, node)]
        while ahead:
            module, node = ahead.pop()
            for name in _named(node):
                found = self._resolved(module, name)
                if found is None or found in seen:
                    continue
                seen.add(found)
                there = self.modules[found[0]]
                if found[1] in there.classes:
                    classes.add(found)
                else:
                    ahead.append((there, there.makers[found[1]]))
        return classes

    def _resolved(self, module: Module, name: str) -> tuple[str, str] | None:
        for _ in range(5):  # an import of an import
            if name in module.classes or name in module.makers:
                return module.name, name
            origin, name = module.imports.get(name, ("", ""))
            if origin not in self.modules:
                return None
            module = self.modules[origin]
        return None


def _read(root: Path, path: Path) -> Module:
    file = path.relative_to(root)
    parts = file.with_suffix("").parts
    module = Module(str(file), ".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            module.classes[node.name] = node
        elif isinstance(node, ast.FunctionDef):
            module.makers[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            module.makers.update({each.id: node for each in targets if isinstance(each, ast.Name)})
        elif isinstance(node, ast.ImportFrom) and node.module:
            module.imports.update({each.asname or each.name: (node.module, each.name) for each in node.names})
    return module


@cache
def _named(node: ast.AST) -> frozenset[str]:
    """Every name in it that may be one of a module's."""
    return frozenset(
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.Attribute)
    )


def _returns(node: ast.AST) -> str:
    """What a function says it returns; of something assigned at the top of a module nothing is said, and it counts."""
    if isinstance(node, ast.FunctionDef):
        return ast.unparse(node.returns) if node.returns is not None else ""
    return MADE[0]
