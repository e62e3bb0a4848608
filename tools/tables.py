"""Writes the generated parts of the pages: `make tables`; with `--check`, only says which are stale.

A part stands between `<!-- generated: NAME -->` and `<!-- end: NAME -->`, in any page below `docs/` or in the README.
To add one, write a function that returns its text, decorate it with `@part("NAME")`, and put both markers into a page.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaoskit.studies.certificate.row import Need

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

#: By the name in the markers: the function that returns the text between them.
PARTS: dict[str, Callable[[], str]] = {}
#: The packages, the top layer first; those on one line lie on one layer.
LAYERS = (
    ("cli",),
    ("report",),
    ("studies",),
    ("engine",),
    ("checks", "environments"),
    ("analysis", "faults", "probe"),
    ("protocol",),
    (),
    ("files",),
)
#: The folders of faults and their titles, in the order of the page.
GROUPS = {
    "process": "Processes",
    "node": "Nodes",
    "network": "Network between nodes",
    "storage": "Storage",
    "checkpoint": "Checkpoints",
    "numeric": "Numbers",
    "control": "Controls",
}
#: Other folders with modules, in the order of the page.
FOLDERS = ("experiments", "tinymodels", "benchmarks", "tools")

_PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end: \2 -->)", re.S)
_MARKER = re.compile(r"<!-- (?:generated|end): ([a-z-]+) -->")
_SENTENCE = re.compile(r"(?<=[.!?])\s")


def part(name: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Register the function that makes the part of this name."""

    def register(make: Callable[[], str]) -> Callable[[], str]:
        PARTS[name] = make
        return make

    return register


def first_sentence(docstring: str) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join(docstring.strip().split("\n\n")[0].split())
    return _SENTENCE.split(paragraph, maxsplit=1)[0]


def sentence_of(path: Path) -> str:
    """The first sentence of a module, read and not imported; empty if it has no docstring."""
    return first_sentence(ast.get_docstring(ast.parse(path.read_text())) or "")


def modules_of(folder: Path) -> list[Path]:
    """The modules of a package and of the packages inside it, `__init__.py` before its siblings.

    Of the gallery only the catalogue is listed: its trainers have a page of their own.
    """
    paths = sorted(folder.rglob("*.py"), key=lambda path: (path.parent, path.name != "__init__.py", path.name))
    return [
        path for path in paths if "gallery" not in path.parts or path.name in ("__init__.py", "catalogue.py")
    ]


@part("packages")
def packages() -> str:
    """What each package is for, the top layer first; below them lie two layers of modules."""
    lines = ["| layer | package | what it holds |", "|---|---|---|"]
    for number, names in zip(range(len(LAYERS), 0, -1), LAYERS, strict=True):
        for name in names:
            sentence = sentence_of(ROOT / "chaoskit" / name / "__init__.py")
            lines.append(f"| {number} | [`{name}`](#chaoskit{name}) | {sentence} |")
    return "\n".join(lines)


@part("modules")
def modules() -> str:
    """The index of modules: a section for each package, from the top layer down."""
    lines: list[str] = []
    for name in (name for names in LAYERS for name in names):
        lines += _section(f"chaoskit/{name}", modules_of(ROOT / "chaoskit" / name))
    lines += _section("chaoskit", sorted((ROOT / "chaoskit").glob("*.py")))
    for name in FOLDERS:
        lines += _section(name, modules_of(ROOT / name))
    return "\n".join(lines)


def _section(title: str, paths: list[Path]) -> Iterator[str]:
    yield from (f"## {title}", "")
    yield from (f"- `{path.relative_to(ROOT / title)}`: {sentence_of(path)}" for path in paths)
    yield ""


@part("commands")
def commands() -> str:
    """Every command with its options, from the parser of the command line."""
    from chaoskit.cli.main import make_parser

    return "\n".join(line for name, parser in _named("", make_parser()) for line in _command(name, parser))


