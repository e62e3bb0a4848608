"""`exploring`: prepares a study that launches one job many times: the job, a runner, and the display of progress."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chaoskit.cli import options
from chaoskit.cli.output import complain
from chaoskit.errors import UsageError

if TYPE_CHECKING:
    from chaoskit.engine.runner import Runner
    from chaoskit.job import Job


@contextmanager
def exploring(
    args: argparse.Namespace, *, experiment: str, example: str, needs: Sequence[type] = ()
) -> Iterator[tuple[Runner, Job]]:
    """Yield the runner and the job of a command that needs these capabilities. Raises UsageError for an invalid job or
    output file, MissingCapability if the environment never has one of them."""
    from chaoskit import environments
    from chaoskit.engine import launch_mode
    from chaoskit.engine.progress import progress_on
    from chaoskit.engine.run_store import Store
    from chaoskit.engine.runner import Runner
    from chaoskit.job import Job
    from chaoskit.report.machine import json_report

    if not args.command:
        raise UsageError(f"the command of the job is missing: put it after '--', for example\n  {example}")
    options.check(vars(args))
    options.must_be_used(vars(args))
    cluster = options.cluster_of(vars(args), {})
    job = Job.from_command(args.command, cluster=cluster, **options.job_fields(vars(args)))
    environment = options.environment_of(args.env)
    job.validate(files_here=environments.environment(environment).traits.files_here)
    environments.must_fit(environment, job.nodes)
    store = Store(options.root_of(args))
    if args.json:
        json_report.check_target(args.json)
    launch = args.launch or "auto"
    environments.must_have(environment)
    for capability in needs:
        if not environments.offers(environment, capability):
            environments.must_offer(environment, [capability], to=experiment)
    environments.environment(environment).rests_on(job)
    store.must_take_runs()
    complain(launch_mode.describe(job, environment=environment, wish=launch))
    progress = progress_on(sys.stderr)
    try:
        yield (
            Runner(
                store,
                environment=environment,
                experiment=experiment,
                progress=progress,
                launch=launch,
            ),
            job,
        )
    finally:
        progress.stop()
