"""Text of others cannot control the terminal, forge a line, or be read as markup: it is put into every text of every
stored format that readers accept, and everything that is printed and written is looked at."""

import ast
import json
from pathlib import Path

import pytest

from chaoskit.analysis.record.history import History
from chaoskit.checks import from_json
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import stored as stored_run
from chaoskit.engine.terminal_text import one_line, printable
from chaoskit.errors import StoreError, UsageError
from chaoskit.report.terminal import table
from chaoskit.studies.nights.archive import Archive
from tests import mutations
from tests.mutations import CONTROL, attempt

HOSTILE = "x\x1b[31m\x07[red]\u202e<script>alert(1)</script>`|\nFORGED :boom: \ud800"
#: What tells what a line is.
WORDS = ("e", "role", "outcome", "verdict")


def texts(value):
    """The places of all texts, as (holder, key); and of mappings of texts, which may have another name."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        if isinstance(value[key], str) and key not in WORDS:
            yield value, key
        yield from texts(value[key])
    if isinstance(value, dict) and value and all(isinstance(each, str) for each in value.values()):
        yield value, HOSTILE


def spoil(path, accepted):
    """Put it in place of each text of a file, as far as the file is read then; returns in how many."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    count = 0
    for at, line in enumerate(lines):
        document = json.loads(line)
        for holder, key in list(texts(document)):
            before = holder.get(key) if isinstance(holder, dict) else holder[key]
            holder[key] = HOSTILE
            lines[at] = json.dumps(document)
            path.write_text("\n".join(lines) + "\n")
            if accepted():
                count += 1
            elif before is None:
                del holder[key]
            else:
                holder[key] = before
        lines[at] = json.dumps(document)
    path.write_text("\n".join(lines) + "\n")
    return count


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    root = tmp_path_factory.mktemp("store") / ".chaoskit"
    files = mutations.make_store(root)
    return root, [path for path, _ in files], [words for _, reads in files for words in reads]


def readable(store, path):
    """Whether a file is still read as a whole."""
    archive = Archive(store)
    try:
        if path.parent.name in ("suites", "baselines", "conditions"):
            archive.read(archive.last())
        elif path.parent == store.root:
            archive.read(path)
        elif path.name in ("run.json", "verdicts.json"):
            stored_run(path.parent, store)
            return all(from_json(one) for one in store.read_verdicts(path.parent).checks)
        else:
            return not History.read(path.parents[1]).gaps
    except (StoreError, UsageError):
        return False
    return True


def test_nothing_controls_the_terminal_a_page_or_a_summary(stored, tmp_path):
    root, files, commands = stored
    store = Store(root)
    last = Archive(store).last()
    conditions = [path for path in files if path.suffix in (".json", ".jsonl")]
    # Of alike files one is enough: the last suite, the run that failed, one rank.
    (run_dir,) = {path.parent for path in conditions if path.name == "run.json"} - {store.all_runs()[0]}
    wanted = [last, root / "night.json", *last.parent.glob("*/*.json"), run_dir / "run.json", run_dir / "verdicts.json",
              run_dir / "events" / "harness.jsonl", run_dir / "events" / "rank-0-2.jsonl"]  # fmt: skip
    counts = {path.name: spoil(path, lambda path=path: readable(store, path)) for path in wanted if path.exists()}
    assert counts[last.name] > 15 and counts["harness.jsonl"] > 5 and counts["run.json"] > 3
    said = []
    summary = ("analyze", str(run_dir), "--dir", str(root), "--summary", str(tmp_path / "s.md"))
    for words in dict.fromkeys([*commands, summary]):
        made = attempt(words)
        assert not made.fault, (made.words, made.fault, made.said[-2000:])
        said.append(made.said)
        assert not [line for line in made.said.splitlines() if line.startswith("FORGED")], words
    every = "".join(said)
    assert every.count(r"x\x1b[31m") > 20, "it is shown, escaped"
    assert "[red]" in every and ":boom:" in every, "markup is shown as it is"
    pages = [page.read_text(errors="surrogateescape") for page in [*root.rglob("*.html"), tmp_path / "s.md"]]
    assert len(pages) >= 4
    assert not [page for page in pages if "<script>alert(1)" in page]
    assert not CONTROL.search(pages[-1]) and "`|" not in pages[-1]


def test_one_function_escapes():
    assert printable("a\tb\x1b[0m\nc\u202ed\ud800") == "a       b\\x1b[0m\nc\\u202ed\\ud800"
    assert one_line("a\nb") == r"a\nb"
    assert printable("Größe → 5 µs ✓ 漢字") == "Größe → 5 µs ✓ 漢字"


def test_the_console_escapes_what_nobody_has_escaped_before():
    from rich.table import Table
    from rich.text import Text

    made = Table("[bold]name", "", box=None)
    made.add_row("\x1b[2J[red]x", "\x9b31m")
    console = table.console_in_memory(colours=True)
    console.print(made)
    console.print(Text("bold\x1b]0;title", style="bold"))
    console.print("[red]:smile:")
    said = table.printed(console)
    assert "\\x1b[2J[red]x" in said and "\\x9b31m" in said and "[bold]name" in said and "[red]:smile:" in said
    assert "bold\\x1b]0;title" in said and "\x1b[1m" in said, "its own styles stay"


def test_commands_print_by_one_function_only():
    package = Path(table.__file__).parents[2]
    found = [
        f"{path.name}:{node.lineno}"
        for room in ("cli", "report", "engine", "studies")
        for path in sorted((package / room).rglob("*.py"))
        if path.name != "examine.py"  # a program that another interpreter runs
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "Console")
    ]
    assert len(found) == 1 and found[0].startswith("output.py"), found
