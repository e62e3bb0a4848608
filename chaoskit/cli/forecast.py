"""The command `chaoskit forecast`: its options, and what it does."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from chaoskit.cli import option_values, options
from chaoskit.cli.output import complain
from chaoskit.errors import ExitCode, StoreError, UsageError

if TYPE_CHECKING:
    from chaoskit.studies.forecast.answer import Forecast
    from chaoskit.studies.forecast.measured import MeasuredJob
    from chaoskit.studies.nights.archive import Archive

EXAMPLE = "chaoskit forecast --gpus 1024 --days 30 --mtbf-gpu-hours 50000 -o forecast.html"
#: A suite that is older than so many days says little about the job of today.
OLD = 90
#: Of so many suites the newest that measured something is used if none is named.
LOOKED_AT = 20


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "forecast what failures cost a large job, and what each improvement would gain"
    command = commands.add_parser(
        "forecast",
        help=text,
        description=text.capitalize() + ". It simulates the job from what a suite measured and from what is assumed; "
        "every number says which. The exit code is 3 if the suite is incomplete, old, or lacks what a forecast needs.",
        epilog=f"Example: {EXAMPLE}",
    )
    command.add_argument("--gpus", metavar="N", type=option_values.positive, required=True, help="GPUs of the job")
    about = "days of training that the job needs if nothing fails"
    command.add_argument("--days", metavar="DAYS", type=_amount, required=True, help=about)
    about = "GPU hours between two failures of any kind (default: those of --failures)"
    command.add_argument("--mtbf-gpu-hours", metavar="H", type=_amount, help=about)
    about = "published failure rates: llama3 (default), mttf-by-size, node-day (0.1 %% of the nodes a day)"
    command.add_argument("--failures", metavar="NAME", default="llama3", help=about)
    command.add_argument("--price", metavar="USD", type=_amount, help="price of a GPU hour (default: 3)")
    about = "training between two checkpoints today, such as 20m (default: 60m)"
    command.add_argument("--interval", metavar="TIME", type=option_values.duration, help=about)
    about = "suite whose measurements are used: its id, path, or 'last' (default: the newest useful one)"
    command.add_argument("--suite", metavar="NAME", help=about)
    about = "replace an assumption, such as relaunch=5m; may be given again. -v lists them"
    command.add_argument("--assume", metavar="NAME=VALUE", action="append", default=[], help=about)
    about = "simulated jobs (default: 1000)"
    command.add_argument("--trials", metavar="N", type=option_values.positive, default=1000, help=about)
    about = "seed of the simulation (default: 0)"
    command.add_argument("--seed", metavar="N", type=option_values.count, default=0, help=about)
    command.add_argument("-v", action="store_true", dest="every", help="show every number, the assumed ones too")
    command.add_argument("-o", metavar="FILE", dest="page", help="write an HTML page with pictures (self-contained)")
    options.add_to_parser(command, "dir", "json")
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Read the suite, simulate, and report."""
    from chaoskit.report.machine import json_report, publishing

    if args.json:
        json_report.check_target(args.json)
    if args.page:
        publishing.file(args.page, option="-o")
    if importlib.util.find_spec("numpy") is None:
        raise UsageError("forecast: the simulation needs numpy: pip install 'chaoskit[forecast]'")

    from chaoskit.report.terminal import forecast_report, table

    found, weak = _forecast(args)
    forecast_report.show(
        found, table.console_for(sys.stderr if args.json == "-" else sys.stdout), every=args.every
    )
    if args.json:
        forecast_report.write(found, args.json)
    if args.page:
        from chaoskit.report.html import forecast_page, page

        page.write(forecast_page.render(found), args.page)
    for sentence in weak:
        complain(sentence)
    return ExitCode.INCONCLUSIVE if weak else ExitCode.PASS


def _forecast(args: argparse.Namespace) -> tuple[Forecast, list[str]]:
    """Make the forecast; also returns why its suite is weak evidence, in sentences."""
    from chaoskit.engine.run_store import Store
    from chaoskit.studies.forecast import assumptions
    from chaoskit.studies.forecast.answer import forecast
    from chaoskit.studies.forecast.inputs import ForecastRequest
    from chaoskit.studies.nights.archive import Archive

    stated = assumptions.parse(args.assume)
    if args.interval is not None:
        if "interval" in stated:
            raise UsageError("--interval and --assume interval=... say the same: leave one out")
        stated["interval"] = assumptions.ASSUMPTIONS["interval"].parse(args.interval)
    request = ForecastRequest(args.gpus, args.days, args.price, args.mtbf_gpu_hours, args.failures, stated)
    archive = Archive(Store(options.root_of(args)))
    measured = _named(archive, args.suite) if args.suite is not None else _newest(archive)
    weak = weaknesses(measured) if measured is not None else []
    return forecast(request, measured, trials=args.trials, seed=args.seed), weak


def _named(archive: Archive, name: str) -> MeasuredJob:
    """Measure the suite that the user names; raises UsageError if it measured nothing that a forecast needs."""
    from chaoskit.studies.forecast.measured import measured

    found = measured(archive.read(archive.resolve(name)))
    if not found.useful:
        raise UsageError(
            f"--suite: suite {found.suite} measured neither a checkpoint nor a recovery: name another one, or run "
            "experiments that kill a rank ('chaoskit run -k one_rank_mid_epoch -- COMMAND')"
        )
    return found


def _newest(archive: Archive) -> MeasuredJob | None:
    """Measure the newest complete suite that measured what a forecast needs; None without one. Damaged suites are
    reported and left out."""
    from chaoskit.studies.forecast.measured import measured

    for path in reversed(archive.all()[-LOOKED_AT:]):
        try:
            found = measured(archive.read(path))
        except StoreError as error:
            complain(f"suite ignored: {error}")
            continue
        if found.useful and found.ended:
            return found
    return None


def weaknesses(found: MeasuredJob, *, now: datetime | None = None) -> list[str]:
    """Say why the measurements of a suite are weak evidence, in sentences; nothing if they are not."""
    sentences = []
    if not found.ended:
        sentences.append(f"suite {found.suite} is incomplete: experiments that did not run measured nothing")
    if (age := _age(found.created, now or datetime.now(UTC))) is not None and age > OLD:
        sentences.append(
            f"suite {found.suite} is {age} days old: the job may have changed; run 'chaoskit run' again"
        )
    lacks = [
        what
        for what, value in (
            ("what a checkpoint costs", found.cost),
            ("how long the ranks take to stop", found.crash_seconds),
            ("how many recoveries fail", found.judged or None),
        )
        if value is None
    ]
    if lacks:
        sentences.append(
            f"suite {found.suite} did not measure {', '.join(lacks)}: these numbers are assumed "
            "(a suite of an older chaoskit, or without the experiments that kill a rank)"
        )
    return sentences


def _age(created: str, now: datetime) -> int | None:
    try:
        return (now - datetime.fromisoformat(created).astimezone(UTC)).days
    except (ValueError, OverflowError):
        return None


def _amount(text: str) -> float:
    return option_values.real(text, "a positive number", lambda value: 0 < value < float("inf"))
