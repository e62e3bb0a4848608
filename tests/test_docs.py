"""The pages say what is there."""

import re
from pathlib import Path

import pytest

from chaoskit import checks, faults
from chaoskit.errors import CODES, ExitCode
from chaoskit.remedies import REMEDIES

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"
MODULES = sorted(
    path.relative_to(REPOSITORY)
    for folder in ("chaoskit", "tinymodels", "experiments", "benchmarks")
    for path in (REPOSITORY / folder).rglob("*.py")
    # The broken trainers have a page of their own.
    if path.parent.name != "gallery" or path.name in ("__init__.py", "catalogue.py")
)


def test_the_codes_are_documented_word_for_word():
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| \w+ \| (.+) \|$", (DOCS / "codes.md").read_text(), re.M))
    assert rows == CODES


def test_each_code_has_a_remedy_and_the_page_tells_it():
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \|$", (DOCS / "codes.md").read_text(), re.M)
    assert dict(rows) == REMEDIES and list(REMEDIES) == [code for code in CODES if code in REMEDIES]
    assert REMEDIES.keys() == CODES.keys()


def test_the_exit_codes_are_documented():
    text = (DOCS / "codes.md").read_text()
    assert re.findall(r"^\| (\d+) \|", text, re.M) == [str(int(code)) for code in ExitCode]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_module_has_its_sentence(module):
    names = re.findall(r"^- `(.+?)` — \S", (DOCS / "whats-here.md").read_text(), re.M)
    shown = str(module).removeprefix("chaoskit/")
    assert shown in names


def test_every_check_and_every_fault_is_named():
    text = (DOCS / "codes.md").read_text()
    assert all(f"`{name}(" in text for name in checks.REGISTRY)
    readme = (REPOSITORY / "README.md").read_text()
    assert all(f"`{name}`" in readme or f"`{name}_`" in readme for name in faults.REGISTRY)


@pytest.mark.parametrize("page", [*DOCS.glob("*.md"), *REPOSITORY.glob("*.md")], ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
