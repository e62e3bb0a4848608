"""The command `chaoskit sdc-map`: its options, and what it does."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from chaoskit import options
from chaoskit.errors import ExitCode, UsageError
from chaoskit.exploring import exploring

if TYPE_CHECKING:
    from chaoskit.places import Place

EXAMPLE = "chaoskit sdc-map -- torchrun --nproc-per-node 2 train.py --out {out}"
#: How long corruptions are tried out where nobody says, in seconds.
SECONDS = 300.0
#: How many steps after the struck one are watched, and by how much, relatively, a loss may be off unchanged.
WINDOW, TOLERANCE = 10, 1e-4


def positive(text: str) -> int:
    """A whole number from 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return value


def tolerance(text: str) -> float:
    """A number from 0."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number from 0")
    return value


def place(text: str) -> Place:
    """Where corruptions are put."""
    from chaoskit.places import Place

    try:
        return Place.parse(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("into: ")) from error


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = (
        "make numbers of the training wrong, one by one, and say which the job notices and which change its loss"
    )
    command = commands.add_parser(
        "sdc-map",
        help=text,
        usage="chaoskit sdc-map [options] -- COMMAND...",
        description=text.capitalize() + ". docs/sdc-map.md says how it is measured.",
        epilog=f"Example: {EXAMPLE}",
    )
    command.add_argument(
        "--seconds",
        metavar="S",
        type=options.seconds,
        default=SECONDS,
        help=f"try out for so long, all in all (default: {SECONDS:g})",
    )
    command.add_argument(
        "--injections", metavar="N", type=positive, help="stop after so many (default: at the end of the time)"
    )
    command.add_argument(
        "--into",
        metavar="PLACE",
        action="append",
        type=place,
        default=[],
        help="only into these places, such as 'gradient:head.*' or 'collective:all_reduce' (may be given repeatedly)",
    )
    command.add_argument("--seed", metavar="N", type=options.count, default=0, help="of what is drawn at random")
    command.add_argument(
        "--window",
        metavar="N",
        type=positive,
        default=WINDOW,
        help=f"watch so many steps after it (default: {WINDOW})",
    )
    command.add_argument(
        "--tolerance",
        metavar="T",
        type=tolerance,
        default=TOLERANCE,
        help=f"a loss may be off by so much, relatively, and is not changed (default: {TOLERANCE:g})",
    )
    command.add_argument("--picture", metavar="FILE", help="draw the map to this file, as SVG")
    command.add_argument(
        "-n", metavar="WORKERS", type=positive, help="launches at a time (default: what the cores take)"
    )
    options.add_to_parser(command, "dir", "json", "launch", "timeout")
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Try out, and tell what came of it."""
    from chaoskit import workers
    from chaoskit.report import json_report, sdc_picture, sdc_report, terminal
    from chaoskit.sdc.survey import make_map

    if args.picture:
        json_report.check_target(args.picture, option="--picture")
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
            workers=args.n or workers.fitting(job.command, experiments=args.injections or 100),
        )
    sdc_report.show(found, terminal.console_for(sys.stderr if args.json == "-" else sys.stdout))
    if args.picture:
        json_report.write_text(sdc_picture.svg(found), args.picture, option="--picture")
    if args.json:
        sdc_report.write(found, args.json)
    return ExitCode.PASS
