"""The command `chaoskit crash-states`: its options, and what it does."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from chaoskit.cli import option_values, options
from chaoskit.cli.study_setup import exploring

EXAMPLE = "chaoskit crash-states -- torchrun --nproc-per-node 2 train.py --out {out}"
#: The crash profiles of the model, from mild to severe (`chaoskit.analysis.crash_model`).
PROFILES = ("kill", "ext4", "posix")
#: The default for the maximum number of resume trials.
MOST = 200


def visits(text: str) -> int | None:
    """Parse a number of resume trials; None means no limit."""
    return None if text == "all" else option_values.positive(text)


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "record one save, and resume from every storage state that a crash during it could leave"
    command = commands.add_parser(
        "crash-states",
        help=text,
        usage="chaoskit crash-states [options] -- COMMAND...",
        description=text.capitalize()
        + ". The profiles: 'kill' is a crash of the processes alone, 'ext4' a power cut "
        "as ext4 orders writes, 'posix' a power cut after which only fsynced data is certain.",
        epilog=f"Example: {EXAMPLE}",
    )
    command.add_argument(
        "--save",
        metavar="N",
        type=option_values.positive,
        help="number of the save to record, counted from 1 (default: 2)",
    )
    command.add_argument(
        "--visits",
        metavar="N",
        type=visits,
        default=MOST,
        help=f"maximum number of resume trials, or 'all' (default: {MOST}); "
        "states that the job cannot distinguish share one",
    )
    command.add_argument(
        "--profile", action="append", choices=PROFILES, help="test only this crash profile (repeatable)"
    )
    command.add_argument(
        "--seed", metavar="N", type=option_values.count, default=0, help="random seed (default: 0)"
    )
    command.add_argument(
        "-n",
        metavar="WORKERS",
        type=option_values.positive,
        help="resume trials in parallel (default: as the cores allow)",
    )
    options.add_to_parser(
        command, "env", "nodes", "image", "mount", "pull", "dir", "json", "launch", "timeout", "resume-args"
    )
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Record a save, run the resume trials, report the result."""
    from chaoskit.capabilities import CanShowDirectory
    from chaoskit.cli import parallelism
    from chaoskit.engine.result import EXIT_CODES
    from chaoskit.report.terminal import crash_report, table
    from chaoskit.studies.crash_states.explore import explore
    from chaoskit.studies.crash_states.result import keep

    with exploring(args, experiment="crash-states", example=EXAMPLE, needs=[CanShowDirectory]) as (runner, job):
        found = explore(
            runner,
            job,
            profiles=args.profile or PROFILES,
            save=args.save,
            most=args.visits,
            seed=args.seed,
            workers=args.n or parallelism.fitting(job.command, experiments=args.visits or MOST),
        )
    if not args.profile:
        keep(found)
    crash_report.show(found, table.console_for(sys.stderr if args.json == "-" else sys.stdout))
    if args.json:
        crash_report.write(found, args.json)
    return EXIT_CODES[found.outcome]
