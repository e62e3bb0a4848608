"""The command `chaoskit compare`: its options, and what it does."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from chaoskit.cli import options
from chaoskit.cli.output import complain_unended

SUITE = "its id or a prefix of it, 'last', a .jsonl file, or a file written by --json"


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "compare two suites: changed verdicts, first divergence of the uninterrupted runs, slower times"
    command = commands.add_parser(
        "compare",
        help=text,
        description=text.capitalize()
        + ". An experiment is worse if it fails in B and not in A, or fails with a new "
        "code.",
        epilog="Example: chaoskit compare before.json last -o compare.html",
    )
    command.add_argument("old", metavar="A", help=f"the old suite: {SUITE}")
    command.add_argument("new", metavar="B", help="the new suite, given in the same way")
    command.add_argument("--times", action="store_true", help="also fail if launches or recoveries became slower")
    command.add_argument(
        "-o", metavar="FILE", dest="page", help="write the comparison as an HTML page (self-contained)"
    )
    options.add_to_parser(command, "dir", "json")
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Read both suites, compare them, report the result."""
    from chaoskit.engine.run_store import Store
    from chaoskit.report.html import compare_page, page
    from chaoskit.report.machine import compare_json, json_report, publishing
    from chaoskit.report.terminal import compare_report, table
    from chaoskit.studies.nights.archive import Archive
    from chaoskit.studies.nights.comparison import compare_suites

    if args.json:
        json_report.check_target(args.json)
    if args.page:
        publishing.page(args.page, option="-o")
    archive = Archive(Store(options.root_of(args)))
    old, new = (archive.read(archive.resolve(text)) for text in (args.old, args.new))
    for suite in (old, new):
        complain_unended(suite)
    found = compare_suites(old, new)
    console = table.console_for(sys.stderr if args.json == "-" else sys.stdout)
    compare_report.show(found, console, times=args.times)
    if args.json:
        compare_json.write(found, args.json, times=args.times)
    if args.page:
        page.write(compare_page.render(found, times=args.times), args.page)
    return found.exit_code(times=args.times)
