"""The command `chaoskit init`: keeps the command and the options of the last run in the project's configuration."""

from __future__ import annotations

import argparse
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.cli import configuration, options
from chaoskit.cli.output import complain, say
from chaoskit.cli.toml_text import toml_text, toml_value
from chaoskit.errors import FAMILIES, ExitCode, StoreError, UsageError

if TYPE_CHECKING:
    from chaoskit.studies.nights.suite import Suite

#: Options of a single run: a later one has output files of its own.
NOT_KEPT = ("dir", *options.TARGETS, *configuration.NOT_IN_FILE)


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "write the command and the options of the last run into pyproject.toml, or into chaoskit.toml"
    command = commands.add_parser(
        "init",
        help=text,
        description=f"{text[0].upper()}{text[1:]}. Then 'chaoskit run' needs no arguments. A table that exists is "
        "never changed.",
    )
    options.add_to_parser(command, "dir")
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Write the file, and say what it holds."""
    from chaoskit.engine.run_store import Store
    from chaoskit.studies.nights.archive import Archive

    here = Path.cwd()
    existing = configuration.read(here)
    archive = Archive(Store(options.root_of(args)))
    try:
        suite = archive.read(archive.last())
    except StoreError as error:
        raise UsageError(f"there is no run whose command could be kept: {error}") from error
    own = not (here / configuration.PYPROJECT).is_file()
    file = here / (configuration.OWN if own else configuration.PYPROJECT)
    text = table(suite, prefix="" if own else "tool.chaoskit")
    if existing is not None:
        say(text, end="")
        raise UsageError(
            f"{existing.file.name} configures chaoskit already, so nothing was written: the table above is what "
            f"the last run ({suite.id}) would give"
        )
    try:
        before = file.read_text(encoding="utf-8") if file.is_file() else ""
        gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
        tomllib.loads(f"{before}{gap}{text}")
        file.write_text(f"{before}{gap}{text}", encoding="utf-8")
    except (OSError, ValueError) as error:
        say(text, end="")
        raise UsageError(
            f"cannot add the table above to {file.name} ({error}): add it yourself, nothing was written"
        ) from error
    say(text, end="")
    complain(f"wrote this into {file.name}; 'chaoskit run' now needs no arguments")
    return ExitCode.PASS


def table(suite: Suite, *, prefix: str) -> str:
    """Return the table for the command and the options of a suite. `prefix` heads it; empty: the keys stand at the
    top."""
    command, kept, left = _typed(suite)
    lines = [f"[{prefix}]"] if prefix else []
    lines.append(f"command = {toml_text(_joined(command))}")
    lines += [f"{name} = {toml_value(value)}" for name, value in kept.items()]
    if left:
        lines.append(f"# Not kept, because it would hold for every later run: {left}")
    code = next(
        (code for one in suite.results for code in one.codes if FAMILIES.get(code) != "inconclusive"),
        "rng-not-restored",
    )
    head = f"{prefix}.accept" if prefix else "accept"
    lines += [
        "",
        "# What the team has decided to live with. It hides this code and nothing else.",
        f"# [[{head}]]",
        f'# code = "{code}"',
        '# reason = ""',
        "# until = 2027-12-31",
    ]
    return "\n".join(lines) + "\n"


def _typed(suite: Suite) -> tuple[Sequence[str], Mapping[str, Any], str]:
    """Return the command of the job, the options to keep, and the selection, which is not kept."""
    from chaoskit.cli import main

    words, command = main.split(list(suite.command[1:]))
    if words[:1] != ["run"]:
        job = next((one.job for one in suite.results if one.job), "")
        if not job:
            raise UsageError(f"the last suite ({suite.id}) has no job: run 'chaoskit run -- COMMAND' first")
        return _split(job, suite), {}, ""
    command = command or _split(next((one.job for one in suite.results if one.job), ""), suite)
    if not command:
        raise UsageError(f"the last run ({suite.id}) has no command: run 'chaoskit run -- COMMAND' first")
    try:
        args = main.make_parser().parse_args(words)
    except SystemExit as ended:  # the parser has said why
        raise UsageError(f"the last run ({suite.id}) had other options: write the file yourself") from ended
    kept = {
        option.name: value
        for option in options.SHARED
        if option.name not in NOT_KEPT and (value := getattr(args, option.attribute)) not in (None, False)
    }
    if args.n:
        kept["workers"] = args.n
    if args.fail_on:
        kept["fail-on"] = args.fail_on
    chosen = (f"-k {args.k}" if args.k else "", f"--only {args.only}" if args.only else "", "--quick" * args.quick)
    return command, kept, " ".join(filter(None, chosen))


def _split(job: str, suite: Suite) -> list[str]:
    try:
        return shlex.split(job)
    except ValueError as error:
        raise UsageError(f"the command of the last suite ({suite.id}) cannot be read: {error}") from error


def _joined(words: Sequence[str]) -> str:
    """Quote the words as a shell needs it. No shell reads them, so {out} may stay as people write it."""
    bare = [(word, word.replace("{out}", "out")) for word in words]
    return " ".join(word if shlex.quote(plain) == plain else shlex.quote(word) for word, plain in bare)
