"""The command `chaoskit report`: HTML pages of stored runs, or of a suite and all of its runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.cli import options
from chaoskit.cli.output import complain, say
from chaoskit.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from chaoskit.engine.run_store import Store
    from chaoskit.studies.nights.suite import Suite

#: The default directory for the pages of a suite or of several runs.
DIRECTORY = "chaoskit-report"
#: With this suffix -o names a file, otherwise a directory.
PAGE = ".html"


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "write HTML pages of a stored run, or of a suite and all of its runs"
    command = commands.add_parser(
        "report",
        help=text,
        description="Write HTML pages of a stored run, or of a suite and all of its runs. Starts no job. "
        "A page needs no server and loads nothing from the network.",
        epilog="Without RUN, the pages show the last suite.",
    )
    command.add_argument(
        "run", metavar="RUN", nargs="*", help="a stored run: its directory, its id, or a prefix of its id"
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument("--last-suite", action="store_true", help="the last session of 'chaoskit run' or pytest")
    which.add_argument("--suite", metavar="SUITE", help="a suite: its id, its file, or a file written by --json")
    command.add_argument(
        "-o",
        metavar="DIR|FILE",
        help=f"output directory (default: {DIRECTORY}), or for one run a FILE.html (default: named after its id)",
    )
    options.add_to_parser(command, "dir")
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Write the pages and print the path of the first one."""
    from chaoskit.engine.run_store import Store
    from chaoskit.report.machine import publishing

    if args.run and (args.suite or args.last_suite):
        raise UsageError(
            f"{'--suite' if args.suite else '--last-suite'} and RUN exclude each other: give only one of them"
        )
    store = Store(options.root_of(args))
    runs = list(dict.fromkeys(store.resolve(text) for text in args.run))
    if len(runs) == 1:
        return _one(runs[0], args.o)
    if args.o is not None and args.o.endswith(PAGE):
        what = f"{len(runs)} runs" if runs else "a suite"
        raise UsageError(f"-o: {args.o!r} is too few pages for {what}: name a directory")
    target = publishing.directory(args.o or DIRECTORY, option="-o")
    suite, store = (_together(runs), store) if runs else _stored(args.suite, store)
    return _several(suite, target, store)


def _one(run_dir: Path, wish: str | None) -> int:
    from chaoskit.report.html import site
    from chaoskit.report.machine import publishing

    name = f"{run_dir.name}{PAGE}"
    if wish is None or wish.endswith(PAGE):
        target = publishing.file(wish or name, option="-o")
    else:
        target = publishing.directory(wish, option="-o") / name
    site.write_run(run_dir, target)
    say(publishing.shown(target))
    return ExitCode.PASS


def _several(suite: Suite, target: Path, store: Store) -> int:
    from chaoskit.report.html import site
    from chaoskit.report.machine import publishing

    written = site.write(suite, target, store=store, problems=suite.problems)
    for line in written.troubles(store):
        complain(line)
    say(publishing.shown(written.index))
    return ExitCode.INTERNAL if written.failed else ExitCode.USAGE if written.damaged else ExitCode.PASS


def _stored(wish: str | None, store: Store) -> tuple[Suite, Store]:
    """Return the named suite, or the last one, and the store that contains it."""
    from chaoskit.engine.run_store import Store
    from chaoskit.studies.nights.archive import DIRECTORY as SUITES
    from chaoskit.studies.nights.archive import Archive

    archive = Archive(store)
    path = archive.resolve(wish) if wish else archive.last()
    return archive.read(path), Store(path.parent.parent) if path.parent.name == SUITES else store


def _together(runs: Sequence[Path]) -> Suite:
    """Combine runs of any sessions into one suite."""
    from chaoskit.engine.result import of_runs
    from chaoskit.report.html import site
    from chaoskit.studies.nights.archive import unkept

    loaded = [site.load(run_dir) for run_dir in runs]
    return unkept((), [of_runs(run.experiment or run.id, [run]) for run in loaded])
