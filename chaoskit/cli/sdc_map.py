"""The command `chaoskit sdc-map`: its options, and what it does."""

from __future__ import annotations

import argparse
import math
import sys
from typing import TYPE_CHECKING, Any

from chaoskit.cli import option_values, options
from chaoskit.cli.study_setup import exploring
from chaoskit.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from chaoskit.protocol.targets import InjectionTarget
    from chaoskit.studies.sdc.map import SdcMap

EXAMPLE = "chaoskit sdc-map -- torchrun --nproc-per-node 2 train.py --out {out}"
#: The default for the time of the measurement, in seconds.
SECONDS = 300.0
#: Steps to watch after the corrupted one; relative difference below which a loss counts as unchanged.
WINDOW, TOLERANCE = 10, 1e-4


def tolerance(text: str) -> float:
    """Parse a finite nonnegative number."""
    return option_values.real(text, "a number >= 0", lambda value: 0 <= value < math.inf)


def place(text: str) -> InjectionTarget:
    """Parse an injection target."""
    from chaoskit.protocol.targets import InjectionTarget

    try:
        return InjectionTarget.parse(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("into: ")) from error


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "corrupt numbers of the training one at a time; measure which the job detects and which change its loss"
    command = commands.add_parser(
        "sdc-map",
        help=text,
        usage="chaoskit sdc-map [options] -- COMMAND...",
        description=text.capitalize() + ". Every kind of number and of change has its turn, in an order that the "
        "seed decides; each run is compared with the uninterrupted one.",
        epilog=f"Example: {EXAMPLE}",
    )
    command.add_argument(
        "--seconds",
        metavar="S",
        type=option_values.seconds,
        default=SECONDS,
        help=f"total time of the measurement in seconds (default: {SECONDS:g})",
    )
    command.add_argument(
        "--injections",
        metavar="N",
        type=option_values.positive,
        help="maximum number of corruptions (default: as many as fit into the time)",
    )
    command.add_argument(
        "--into",
        metavar="PLACE",
        action="append",
        type=place,
        default=[],
        help="corrupt only this target, such as 'gradient:head.*' or 'collective:all_reduce' (repeatable)",
    )
    command.add_argument("--seed", metavar="N", type=option_values.count, default=0, help="random seed (default: 0)")
    command.add_argument(
        "--window",
        metavar="N",
        type=option_values.positive,
        default=WINDOW,
        help=f"number of steps to watch after a corruption (default: {WINDOW})",
    )
    command.add_argument(
        "--tolerance",
        metavar="T",
        type=tolerance,
        default=TOLERANCE,
        help=f"relative difference below which a loss counts as unchanged (default: {TOLERANCE:g})",
    )
    command.add_argument(
        "--picture",
        metavar="FILE",
        help="write the map to this file: as an SVG picture, or as a page if its name ends in .html",
    )
    command.add_argument(
        "-n",
        metavar="WORKERS",
        type=option_values.positive,
        help="launches in parallel (default: as cores and memory allow)",
    )
    cluster = (name.replace("_", "-") for name in options.CLUSTER)
    names = ("env", "nodes", "image", "mount", "pull", *cluster, "dir", "json", "launch", "timeout")
    options.add_to_parser(command, *names)
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Measure the map and report it."""
    from chaoskit.cli import parallelism
    from chaoskit.report.machine import json_report
    from chaoskit.report.terminal import sdc_report, table
    from chaoskit.studies.sdc.survey import make_map

    if args.picture:
        json_report.check_target(args.picture, option="--picture")
    if args.picture == args.json == "-":
        raise UsageError("--json and --picture cannot both go to standard output: name a file for one of them")
    with exploring(args, experiment="sdc-map", example=EXAMPLE) as (runner, job):
        found = make_map(
            runner,
            job,
            seconds=args.seconds,
            most=args.injections,
            into=args.into,
            seed=args.seed,
            window=args.window,
            tolerance=args.tolerance,
            workers=args.n or parallelism.fitting(job.command, experiments=args.injections or 100),
        )
    sdc_report.show(found, table.console_for(sys.stderr if args.json == "-" else sys.stdout))
    if args.picture:
        json_report.write_text(picture(found, args.picture), args.picture, option="--picture")
    if args.json:
        sdc_report.write(found, args.json)
    return ExitCode.PASS


def picture(one: SdcMap, target: str) -> str:
    """The map as its file wants it: a page for `.html`, else SVG."""
    from chaoskit.report.html import sdc_page
    from chaoskit.report.svg import sdc_picture

    return sdc_page.render(one) if target.endswith(".html") else sdc_picture.svg(one)
