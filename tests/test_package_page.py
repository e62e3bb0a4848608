"""What the wheel tells its reader: full URLs on the package's page, and no text that cites a file it does not hold."""

import ast
import importlib
import re
import sys
import tomllib
import types
from pathlib import Path

import pytest

from chaoskit.cli import main

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
SOURCE = PROJECT["urls"]["Source"]


@pytest.fixture
def package_page(monkeypatch):
    """The hook, without hatchling, which is installed only while a wheel is built."""
    interface = types.ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = object
    for name in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    monkeypatch.delitem(sys.modules, "tools.package_page", raising=False)
    yield importlib.import_module("tools.package_page")
    sys.modules.pop("tools.package_page", None)


@pytest.mark.parametrize(
    ("relative", "full"),
    [
        ("[a](pages/a.md#b) and [c](C.md)", "[a](S/blob/HEAD/pages/a.md#b) and [c](S/blob/HEAD/C.md)"),
        ("![a](pages/a.png)", "![a](S/raw/HEAD/pages/a.png)"),
        ("[![a](a.svg)](pages/a.md)", "[![a](S/raw/HEAD/a.svg)](S/blob/HEAD/pages/a.md)"),
        ("[![a](https://b/a.svg)](pages/a.md)", "[![a](https://b/a.svg)](S/blob/HEAD/pages/a.md)"),
        *[
            (same, same)
            for same in ("[a](https://b/c)", "[a](mailto:b@c)", "[a](#b)", "```\n[a](b)\n```", "a[0](b c)")
        ],
    ],
)
def test_a_relative_link_becomes_a_full_url(package_page, relative, full):
    assert package_page.absolute(relative, "S") == full


def test_no_link_of_the_readme_is_left_relative(package_page):
    text = (REPOSITORY / "README.md").read_text()
    links = re.findall(r"\]\((?!https?:|#)[^)]+\)", text)
    assert links, "then there is nothing to test"
    page = package_page.absolute(text, SOURCE)
    assert not re.findall(r"\]\((?!https?:|#)[^)]+\)", page)
    assert page.count(SOURCE) == len(links)


def test_the_project_has_one_address():
    assert {"Source", "Documentation", "Changelog", "Issues"} == PROJECT["urls"].keys()
    assert all(url.startswith(SOURCE) for url in PROJECT["urls"].values())
    for url in PROJECT["urls"].values():
        _, _, path = url.partition("/blob/HEAD/")
        assert (REPOSITORY / path).exists()


def parsers():
    parser = main.make_parser()
    yield parser
    for action in parser._actions:
        if isinstance(action.choices, dict):
            yield from action.choices.values()


def strings(path):
    """Every string of a module that is no docstring: what may reach a user."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


CITED = re.compile(r"(?:docs|tests|benchmarks|examples|tinymodels)/[\w/.-]*\.\w+|\b[\w-]+\.md\b")


def test_no_help_text_cites_a_file_that_the_wheel_lacks():
    texts = [parser.format_help() for parser in parsers()]
    assert len(texts) > 10
    assert not [found for text in texts for found in CITED.findall(text)]


def test_no_message_and_no_page_cites_one():
    """Under a full URL it may: that of the project."""
    package = REPOSITORY / "chaoskit"
    texts = {path: list(strings(path)) for path in package.rglob("*.py")}
    texts |= {path: [path.read_text()] for path in package.rglob("*.j2")}
    cited = {
        (str(path), found)
        for path, every in texts.items()
        for text in every
        for found in CITED.findall(re.sub(re.escape(SOURCE) + r"\S*", "", text))
    }
    assert not cited
