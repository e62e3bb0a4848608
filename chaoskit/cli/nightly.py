"""The command `chaoskit nightly`: its options, and what it does."""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path
from typing import Any

from chaoskit.cli import option_values, options, run

EXAMPLE = "chaoskit nightly --minutes 120 --publish /srv/chaoskit -- torchrun train.py --out {out}"
#: The options of a night, their metavar, and what each is for; the same keys stand in the table `nightly` of a file.
ABOUT = {
    "minutes": ("M", "budget: no experiment begins that is expected to end later than M minutes from now"),
    "gpus": ("N", "experiments side by side take at most N GPUs of the cluster (--env kubernetes)"),
    "publish": ("DIR|URL", "write the pages of this night and an index of all nights to a directory or a bucket"),
    "complete": ("", "exit code 3 if the budget did not suffice for every experiment"),
}


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    command = commands.add_parser(
        "nightly",
        help="run the battery within a budget, publish pages, and say what changed since the last night",
        usage="chaoskit nightly [options] [-- COMMAND...]",
        description="Run the battery as 'chaoskit run' does, within a budget. What did not run for longest comes "
        "first. Then publish pages, and say what changed since the last night.",
        epilog="Exit codes: those of 'chaoskit run'. What the budget left out changes the exit code only with "
        "--complete, or if nothing ran at all (3). 4: everything passed, and the pages could not be published. "
        f"Example: {EXAMPLE}",
    )
    add_options(command)
    run.add_battery_options(command)
    options.add_to_parser(command)
    command.set_defaults(do=do, list=False, dry_run=False, harness_image=None, x=False)


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of a night alone."""
    kinds: dict[str, dict[str, Any]] = {
        "minutes": {"type": minutes},
        "gpus": {"type": option_values.positive},
        "publish": {},
        "complete": {"action": "store_true"},
    }
    for name, (metavar, about) in ABOUT.items():
        given: dict[str, Any] = {"metavar": metavar} if metavar else {}
        command.add_argument(f"--{name}", help=about, **given, **kinds[name])


def minutes(text: str) -> float:
    """Parse a positive number of minutes."""
    return option_values.real(text, "a positive number of minutes", lambda value: 0 < value < math.inf)


def do(args: argparse.Namespace) -> int:
    """Run the night, publish it, and say what changed."""
    from chaoskit.cli import configuration
    from chaoskit.cli.night_run import NightRun
    from chaoskit.report.machine import page_target

    begun = time.monotonic()
    found = configuration.read(Path.cwd())
    for name, value in (found.night if found is not None else {}).items():
        if getattr(args, name) in (None, False):
            setattr(args, name, value)
    target = page_target.of(args.publish, option="--publish") if args.publish else None
    with tempfile.TemporaryDirectory(prefix="chaoskit-night-") as directory:
        night = NightRun(args, Path(directory), target, begun)
        return night.exit_code(run.do(args, session=night))
