"""The command `chaoskit history`: its options, and what it does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.cli import option_values, options
from chaoskit.cli.output import complain, complain_unended
from chaoskit.errors import StoreError, UsageError

if TYPE_CHECKING:
    from chaoskit.studies.nights.archive import Archive
    from chaoskit.studies.nights.suite import Suite
    from chaoskit.studies.nights.suite_history import SuiteHistory


def day(text: str) -> date:
    """Parse a date such as 2026-11-22."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date: write it as 2026-11-22") from None


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "summarize the suites of many nights: new failures, fixes, flaky experiments, slower times"
    command = commands.add_parser(
        "history",
        help=text,
        description=text.capitalize() + ". A night is a suite: one session of 'chaoskit run' or of pytest. "
        "The exit code is 1 if an experiment that passed before fails now. Changes of times are tested against the "
        "earlier passed nights of the same machine.",
        epilog="Example: chaoskit history --last 30 -o history.html",
    )
    command.add_argument("-k", metavar="EXPR", help="select experiments by name, with pytest's -k syntax")
    command.add_argument(
        "--last", metavar="N", type=option_values.positive, help="only the last N suites (default: all)"
    )
    command.add_argument("--since", metavar="DATE", type=day, help="only suites since this date (UTC)")
    command.add_argument("--times", action="store_true", help="also fail if a time became slower")
    command.add_argument(
        "-o", metavar="FILE", dest="page", help="write the history as an HTML page (self-contained)"
    )
    command.add_argument(
        "--metrics", metavar="FILE", help="write the last night as metrics for Prometheus; - is standard output"
    )
    options.add_to_parser(command, "dir", "json")
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Read the suites and report the findings."""
    from chaoskit.engine.run_store import Store
    from chaoskit.report.html import history_page, page
    from chaoskit.report.machine import json_report, prometheus, publishing
    from chaoskit.report.terminal import history_report, table
    from chaoskit.studies.nights.archive import Archive
    from chaoskit.studies.nights.findings import Findings
    from chaoskit.studies.nights.suite_history import SuiteHistory

    for option, target in (("--json", args.json), (prometheus.OPTION, args.metrics)):
        if target:
            json_report.check_target(target, option=option)
    if args.page:
        publishing.file(args.page, option="-o")
    if args.json == args.metrics == "-":
        raise UsageError("--json and --metrics cannot both go to standard output: name a file for one of them")
    archive = Archive(Store(options.root_of(args)))
    paths = archive.all() or [archive.last()]
    damaged: list[str] = []
    missing: dict[str, str] = {}
    history = SuiteHistory.of(_read(archive, _chosen(paths, args), args.since, damaged, missing))
    for line in damaged:
        complain(f"suite ignored: {line}")
    for name, later in missing.items():
        complain(f"suite missing: {name}, which began before {later}, is not in {archive.directory}: it was deleted, "
                 "or it was not copied")  # fmt: skip
    if not history.nights:
        since = f" since {args.since}" if args.since else ""
        raise UsageError(f"{archive.directory} contains no readable suite{since}: check --dir and --since")
    findings = Findings.of(history if args.k is None else history.only(_matching(history, args.k)))
    history_report.show(
        findings, table.console_for(sys.stderr if "-" in (args.json, args.metrics) else sys.stdout)
    )
    if args.json:
        history_report.write(findings, args.json, damaged=damaged)
    if args.page:
        page.write(history_page.render(findings), args.page)
    if args.metrics:
        prometheus.write(findings, args.metrics, damaged=len(damaged))
    return findings.exit_code(times=args.times)


def _chosen(paths: Sequence[Path], args: argparse.Namespace) -> Sequence[Path]:
    return paths if args.last is None else paths[-args.last :]


def _read(
    archive: Archive, paths: Sequence[Path], since: date | None, damaged: list[str], missing: dict[str, str]
) -> Iterator[Suite]:
    """Yield the suites one by one. One that cannot be read is omitted, and its error is appended to `damaged`; a suite
    without a date counts as the oldest. `missing` gets each suite that another one names and that is not there, with
    the other one. Who removes old suites removes the oldest: these are not missed."""
    known = [path.stem for path in archive.all()]
    for path in paths:
        try:
            suite = archive.read(path)
        except StoreError as error:
            damaged.append(str(error))
            continue
        if suite.after not in known and suite.after > known[0]:
            missing.setdefault(suite.after, suite.id)
        if since is None or (_day(suite.created) or date.min) >= since:
            complain_unended(suite)
            yield suite


def _day(created: str) -> date | None:
    try:
        return datetime.fromisoformat(created).astimezone(UTC).date()
    except (ValueError, OverflowError):
        return None


def _matching(history: SuiteHistory, expression: str) -> set[str]:
    """Return the names that an expression selects; raises UsageError if it is invalid or selects nothing."""
    from _pytest.mark.expression import Expression

    try:
        wanted = Expression.compile(expression)
    # Besides Python's own errors: pytest's error, whose module differs between versions.
    except Exception as error:
        message = f"-k {expression!r} is not a valid expression ({error}): write one such as 'kill and not twice'"
        raise UsageError(message) from error
    names = {track.name for track in history.tracks}
    found = {name for name in names if wanted.evaluate(_within(name))}
    if not found:
        raise UsageError(f"-k {expression!r} selects no experiment: omit -k to show all of them")
    return found


def _within(name: str) -> Any:
    low = name.lower()
    return lambda part, /, **_: part.lower() in low
