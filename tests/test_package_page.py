"""What the wheel tells its reader: no relative links on its page, and no text that cites a file it does not hold."""

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
SOURCE = "https://host.invalid/owner/chaoskit"


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
    for source in (SOURCE, ""):
        page = package_page.absolute(text, source)
        assert not re.findall(r"\]\((?!https?:|#)[^)]+\)", page)
        assert page.count(SOURCE) == (len(links) if source else 0)


@pytest.mark.parametrize(
    ("relative", "words"),
    [
        ("[a](b.md) and ![c](d.png)", "a and c"),
        ("[![a](a.svg)](b.md)", "a"),
        ("[a](https://b/c)", "[a](https://b/c)"),
    ],
)
def test_without_an_address_a_relative_link_is_its_words(package_page, relative, words):
    assert package_page.absolute(relative) == words


def test_the_project_names_no_address_that_is_none():
    """Names that are reserved for examples lead to nobody, and placeholders to somebody else."""
    hosts = r"\.example\b|\.invalid\b|example\.(?:com|org|net)|//github\.com/OWNER"
    assert not [url for url in PROJECT.get("urls", {}).values() if re.search(hosts, url)]


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
    package = REPOSITORY / "chaoskit"
    texts = {path: list(strings(path)) for path in package.rglob("*.py")}
    texts |= {path: [path.read_text()] for path in package.rglob("*.j2")}
    cited = {
        (str(path), found) for path, every in texts.items() for text in every for found in CITED.findall(text)
    }
    assert not cited
