"""The command `chaoskit upgrade`: its options, and what it does."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chaoskit.cli import options
from chaoskit.cli.configuration import workers
from chaoskit.cli.output import complain
from chaoskit.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaoskit.cli.battery import ResultCollector
    from chaoskit.studies.upgrade.crossing import Side
    from chaoskit.studies.upgrade.upgrade import Upgrade

EXAMPLE = "chaoskit upgrade --old venv/bin/python --new venv-new/bin/python -- torchrun train.py --out {out}"
#: Shared options that make no sense for two suites; no list of accepted losses is read for them.
NOT_OURS = ("report", "summary", "badge", "strict")


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "run the battery under two interpreters, compare the results, and exchange checkpoints between them"
    command = commands.add_parser(
        "upgrade",
        help=text,
        usage="chaoskit upgrade --old PYTHON --new PYTHON [options] -- COMMAND...",
        description=text.capitalize() + ". A checkpoint that one side saved and the other resumes must restore "
        "everything; losses may differ within --band.",
        epilog=f"Example: {EXAMPLE}",
    )
    for name in ("old", "new"):
        about = f"Python interpreter {'before' if name == 'old' else 'after'} the upgrade, such as venv/bin/python"
        command.add_argument(f"--{name}", metavar="PYTHON", required=True, help=about)
    command.add_argument("-k", metavar="EXPR", help="select experiments by name, with pytest's -k syntax")
    about = "experiments in parallel (default: as cores and memory allow)"
    command.add_argument("-n", metavar="WORKERS", type=workers, help=about)
    about = "relative difference of a loss that is tolerated after a checkpoint changed sides (default: the difference "
    about += "between the uninterrupted runs of the two sides)"
    command.add_argument("--band", metavar="REL", type=float, help=about)
    command.add_argument("-o", metavar="FILE.html", help="write the result as an HTML page")
    names = [option.name for option in options.SHARED if option.name not in NOT_OURS]
    options.add_to_parser(command, *names)
    command.set_defaults(do=do, **dict.fromkeys(NOT_OURS))


def do(args: argparse.Namespace) -> int:
    """Examine both interpreters, run the battery under each, exchange checkpoints, and report the differences."""
    from chaoskit.report.terminal import table, upgrade_report

    found = _prepared(args)
    console = table.console_for(sys.stderr if args.json == "-" else sys.stdout)
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
        complain("interrupted; the results above cover the experiments and checkpoints that had ended")
        return ExitCode.INTERRUPTED
    if troubles:
        raise RuntimeError(troubles[0])
    return found.exit_code


def _prepared(args: argparse.Namespace) -> Upgrade:
    """Validate the arguments and examine both interpreters; raises UsageError."""
    from chaoskit import environments
    from chaoskit.cli import battery
    from chaoskit.engine.run_store import Store
    from chaoskit.job import Job
    from chaoskit.report.machine import json_report
    from chaoskit.studies.upgrade import band
    from chaoskit.studies.upgrade.interpreter import Interpreter, must_compare
    from chaoskit.studies.upgrade.upgrade import Upgrade

    if not args.command:
        raise UsageError(f"the command of the job is missing: put it after '--', for example\n  {EXAMPLE}")
    for target, option in ((args.json, "--json"), (args.o, "-o")):
        if target == "-" and option == "-o":
            raise UsageError("-o: the report uses standard output, so '-' is not possible: name a file")
        if target:
            json_report.check_target(target, option=option)
    stated = band.stated(args.band) if args.band is not None else None
    options.check(vars(args))
    options.must_be_used(vars(args))
    environment = options.environment_of(args.env)
    job = Job.from_command(args.command, cwd=os.getcwd(), **options.job_fields(vars(args)))
    environments.must_fit(environment, job.nodes)
    environments.must_have(environment)
    store = Store(options.root_of(args))
    old, new = (Interpreter.examine(getattr(args, name), option=f"--{name}") for name in ("old", "new"))
    must_compare(old, new)
    found = Upgrade.of(old, new, job, band=stated)
    for side in found.sides:
        side.job.validate()
    args.count = len(battery.titles(battery.Selection(args.k), nodes=args.nodes))
    store.must_take_runs()
    if not found.differences:
        complain(
            "old and new have the same version of every package, so the upgrade causes none of the differences"
        )
    return found


def _battery(args: argparse.Namespace, side: Side) -> ResultCollector:
    """Run the experiments under one interpreter."""
    from chaoskit.cli import battery, parallelism
    from chaoskit.engine import launch_mode

    environment = options.environment_of(args.env)
    how = launch_mode.describe(side.job, environment=environment, wish=args.launch or "auto")
    complain(f"running the battery under {side.title}: {how}")
    args.dir = str(options.root_of(args))
    return battery.run(
        [*options.forward(args), f"--chaos-job={shlex.join(side.job.command)}"],
        battery.Selection(args.k),
        workers=parallelism.chosen(args.n, side.job.command, experiments=args.count),
        stream=sys.stderr,
    )


def _carried(args: argparse.Namespace, found: Upgrade) -> Iterator[Upgrade]:
    """Exchange the checkpoints; yields the result after each one."""
    from chaoskit.engine.progress import progress_on
    from chaoskit.engine.run_store import Store
    from chaoskit.engine.runner import Runner

    complain("exchanging checkpoints between old and new")
    progress = progress_on(sys.stderr)
    runner = Runner(
        Store(options.root_of(args)),
        environment=options.environment_of(args.env),
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
    """Write the page; a failure changes no verdict."""
    from chaoskit.report.html.page import write
    from chaoskit.report.html.upgrade_page import render

    try:
        write(render(found), target)
    except Exception as error:
        reason = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
        complain(f"the page could not be written ({reason}); the verdicts stay valid")
