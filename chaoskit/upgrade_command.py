"""The command `chaoskit upgrade`: its options, and what it does."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chaoskit import options
from chaoskit.errors import ExitCode, UsageError
from chaoskit.telling import complain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaoskit.battery import Collector
    from chaoskit.upgrade.crossing import Side
    from chaoskit.upgrade.upgrade import Upgrade

EXAMPLE = "chaoskit upgrade --old venv/bin/python --new venv-new/bin/python -- torchrun train.py --out {out}"
#: What the experiments write for themselves, and one suite of two has no use for.
NOT_OURS = ("report", "summary", "badge")


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "run the battery under two interpreters, compare, and carry checkpoints from one to the other and back"
    command = commands.add_parser(
        "upgrade",
        help=text,
        usage="chaoskit upgrade --old PYTHON --new PYTHON [options] -- COMMAND...",
        description=text.capitalize() + ". docs/upgrade.md says what the verdicts mean.",
        epilog=f"Example: {EXAMPLE}",
    )
    for name in ("old", "new"):
        about = f"the interpreter {'before' if name == 'old' else 'after'} the upgrade: venv/bin/python"
        command.add_argument(f"--{name}", metavar="PYTHON", required=True, help=about)
    command.add_argument("-k", metavar="EXPR", help="only experiments whose names match, as in pytest")
    command.add_argument("-n", metavar="WORKERS", help="experiments at a time (default: what the cores take)")
    about = (
        "a loss may be so far off, relatively, once a checkpoint has crossed (default: by how far the two sides' "
    )
    about += "uninterrupted runs lie apart)"
    command.add_argument("--band", metavar="REL", type=float, help=about)
    command.add_argument("-o", metavar="FILE.html", help="write a page for a browser")
    names = [option.name for option in options.SHARED if option.name not in NOT_OURS]
    options.add_to_parser(command, *names)
    command.set_defaults(do=do, **dict.fromkeys(NOT_OURS))


def do(args: argparse.Namespace) -> int:
    """Examine both, run the battery under each, carry checkpoints across, and tell what differs."""
    from chaoskit.report import terminal, upgrade_report

    found = _prepared(args)
    console = terminal.console_for(sys.stderr if args.json == "-" else sys.stdout)
    upgrade_report.show_versions(found, console)
    interrupted, troubles = False, []
    try:
        for side in found.sides:
            collected = _battery(args, side)
            troubles += collected.troubles
            if collected.suite is not None:
                suite = replace(collected.suite, results=tuple(collected.all_results()))
                found = replace(found, suites={**found.suites, side.name: suite})
            if collected.interrupted:
                raise KeyboardInterrupt
        for further in _carried(args, found):
            found = further
    except KeyboardInterrupt:
        interrupted = True
    upgrade_report.show(found, console)
    if args.json:
        upgrade_report.write(found, args.json)
    if args.o:
        _page(found, args.o)
    if interrupted:
        complain("interrupted; what had ended is above")
        return ExitCode.INTERRUPTED
    if troubles:
        raise RuntimeError(troubles[0])
    return found.exit_code


def _prepared(args: argparse.Namespace) -> Upgrade:
    """Both interpreters examined, and all that can be wrong about the arguments; raises UsageError."""
    from chaoskit import battery
    from chaoskit.job import Job
    from chaoskit.report import json_report
    from chaoskit.upgrade import band
    from chaoskit.upgrade.interpreter import Interpreter, must_compare
    from chaoskit.upgrade.upgrade import Upgrade

    if not args.command:
        raise UsageError(f"no command to run: give the job after '--', for example\n  {EXAMPLE}")
    for target, option in ((args.json, "--json"), (args.o, "-o")):
        if target == "-" and option == "-o":
            raise UsageError("-o: name a file; standard output is taken")
        if target:
            json_report.check_target(target, option=option)
    stated = band.stated(args.band) if args.band is not None else None
    old, new = (Interpreter.examine(getattr(args, name), option=f"--{name}") for name in ("old", "new"))
    must_compare(old, new)
    found = Upgrade.of(old, new, Job.from_command(args.command, **_job_options(args)), band=stated)
    for side in found.sides:
        side.job.validate()
    args.count = len(battery.titles(args.k, nodes=args.nodes))
    if not found.differences:
        complain("old and new have the same versions of everything: what differs is not the upgrade's doing")
    return found


def _job_options(args: argparse.Namespace) -> dict[str, Any]:
    """What the options say over the job, as for `chaoskit run`."""
    given = {field: getattr(args, name) for field, name in options.JOB_FIELDS.items()}
    return {"cwd": os.getcwd(), **{name: value for name, value in given.items() if value is not None}}


def _battery(args: argparse.Namespace, side: Side) -> Collector:
    """The experiments under one interpreter."""
    from chaoskit import battery, launching, workers

    environment = args.env or "local"
    how = launching.describe(side.job, environment=environment, wish=args.launch or "auto")
    complain(f"the battery under {side.title}: {how}")
    args.dir = str(options.root_of(args))
    return battery.run(
        [*options.forward(args), f"--chaos-job={shlex.join(side.job.command)}"],
        expression=args.k,
        workers=workers.chosen(args.n, side.job.command, experiments=args.count),
        stream=sys.stderr,
    )


def _carried(args: argparse.Namespace, found: Upgrade) -> Iterator[Upgrade]:
    """The same with the checkpoints, one after the other."""
    from chaoskit.progress import progress_on
    from chaoskit.runner import Runner
    from chaoskit.store import Store

    complain("checkpoints across the border")
    progress = progress_on(sys.stderr)
    runner = Runner(
        Store(options.root_of(args)),
        environment=args.env or "local",
        experiment="upgrade",
        progress=progress,
        launch=args.launch or "auto",
    )
    try:
        found = found.measured(runner)
        yield found
        yield from found.carried(runner)
    finally:
        progress.stop()


def _page(found: Upgrade, target: str) -> None:
    """The page; one that cannot be made changes no verdict."""
    from chaoskit.report.page import write
    from chaoskit.report.upgrade_page import render

    try:
        write(render(found), target)
    except Exception as error:
        said = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
        complain(f"the page is not written ({said})")
