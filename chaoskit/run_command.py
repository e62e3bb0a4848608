"""The command `chaoskit run`: its options, and what it does."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from dataclasses import replace
from typing import Any

from chaoskit import options
from chaoskit.errors import ExitCode, UsageError
from chaoskit.telling import complain, internal, report, targets_of

EXAMPLE = "chaoskit run -- torchrun --nproc-per-node 2 train.py --out {out}"


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    command = commands.add_parser(
        "run",
        help="run the battery of experiments on a job",
        usage="chaoskit run [options] -- COMMAND...",
        description="Run the battery of experiments on a job, which nobody edits.",
        epilog=f"{{out}} becomes a fresh directory for each run; a relaunch gets the same one. Example: {EXAMPLE}",
    )
    command.add_argument("-k", metavar="EXPR", help="only experiments whose names match, as in pytest")
    command.add_argument("--list", action="store_true", help="show the experiments and run nothing")
    command.add_argument("--junitxml", metavar="FILE", help="write the results as JUnit XML")
    command.add_argument("-n", metavar="WORKERS", help="experiments at a time (default: what the cores take)")
    command.add_argument("-x", action="store_true", help="stop at the first experiment that does not pass")
    options.add_to_parser(command)
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Run the experiments, and tell what came of them."""
    from chaoskit import battery, environments, launching, results, workers
    from chaoskit.job import Job
    from chaoskit.report import json_report
    from chaoskit.store import Store

    if args.list:
        _list(battery.titles(args.k, nodes=args.nodes))
        return ExitCode.PASS
    if not args.command:
        raise UsageError(f"no command to run: give the job after '--', for example\n  {EXAMPLE}")
    job = Job.from_command(args.command, cwd=os.getcwd())
    job.validate()
    targets = targets_of(args)
    if args.junitxml:
        json_report.check_target(args.junitxml, option="--junitxml")
    environments.must_have(args.env or "local")
    complain(launching.describe(job, environment=args.env or "local", wish=args.launch or "auto"))
    root = options.root_of(args)
    begun = time.monotonic()
    args.dir = str(root)
    count = len(battery.titles(args.k, nodes=args.nodes))
    collected = battery.run(
        [*options.forward(args), f"--chaos-job={shlex.join(job.command)}"],
        expression=args.k,
        junitxml=args.junitxml,
        workers=workers.chosen(args.n, job.command, experiments=count),
        fail_fast=args.x,
        stream=sys.stderr,
    )
    found = collected.all_results()
    suite = replace(collected.suite, results=tuple(found)) if collected.suite is not None else None
    report(found, args, targets, Store(root), seconds=time.monotonic() - begun, suite=suite)
    if collected.interrupted:
        complain("interrupted; what had ended is above")
        return ExitCode.INTERRUPTED
    if collected.troubles:
        told = [r.sentences[0] for r in found if r.trouble == "internal" and r.sentences]
        internal(root, collected.troubles, (told or ["an experiment could not be run"])[0])
        return ExitCode.INTERNAL
    return results.exit_code(found)


def _list(titles: dict[str, str]) -> None:
    width = max(map(len, titles), default=0)
    for name, title in titles.items():
        print(f"{name:{width}}  {title}".rstrip())
