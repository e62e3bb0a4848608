"""Ranks the test files for a break: those that name it most come first, and quick ones before slow ones."""

from __future__ import annotations

import ast
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path, PurePosixPath

from breaks_catalogue import Break

#: What a test file of real jobs names.
LAUNCHING = re.compile(r"torchrun|subprocess|Launcher|pytester|NetnsEnvironment|LocalEnvironment")
#: Names that mean something else behind these.
OTHERS = {"os", "signal", "math", "np", "torch", "sys"}


@dataclass(frozen=True)
class TestFile:
    """`named` counts what the file names itself, part of which is `imported`; `lent` is what the modules of tests/ name
    that it imports."""

    path: str
    named: Counter[str]
    imported: frozenset[str]
    lent: frozenset[str]
    launches: bool

    def score(self, one: Break, rarity: Mapping[str, float]) -> float:
        """How much the file is about a break, 0 if not at all. A rare name counts more, a related one little."""
        wanted = set(one.names)
        place = PurePosixPath(self.path)
        told = sum(rarity[name] * min(self.named[name], 10) for name in wanted)
        told += sum(0.5 * rarity[name] for name in one.related if name in self.imported)
        told += max((0.5 * rarity[name] for name in wanted & self.lent), default=0.0)
        if place.stem.removeprefix("test_") in {*one.names, *map(_snake, one.names)}:
            told += 20
        if one.group == "launchers" and place.parent.name == PurePosixPath(one.file).parent.name:
            told += 2
        return told


def test_files(root: Path) -> list[TestFile]:
    """All of them."""
    paths = sorted((root / "tests").rglob("test_*.py"))
    # The test of this very script proves nothing about what it breaks.
    return [_read(root, path) for path in paths if path.name != "test_breaks.py"]


def ranked(files: Sequence[TestFile], one: Break, seconds: Mapping[str, float]) -> list[str]:
    """The paths of those that are about it; of equal worth those first that take less time, as far as that is known,
    and launch nothing."""
    names = (*one.names, *one.related)
    rarity = {name: log((1 + len(files)) / (1 + sum(name in each.named for each in files))) for name in names}
    scored = [(file.score(one, rarity), file) for file in files]

    def cost(file: TestFile) -> float:
        return 5.0 + seconds.get(file.path, 60.0 if file.launches else 5.0)

    return [file.path for score, file in sorted(scored, key=lambda each: -each[0] / cost(each[1])) if score > 0]


def seconds_by_file(junit: Path | None) -> dict[str, float]:
    """How long each test file took, from a JUnit file of an earlier run."""
    found: Counter[str] = Counter()
    for case in ET.parse(junit).iter("testcase") if junit is not None else ():
        place = case.get("classname", "").replace(".", "/") + ".py"
        found[place] += float(case.get("time", 0))  # type: ignore[assignment]
    return dict(found)


def _read(root: Path, path: Path) -> TestFile:
    text = path.read_text()
    lent: set[str] = set()
    for module in re.findall(r"^(?:from|import) (tests(?:\.\w+)+)", text, re.M):
        beside = root / (module.replace(".", "/") + ".py")
        if beside.is_file():
            lent |= set(_names(beside))
    imports = re.findall(r"^(?:from \S+ )?import ([\w, ]+)$", text, re.M)
    imported = frozenset(name for line in imports for name in re.findall(r"\w+", line))
    launches = bool(LAUNCHING.search(text))
    return TestFile(str(path.relative_to(root)), _names(path), imported, frozenset(lent), launches)


@cache
def _names(path: Path) -> Counter[str]:
    """How often a file names what: as a name, behind a module, or in an experiment that it writes into a file."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    aliases = [each for each in nodes if isinstance(each, ast.alias)]
    imported = {(each.asname or each.name).rpartition(".")[2] for each in aliases} - OTHERS
    found = Counter(each.name.rpartition(".")[2] for each in aliases)
    for node in nodes:
        if isinstance(node, ast.Name):
            found[node.id] += 1
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            found[node.attr] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            whole = [node.value] if node.value.isidentifier() else []
            found.update(whole or re.findall(r"(?<![\w.])(\w+)\(", node.value))
    return found


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
