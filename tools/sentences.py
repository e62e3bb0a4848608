"""Draw sentences at random from a tree: from its pages, its docstrings and its messages, a third of each.

    python -m tools.sentences                     # 40 of this tree, always the same ones
    python -m tools.sentences --root OTHER --seed 7

For a person who wants to know how the whole reads, and not only its best page.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Pages that programs write, of what they measured.
_GENERATED = ("frameworks.md", "gallery.md", "modules.md", "whats-here.md", "commands.md", "api.md", "plain-english.md")
_MESSAGES = {"UsageError", "StoreError", "ReferenceFailed", "ChaoskitError", "CannotWarm", "MissingCapability"}
_MESSAGES |= {"failed", "inconclusive", "passed", "DoctorFinding"}


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text of at least four words, on one line each."""
    flat = re.sub(r"\s+", " ", text).strip()
    for one in re.split(r"(?<=[.?!:])\s+(?=[A-Z`])", flat):
        if len(one.split()) >= 4 and one[-1] in ".?!:":
            yield one


def pages(root: Path) -> Iterator[str]:
    """Of README and docs: paragraphs and rows of lists, without code, tables and headings."""
    for path in sorted([root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").rglob("*.md")]):
        if path.name in _GENERATED:
            continue
        text = re.sub(r"```.*?```|<!--.*?-->", "", path.read_text(), flags=re.S)
        for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
            if paragraph.strip() and not paragraph.lstrip().startswith(("#", "|", "![", ">")):
                yield from sentences(paragraph.strip().lstrip("-* "))


def docstrings(root: Path) -> Iterator[str]:
    """Of all modules, classes and functions of chaoskit."""
    for tree in _trees(root):
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                for paragraph in text.split("\n\n"):
                    if not paragraph.startswith(" "):
                        yield from sentences(paragraph)


def messages(root: Path) -> Iterator[str]:
    """What exceptions and verdicts say, and the help of options; values stand as `{}`."""
    for tree in _trees(root):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                given = [*node.args] if name in _MESSAGES else []
                given += [each.value for each in node.keywords if each.arg == "help"]
                for each in given:
                    text = _text(each)
                    if len(text.split()) >= 4:
                        yield text


def _trees(root: Path) -> Iterator[ast.Module]:
    for path in sorted((root / "chaoskit").rglob("*.py")):
        yield ast.parse(path.read_text())


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def draw(root: Path, *, count: int, seed: int) -> list[tuple[str, str]]:
    """So many sentences of a tree, with where each is from: `page`, `docstring` or `message`."""
    kinds = {"page": pages, "docstring": docstrings, "message": messages}
    chance, found = random.Random(seed), []
    for number, (kind, read) in enumerate(kinds.items()):
        every = sorted(set(read(root)))
        share = count // len(kinds) + (number < count % len(kinds))
        found += [(kind, one) for one in chance.sample(every, min(share, len(every)))]
    return found


def main() -> int:
    """Print them as a Markdown list."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the tree (default: this one)")
    parser.add_argument("--count", type=int, default=40, help="how many sentences (40)")
    parser.add_argument("--seed", type=int, default=19, help="which ones (19)")
    args = parser.parse_args()
    for kind, sentence in draw(args.root, count=args.count, seed=args.seed):
        print(f"- {kind}: {sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
