"""The command `chaoskit run`: its options, and what it does."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from dataclasses import replace
from typing import Any

from chaoskit.cli import options
from chaoskit.cli.output import complain, internal, report_problems, targets_of
from chaoskit.errors import ExitCode, UsageError

EXAMPLE = "chaoskit run -- torchrun --nproc-per-node 2 train.py --out {out}"


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    command = commands.add_parser(
        "run",
        help="run the battery of fault-injection experiments on a job",
        usage="chaoskit run [options] -- COMMAND...",
        description="Run the battery of fault-injection experiments on a job. The job's code does not change.",
        epilog="chaoskit replaces {out} by a new directory for each run; relaunches within a run get the same one. "
        f"Example: {EXAMPLE}",
    )
    command.add_argument("-k", metavar="EXPR", help="select experiments by name, with pytest's -k syntax")
    command.add_argument("--list", action="store_true", help="list the experiments without running them")
    command.add_argument("--junitxml", metavar="FILE", help="write the results as JUnit XML")
    command.add_argument(
        "-n", metavar="WORKERS", help="experiments in parallel (default: as cores and memory allow)"
    )
    command.add_argument("-x", action="store_true", help="stop at the first experiment that does not pass")
    command.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also print every experiment: a table, and why each one did not pass",
    )
    command.add_argument(
        "--fail-on",
        choices=("weaknesses", "problems"),
        default="weaknesses",
        help="what makes the exit code 1: problems and weaknesses (the default), or problems alone",
    )
    options.add_to_parser(command)
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Run the experiments and report the results."""
    from chaoskit import environments
    from chaoskit.cli import battery, parallelism
    from chaoskit.engine import launch_mode, result
    from chaoskit.engine.run_store import Store
    from chaoskit.job import Job
    from chaoskit.report.machine import json_report

    if args.list:
        _list(battery.titles(args.k, nodes=args.nodes))
        return ExitCode.PASS
    if not args.command:
        raise UsageError(f"the command of the job is missing: put it after '--', for example\n  {EXAMPLE}")
    job = Job.from_command(args.command, cwd=os.getcwd())
    job.validate()
    targets = targets_of(args)
    if args.junitxml:
        json_report.check_target(args.junitxml, option="--junitxml")
    environment = options.environment_of(args.env)
    environments.must_have(environment)
    complain(launch_mode.describe(job, environment=environment, wish=args.launch or "auto"))
    root = options.root_of(args)
    begun = time.monotonic()
    args.dir = str(root)
    count = len(battery.titles(args.k, nodes=args.nodes))
    collected = battery.run(
        [*options.forward(args), f"--chaos-job={shlex.join(job.command)}"],
        expression=args.k,
        junitxml=args.junitxml,
        workers=parallelism.chosen(args.n, job.command, experiments=count),
        fail_fast=args.x,
        stream=sys.stderr,
    )
    found = collected.all_results()
    suite = replace(collected.suite, results=tuple(found)) if collected.suite is not None else None
    report_problems(found, args, targets, Store(root), seconds=time.monotonic() - begun, suite=suite)
    if collected.interrupted:
        complain("interrupted; the results above cover the experiments that had ended")
        return ExitCode.INTERRUPTED
    if collected.troubles:
        sentences = [r.sentences[0] for r in found if r.trouble == "internal" and r.sentences]
        internal(root, collected.troubles, (sentences or ["an experiment could not be run"])[0])
        return ExitCode.INTERNAL
    return result.exit_code(found, fail_on=args.fail_on)


def _list(titles: dict[str, str]) -> None:
    width = max(map(len, titles), default=0)
    for name, title in titles.items():
        print(f"{name:{width}}  {title}".rstrip())
