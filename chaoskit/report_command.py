"""The command `chaoskit report`: pages of stored runs, or of a suite and all of its runs, for a browser."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit import options
from chaoskit.errors import ExitCode, UsageError
from chaoskit.telling import complain

if TYPE_CHECKING:
    from chaoskit.store import Store
    from chaoskit.suites.suite import Suite

#: Where the pages go where nobody says: of a suite, or of several runs.
DIRECTORY = "chaoskit-report"
#: How the name of a page ends; -o is a directory otherwise.
PAGE = ".html"


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "write pages that show a stored run, or a suite and all of its runs"
    command = commands.add_parser(
        "report",
        help=text,
        description=text.capitalize() + ", for a browser; runs nothing. docs/report.md says what they show.",
        epilog="Without RUN, the last suite is shown.",
    )
    command.add_argument(
        "run", metavar="RUN", nargs="*", help="a stored run: its directory, or the beginning of its id"
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument("--last-suite", action="store_true", help="the last session of 'chaoskit run' or pytest")
    which.add_argument("--suite", metavar="SUITE", help="a session: its file, what --json wrote, or its id")
    command.add_argument(
        "-o",
        metavar="DIR|FILE",
        help=f"where to: a directory (default: {DIRECTORY}), or of one run a FILE.html (default: its id)",
    )
    options.add_to_parser(command, "dir")
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Find, draw, write, and say where the pages are."""
    from chaoskit.report import publishing
    from chaoskit.store import Store

    if args.run and (args.suite or args.last_suite):
        raise UsageError(
            f"{'--suite' if args.suite else '--last-suite'} and RUN do not go together: leave out one"
        )
    store = Store(options.root_of(args))
    runs = list(dict.fromkeys(store.resolve(text) for text in args.run))
    if len(runs) == 1:
        return _one(runs[0], args.o)
    if args.o is not None and args.o.endswith(PAGE):
        what = f"{len(runs)} runs" if runs else "a suite"
        raise UsageError(f"-o: {args.o!r} is one page, too few for {what}: name a directory")
    target = publishing.directory(args.o or DIRECTORY, option="-o")
    suite, store = (_together(runs), store) if runs else _stored(args.suite, store)
    return _several(suite, target, store)


def _one(run_dir: Path, wish: str | None) -> int:
    from chaoskit.report import publishing, site

    name = f"{run_dir.name}{PAGE}"
    if wish is None or wish.endswith(PAGE):
        target = publishing.file(wish or name, option="-o")
    else:
        target = publishing.directory(wish, option="-o") / name
    site.write_run(run_dir, target)
    print(publishing.shown(target))
    return ExitCode.PASS


def _several(suite: Suite, target: Path, store: Store) -> int:
    from chaoskit.report import publishing, site

    written = site.write(suite, target, store=store)
    for line in written.troubles(store):
        complain(line)
    print(publishing.shown(written.index))
    return ExitCode.INTERNAL if written.failed else ExitCode.USAGE if written.damaged else ExitCode.PASS


def _stored(wish: str | None, store: Store) -> tuple[Suite, Store]:
    """The suite that was named, or the last one, and the store that it lies in."""
    from chaoskit.store import Store
    from chaoskit.suites.archive import DIRECTORY as SUITES
    from chaoskit.suites.archive import Archive

    archive = Archive(store)
    path = archive.resolve(wish) if wish else archive.last()
    return archive.read(path), Store(path.parent.parent) if path.parent.name == SUITES else store


def _together(runs: Sequence[Path]) -> Suite:
    """Runs of whatever sessions as one suite."""
    from chaoskit.report import site
    from chaoskit.results import of_runs
    from chaoskit.suites.archive import unkept

    loaded = [site.load(run_dir) for run_dir in runs]
    return unkept((), [of_runs(run.experiment or run.id, [run]) for run in loaded])
