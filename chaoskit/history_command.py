"""The command `chaoskit history`: its options, and what it does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit import options
from chaoskit.errors import StoreError, UsageError
from chaoskit.telling import complain

if TYPE_CHECKING:
    from chaoskit.suites.archive import Archive
    from chaoskit.suites.chronicle import Chronicle
    from chaoskit.suites.suite import Suite


def positive(text: str) -> int:
    """A whole number from 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return value


def day(text: str) -> date:
    """A date, as 2026-11-22."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date such as 2026-11-22") from None


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "tell what many nights come to: what became red or green, what is flaky, what became slow"
    command = commands.add_parser(
        "history",
        help=text,
        description=text.capitalize() + ". A night is a suite: one session of 'chaoskit run' or of pytest. "
        "docs/history.md says how it is told.",
        epilog="Example: chaoskit history --last 30 -o history.html",
    )
    command.add_argument("-k", metavar="EXPR", help="only experiments whose names match, as in pytest")
    command.add_argument("--last", metavar="N", type=positive, help="only the last N suites (default: all)")
    command.add_argument("--since", metavar="DATE", type=day, help="only suites from this day on (UTC)")
    command.add_argument("--times", action="store_true", help="fail, too, if something became slow")
    command.add_argument("-o", metavar="FILE", dest="page", help="write a page (HTML) that needs no network")
    options.add_to_parser(command, "dir", "json")
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Read the suites, and tell what they come to."""
    from chaoskit.report import history_page, history_report, json_report, page, terminal
    from chaoskit.store import Store
    from chaoskit.suites.archive import Archive
    from chaoskit.suites.chronicle import Chronicle
    from chaoskit.suites.findings import Findings

    for option, target in (("--json", args.json), ("-o", args.page)):
        if target:
            json_report.check_target(target, option=option)
    archive = Archive(Store(options.root_of(args)))
    paths = archive.all() or [archive.last()]
    damaged: list[str] = []
    chronicle = Chronicle.of(_read(archive, _chosen(paths, args), args.since, damaged))
    for line in damaged:
        complain(f"left out: {line}")
    if not chronicle.nights:
        since = f" since {args.since}" if args.since else ""
        raise UsageError(f"{archive.directory} holds no suite{since} that can be read: see --dir and --since")
    findings = Findings.of(chronicle if args.k is None else chronicle.only(_matching(chronicle, args.k)))
    history_report.show(findings, terminal.console_for(sys.stderr if args.json == "-" else sys.stdout))
    if args.json:
        history_report.write(findings, args.json, damaged=damaged)
    if args.page:
        page.write(history_page.render(findings), args.page)
    return findings.exit_code(times=args.times)


def _chosen(paths: Sequence[Path], args: argparse.Namespace) -> Sequence[Path]:
    return paths if args.last is None else paths[-args.last :]


def _read(archive: Archive, paths: Sequence[Path], since: date | None, damaged: list[str]) -> Iterator[Suite]:
    """One by one; what cannot be read is left out, and told in `damaged`. A suite without a date is the oldest."""
    for path in paths:
        try:
            suite = archive.read(path)
        except StoreError as error:
            damaged.append(str(error))
            continue
        if since is None or (_day(suite.created) or date.min) >= since:
            yield suite


def _day(created: str) -> date | None:
    try:
        return datetime.fromisoformat(created).astimezone(UTC).date()
    except ValueError:
        return None


def _matching(chronicle: Chronicle, expression: str) -> set[str]:
    """The names that an expression selects; raises UsageError for one that is none, or selects nothing."""
    from _pytest.mark.expression import Expression

    try:
        wanted = Expression.compile(expression)
    # Its own error, which has moved from version to version, or one of Python's about what it makes of it.
    except Exception as error:
        raise UsageError(f"-k {expression!r} is no expression such as 'kill and not twice' ({error})") from error
    names = {track.name for track in chronicle.tracks}
    found = {name for name in names if wanted.evaluate(_within(name))}
    if not found:
        raise UsageError(f"-k {expression!r} selects no experiment: without -k all of them are shown")
    return found


def _within(name: str) -> Any:
    low = name.lower()
    return lambda part, /, **_: part.lower() in low
