"""The pages say what is there."""

import re
import tomllib
from pathlib import Path

import pytest

from chaoskit import checks, faults
from chaoskit.errors import CODES, ExitCode
from chaoskit.remedies import REMEDIES
from tools import site, tables

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *sorted(REPOSITORY.glob("*.md")),
    *sorted(REPOSITORY.glob("tinymodels/*.md")),
]
KINDS = {"tutorial", "how-to", "reference", "explanation"}
CODES_PAGE = (DOCS / "reference" / "codes.md").read_text()
NAMED = re.compile(r"\bdocs/[\w./-]+\.(?:md|json|png)\b")
IN_CHECKOUT = re.compile(r"`((?:chaoskit|tests|benchmarks|tinymodels|experiments|tools)/[\w/.]*)`")
CODE = [
    path
    for folder in ("chaoskit", "tinymodels", "experiments", "benchmarks", "examples", "tests", "tools")
    for path in (REPOSITORY / folder).rglob("*")
    if path.suffix in (".py", ".j2")
]


def prose(text):
    """A page without its blocks of code."""
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.M | re.S)


def test_the_codes_are_documented_word_for_word():
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| \w+ \| (.+) \|$", CODES_PAGE, re.M))
    assert rows == CODES


def test_each_code_has_a_remedy_and_the_page_tells_it():
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \|$", CODES_PAGE, re.M)
    assert dict(rows) == REMEDIES and list(REMEDIES) == [code for code in CODES if code in REMEDIES]
    assert REMEDIES.keys() == CODES.keys()


def test_the_exit_codes_are_documented():
    assert re.findall(r"^\| (\d+) \|", CODES_PAGE, re.M) == [str(int(code)) for code in ExitCode]


def test_every_check_and_every_fault_is_named():
    assert all(f"`{name}(" in CODES_PAGE for name in checks.REGISTRY)
    text = (DOCS / "reference" / "faults.md").read_text()
    assert all(f"`{make.__name__}`" in text for make in faults.REGISTRY.values())


def test_every_page_is_of_one_of_the_four_kinds():
    assert {path.relative_to(DOCS).parts[0] for path in DOCS.rglob("*.md")} == KINDS | {"index.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page):
    """The README and CONTRIBUTING are not on the site, whose links `make docs` checks; anchors are checked here too."""
    for target, fragment in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", prose(page.read_text())):
        other = (page.parent / target).resolve() if target else page
        assert other.exists(), target
        if fragment:
            headings = re.findall(r"^#+ (.+)$", prose(other.read_text()), re.M)
            assert fragment in {site.anchor(heading.replace("`", ""), "-") for heading in headings}, fragment


@pytest.mark.parametrize("page", tables.pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_generated_parts_are_up_to_date(page):
    """`make tables` writes them."""
    text = page.read_text()
    assert tables.renew(text) == text, "stale: run make tables"


def test_every_generated_part_is_on_some_page():
    text = "".join(page.read_text() for page in tables.pages())
    assert all(f"<!-- generated: {name} -->" in text for name in tables.PARTS)


def test_a_stale_page_is_found_and_a_wrong_marker_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    monkeypatch.setattr(tables, "PARTS", {"one": lambda: "fresh"})
    (tmp_path / "docs").mkdir()
    page, readme = tmp_path / "docs" / "a.md", tmp_path / "README.md"
    readme.write_text("nothing of the kind\n")
    page.write_text("before\n<!-- generated: one -->\nold\n<!-- end: one -->\nafter\n")
    assert tables.main(["--check"]) == 1 and "old" in page.read_text()
    assert capsys.readouterr().out == f"{page.relative_to(tmp_path)}: stale; run make tables\n"
    assert tables.main([]) == 0
    assert page.read_text() == "before\n<!-- generated: one -->\n\nfresh\n\n<!-- end: one -->\nafter\n"
    assert tables.main(["--check"]) == 0
    for wrong, named in (
        ("<!-- generated: two -->\n<!-- end: two -->\n", "'two'; there are one"),
        ("<!-- generated: one -->\n", "lacks its partner"),
    ):
        page.write_text(wrong)
        with pytest.raises(SystemExit) as stopped:
            tables.main([])
        assert stopped.value.code == 2 and named in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["chaoskit", *tables.FOLDERS])
def test_every_module_has_its_sentence_and_is_in_the_index(folder):
    text = (DOCS / "reference" / "modules.md").read_text()
    for path in tables.modules_of(REPOSITORY / folder):
        sentence = tables.sentence_of(path)
        assert sentence.endswith((".", ":", "?")), f"{path}: its docstring begins with no sentence"
        assert f"`: {sentence}\n" in text, path


def test_the_layers_of_the_index_are_those_of_the_linter():
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers")
    packages = {path.parent.name for path in (REPOSITORY / "chaoskit").glob("*/__init__.py")}
    found = [{*line.replace(":", "|").replace(" ", "").split("|")} & packages for line in layers]
    assert found[1:] == [set(line) for line in tables.LAYERS]


def test_pages_that_code_names_are_there():
    for path in CODE:
        text = path.read_text()
        assert all((REPOSITORY / name).is_file() for name in NAMED.findall(text)), path


def test_modules_that_pages_name_are_there():
    """Guides to adding a file name the new one, too; the changelog names files of its time."""
    for page in PAGES:
        named = set(IN_CHECKOUT.findall(page.read_text())) if page.name != "CHANGELOG.md" else set()
        gone = {name for name in named if not (REPOSITORY / name).exists()}
        assert {Path(name).name for name in gone} <= {"starve.py", "steady.py"}, page


def test_the_site_rewrites_links_that_leave_it(caplog):
    class File:
        src_path = "reference/a.md"

    class Page:
        file = File()

    def rewritten(text):
        return site.on_page_markdown(text, page=Page, config={"docs_dir": str(DOCS)})

    assert rewritten("[examples/](../../examples/)") == "`examples/`"
    assert rewritten("the [walk](../../tinymodels/train.py#here)") == "the walk (`tinymodels/train.py`)"
    inside = "[codes](codes.md#all) [images](../images/good.png) ![a](../../b.png)\n```\n[x](../../README.md)\n```"
    assert rewritten(inside) == inside
    assert not caplog.records
    rewritten("[gone](../../gone.md)")
    assert "../../gone.md leads to no file" in caplog.text


def test_the_api_reference_names_what_is_public():
    """The site is built from the source: a name that is gone would only be found by `make docs`."""
    named = re.findall(r"^::: ([\w.]+)$", (DOCS / "reference" / "api.md").read_text(), re.M)
    import chaoskit

    public = {f"chaoskit.{name}" for name in chaoskit.__all__} - {
        "chaoskit.__version__", "chaoskit.checks", "chaoskit.faults", "chaoskit.probe",
    }  # fmt: skip
    assert public <= set(named) and "chaoskit.probe.step" in named
    for registry in (faults.REGISTRY, checks.REGISTRY):
        assert {f"{make.__module__}.{make.__name__}" for make in registry.values()} <= set(named)
    assert len(named) == len(set(named))
