"""The command `chaoskit compare`: its options, and what it does."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from chaoskit import options

WHAT = "its id or the beginning of it, 'last', a .jsonl file, or what --json wrote"


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "compare two suites: which verdicts changed, where the uninterrupted runs part, what is slower"
    command = commands.add_parser(
        "compare",
        help=text,
        description=text.capitalize() + ". docs/compare.md says what counts as worse.",
        epilog="Example: chaoskit compare before.json last -o compare.html",
    )
    command.add_argument("old", metavar="A", help=f"the old suite: {WHAT}")
    command.add_argument("new", metavar="B", help="the new one")
    command.add_argument("--times", action="store_true", help="fail, too, if launches or recoveries became slower")
    command.add_argument("-o", metavar="FILE", dest="page", help="write a page (HTML) that needs no network")
    options.add_to_parser(command, "dir", "json")
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Read both, compare them, tell what came of it."""
    from chaoskit.report import compare_json, compare_page, compare_report, json_report, page, publishing, terminal
    from chaoskit.store import Store
    from chaoskit.suites.archive import Archive
    from chaoskit.suites.contrast import contrast

    if args.json:
        json_report.check_target(args.json)
    if args.page:
        publishing.directory(str(Path(args.page).parent), option="-o")
    archive = Archive(Store(options.root_of(args)))
    old, new = (archive.read(archive.resolve(text)) for text in (args.old, args.new))
    found = contrast(old, new)
    console = terminal.console_for(sys.stderr if args.json == "-" else sys.stdout)
    compare_report.show(found, console, times=args.times)
    if args.json:
        compare_json.write(found, args.json, times=args.times)
    if args.page:
        page.write(compare_page.render(found, times=args.times), args.page)
    return found.exit_code(times=args.times)
