"""The command `chaoskit crash-states`: its options, and what it does."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from chaoskit import options
from chaoskit.exploring import exploring

EXAMPLE = "chaoskit crash-states -- torchrun --nproc-per-node 2 train.py --out {out}"
#: The kinds of crash that the model knows, from mild to severe (`chaoskit.crash`).
PROFILES = ("kill", "ext4", "posix")
#: How many visits are made where nobody says.
MOST = 200


def visits(text: str) -> int | None:
    """A number of visits; None for as many as it takes."""
    return None if text == "all" else positive(text)


def positive(text: str) -> int:
    """A whole number from 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return value


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "record one save, and resume from every state that a crash could have left of it"
    command = commands.add_parser(
        "crash-states",
        help=text,
        usage="chaoskit crash-states [options] -- COMMAND...",
        description=text.capitalize() + ". docs/crash-states.md says what a power cut may do to a file.",
        epilog=f"Example: {EXAMPLE}",
    )
    command.add_argument("--save", metavar="N", type=positive, help="the save to record, from 1 (default: 2)")
    command.add_argument(
        "--visits",
        metavar="N",
        type=visits,
        default=MOST,
        help=f"resume at most so often, or 'all' (default: {MOST}); what the job cannot tell apart takes one visit",
    )
    command.add_argument(
        "--profile", action="append", choices=PROFILES, help="only these kinds of crash (may be given repeatedly)"
    )
    command.add_argument("--seed", metavar="N", type=options.count, default=0, help="of what is drawn at random")
    command.add_argument(
        "-n", metavar="WORKERS", type=positive, help="visits at a time (default: what the cores take)"
    )
    options.add_to_parser(command, "dir", "json", "launch", "timeout", "resume-args")
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Record, visit, and tell what came of it."""
    from chaoskit import workers
    from chaoskit.crash_states import explore
    from chaoskit.report import crash_report, terminal
    from chaoskit.results import EXIT_CODES

    with exploring(args, experiment="crash-states", example=EXAMPLE) as (runner, job):
        found = explore(
            runner,
            job,
            profiles=args.profile or PROFILES,
            save=args.save,
            most=args.visits,
            seed=args.seed,
            workers=args.n or workers.fitting(job.command, experiments=args.visits or MOST),
        )
    crash_report.show(found, terminal.console_for(sys.stderr if args.json == "-" else sys.stdout))
    if args.json:
        crash_report.write(found, args.json)
    return EXIT_CODES[found.outcome]
