"""`exploring`: what a command needs that tries out many things on one job: the job and a runner, its progress shown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chaoskit import options
from chaoskit.errors import UsageError
from chaoskit.telling import complain

if TYPE_CHECKING:
    from chaoskit.job import Job
    from chaoskit.runner import Runner


@contextmanager
def exploring(args: argparse.Namespace, *, experiment: str, example: str) -> Iterator[tuple[Runner, Job]]:
    """Both, as the arguments of the command have them. Raises UsageError for a job or a target that cannot be."""
    from chaoskit import launching
    from chaoskit.job import Job
    from chaoskit.progress import progress_on
    from chaoskit.report import json_report
    from chaoskit.runner import Runner
    from chaoskit.store import Store

    if not args.command:
        raise UsageError(f"no command to run: give the job after '--', for example\n  {example}")
    job = Job.from_command(args.command)
    job.validate()
    if args.json:
        json_report.check_target(args.json)
    launch = args.launch or "auto"
    complain(launching.describe(job, environment="local", wish=launch))
    progress = progress_on(sys.stderr)
    told = {"resume_args": args.resume_args} if hasattr(args, "resume_args") else {}
    try:
        yield (
            Runner(
                Store(options.root_of(args)),
                experiment=experiment,
                progress=progress,
                launch=launch,
                timeout=args.timeout,
                **told,
            ),
            job,
        )
    finally:
        progress.stop()