def _named(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The commands of a parser with their names; of `chaoskit kubernetes` those inside it. One without a help is for
    chaoskit itself."""
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not nested:
        yield name, parser
    shown = {one.dest for action in nested for one in action._choices_actions}
    for inner, command in (pair for action in nested for pair in action.choices.items() if pair[0] in shown):
        yield from _named(f"{name} {inner}".strip(), command)


def _command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    taken = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    words = [str(_shown(action)) for action in taken if not action.option_strings]
    usage = parser.usage or " ".join([parser.prog, "[options]", *words])
    yield from (f"## chaoskit {name}", "", _escaped(str(parser.description)), "", f"    {usage}", "")
    if taken:
        yield from ("| option | meaning |", "|---|---|")
    for action in taken:
        text = _escaped((action.help or "") % {**vars(action), "prog": parser.prog})
        yield f"| `{_shown(action)}` | {text} |".replace("| |", "|  |")
    yield ""


def _shown(action: argparse.Action) -> str:
    metavar = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    metavar = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    return " ".join([", ".join(action.option_strings), metavar]).strip().replace("|", "\\|")


def _escaped(text: str) -> str:
    """Text that is neither Markdown nor HTML, in a cell of a table."""
    for sign, entity in {"|": "\\|", "<": "&lt;", "*": "\\*", "_": "\\_"}.items():
        text = text.replace(sign, entity)
    return re.sub(r"\bdocs/([\w/-]+\.md)", r"[docs/\1](../\1)", text)


@part("configuration")
def configuration() -> str:
    """Every key of the configuration file: those of its own, the shared options, and the keys of an acceptance."""
    from chaoskit.cli.configuration import ACCEPT_KEYS, KEYS, TABLES

    lines = ["| key | value | meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | | {_escaped(text)} |" for name, text in TABLES.items()]
    for name, option in KEYS.items():
        value = f"`{option.metavar}`" if option.metavar else "`true`"
        lines.append(f"| `{name}` | {value} | {_escaped(option.help)} |")
    lines += ["", "An entry of `accept` has these keys:", "", "| key | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {_escaped(text)} |" for name, text in ACCEPT_KEYS.items()]
    return "\n".join(lines)


@part("areas")
def areas() -> str:
    """The areas of experiments, and the modules of each."""
    from chaoskit.cli.selection import AREAS, NEED_NODES

    lines = ["| area | experiments | |", "|---|---|---|"]
    for name, modules in AREAS.items():
        named = ", ".join(f"`{module}`" for module in modules)
        lines.append(f"| `{name}` | {named} | {'needs several nodes' if name in NEED_NODES else ''} |")
    return "\n".join(lines)


@part("quick")
def quick() -> str:
    """The quick experiments, and what each does."""
    from chaoskit.cli.selection import QUICK, experiments

    lines = []
    for name in QUICK:
        module = ast.parse(experiments(ROOT / "experiments")[name].read_text())
        found = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == name)
        lines.append(f"- `{name}`: {first_sentence(ast.get_docstring(found) or '')}")
    return "\n".join(lines)


@part("forecast-assumptions")
def forecast_assumptions() -> str:
    """Each assumption of a forecast with its default for 1,024 GPUs and its source."""
    from chaoskit.studies.forecast.assumptions import ASSUMPTIONS

    lines = ["| assumption | default | meaning | source of the default |", "|---|---|---|---|"]
    for name, one in ASSUMPTIONS.items():
        default = one.shown(one.default_for(1024)) + (" for 1,024 GPUs" if callable(one.default) else "")
        lines.append(f"| `{name}` | {default} | {_escaped(one.text)} | {_escaped(one.source)} |")
    return "\n".join(lines)


@part("api-faults")
def api_faults() -> str:
    """A directive of mkdocstrings for each function that makes a fault."""
    from chaoskit.faults import REGISTRY

    return _directives(REGISTRY)


@part("api-checks")
def api_checks() -> str:
    """A directive of mkdocstrings for each function that makes a check."""
    from chaoskit.checks import REGISTRY

    return _directives(REGISTRY)


@part("faults")
def faults() -> str:
    """A section for each group of faults: what each fault does, and which capabilities it needs."""
    from chaoskit.faults.registry import ACTIONS, REGISTRY, group_of

    lines: list[str] = []
    groups = {group_of(make) for make in REGISTRY.values()}
    for group in sorted(groups, key=lambda group: (group not in GROUPS, [*GROUPS, group].index(group), group)):
        lines += [f"## {GROUPS.get(group, group.capitalize())}", "", _docstring(f"chaoskit.faults.{group}"), ""]
        lines += ["| fault | what it does | needs |", "|---|---|---|"]
        for kind, make in sorted(REGISTRY.items()):
            if group_of(make) == group:
                needs = ", ".join(f"`{need.__name__}`" for need in ACTIONS[kind].needs) or "nothing"
                lines.append(f"| `{make.__name__}` | {_cell(first_sentence(make.__doc__ or ''))} | {needs} |")
        lines.append("")
    return "\n".join(lines)


@part("checks")
def checks() -> str:
    """Each check with its options, its claim, and the codes of its verdict."""
    from chaoskit.checks.registry import CODES_OF, REGISTRY

    lines = ["| check | claim | codes |", "|---|---|---|"]
    for name, make in sorted(REGISTRY.items()):
        options = ", ".join(_option(each) for each in inspect.signature(make).parameters.values())
        codes = ", ".join(map(_code, CODES_OF[name]))
        lines.append(f"| `{name}({options})` | {_cell(first_sentence(make.__doc__ or ''))} | {codes} |")
    return "\n".join(lines)


@part("codes")
def codes() -> str:
    """Each code of diagnosis with its family and its meaning."""
    from chaoskit.errors import CODES, FAMILIES

    rows = [f"| `{code}` | {FAMILIES[code]} | {_cell(text)} |" for code, text in CODES.items()]
    return "\n".join(["| code | family | meaning |", "|---|---|---|", *rows])


@part("remedies")
def remedies() -> str:
    """Each code of diagnosis with what to change."""
    from chaoskit.remedies import REMEDIES

    rows = [f"| `{code}` | {_cell(text)} |" for code, text in REMEDIES.items()]
    return "\n".join(["| code | change |", "|---|---|", *rows])


@part("exit-codes")
def exit_codes() -> str:
    """Each exit code with its meaning."""
    from chaoskit.errors import EXIT_MEANINGS

    rows = [f"| {int(code)} | {_cell(text)} |" for code, text in EXIT_MEANINGS.items()]
    return "\n".join(["| exit code | meaning |", "|---|---|", *rows])


#: What rows of a certificate rest on besides experiments.
MEASURES = {
    "crash-states": "the study of crash states, if there is one",
    "replica": "the launch without the first store trained",
    "silent": "the newest map of silent corruption of this job and these sources",
    "interval": "`--mtbf-hours`, `--interval-seconds`, and what the saves of the uninterrupted run cost",
    "formats": "every load of a checkpoint in the stored runs",
    "rules": "none: no command takes monitoring rules",
    "rest": "every experiment of the suites",
}


@part("certificate-rows")
def certificate_rows() -> str:
    """Each row of a certificate with its claim and its evidence."""
    from chaoskit.studies.certificate.rows import ROWS

    lines = ["| row | claim | evidence |", "|---|---|---|"]
    for row in ROWS:
        parts = [_need(need) for need in row.needs]
        parts += [MEASURES[row.measure]] if row.measure else []
        lines.append(f"| {row.title} (`{row.id}`) | {_cell(row.claim)} | {'; '.join(parts)} |")
    return "\n".join(lines)


def _need(need: Need) -> str:
    names = ", ".join(f"`{name.rpartition('::')[2]}`" for name in need.experiments)
    which = f"{need.least} of {names}" if need.least is not None else names
    return f"{which}: {', '.join(f'`{check}`' for check in need.checks)}"


def _option(parameter: inspect.Parameter) -> str:
    return f"{parameter.name}=" + ("" if parameter.default is parameter.empty else repr(parameter.default))


def _code(name: str) -> str:
    from chaoskit.checks.registry import REGISTRY
    from chaoskit.errors import CODES

    if name in CODES:
        return f"`{name}`"
    return f"the codes of `{name}`" if name in REGISTRY else f"the family *{name}*"


def _docstring(module: str) -> str:
    return " ".join((importlib.import_module(module).__doc__ or "").split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _directives(registry: dict[str, Callable[..., object]]) -> str:
    paths = {f"{make.__module__}.{make.__name__}": make.__name__ for make in registry.values()}
    return "\n".join(f"::: {path}\n" for path in sorted(paths, key=lambda path: (paths[path], path)))


def pages() -> list[Path]:
    """Every page that may have generated parts."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def renew(text: str) -> str:
    """The text of a page with every generated part made anew.

    Raises ValueError for a marker without its partner, or for a name that no part has.
    """
    paired = [found[2] for found in _PART.finditer(text) for _ in "be"]
    if sorted(_MARKER.findall(text)) != sorted(paired):
        raise ValueError("a marker of a generated part lacks its partner: write the two as a pair")
    if unknown := set(paired) - PARTS.keys():
        raise ValueError(f"no generated part is called {min(unknown)!r}; there are {', '.join(PARTS)}")
    return _PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]().strip()}\n\n{found[3]}", text)


def main(arguments: list[str] | None = None) -> int:
    """Write the stale pages and name them; with `--check` name them only, and return 1 if there are any."""
    parser = argparse.ArgumentParser(description="Write the generated parts of the pages.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    check = parser.parse_args(arguments).check
    stale = []
    for path in pages():
        text = path.read_text()
        try:
            new = renew(text)
        except ValueError as error:
            parser.error(f"{path.relative_to(ROOT)}: {error}")
        if new != text:
            stale.append(path)
            if not check:
                path.write_text(new)
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'stale; run make tables' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
