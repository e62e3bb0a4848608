"""The command `chaoskit run`: its options, and what it does."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from chaoskit.cli import options, selection
from chaoskit.cli.configuration import FAIL_ON, workers
from chaoskit.cli.output import complain, exhausted, internal, outage, report_problems, say, targets_of
from chaoskit.errors import ExitCode, UsageError
from chaoskit.validation import near_miss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaoskit.cli import battery
    from chaoskit.engine.result import Result
    from chaoskit.engine.run_store import Store
    from chaoskit.job import Job
    from chaoskit.studies.nights.suite import Suite
    from chaoskit.studies.problems.acceptance import Acceptance
    from chaoskit.studies.problems.problem import Proof

EXAMPLE = "chaoskit run --quick -- torchrun --nproc-per-node 2 train.py --out {out}"


class Session(Protocol):
    """What a command adds to a run of the battery: `nightly` a plan and a budget, `certify` further experiments."""

    @property
    def also(self) -> tuple[str, ...]:
        """Experiments that run although they run only on request."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether nothing more may begin."""
        ...

    def begin(self, job: Job, store: Store, names: Sequence[str]) -> list[str]:
        """Prepare the session; returns options for pytest."""
        ...

    def workers(self, job: Job, environment: str, *, experiments: int) -> str | None:
        """How many experiments run side by side, for pytest."""
        ...

    def end(self, results: Sequence[Result], suite: Suite | None, store: Store) -> None:
        """Do what remains once the results are reported."""
        ...


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    command = commands.add_parser(
        "run",
        help="run the battery of fault-injection experiments on a job",
        usage="chaoskit run [options] [-- COMMAND...]",
        description="Run the battery of fault-injection experiments on a job. The job's code does not change. Command "
        "and options may also stand in [tool.chaoskit] of pyproject.toml, or in chaoskit.toml ('chaoskit init' writes "
        "it); the command line wins.",
        epilog="chaoskit replaces {out} by a new directory for each run; relaunches within a run get the same one. "
        f"Example: {EXAMPLE}",
    )
    add_battery_options(command)
    about = "print every object that one run would make in the cluster, and the pods that its faults match; make none"
    command.add_argument("--dry-run", action="store_true", help=about)
    about = (
        "run chaoskit itself in a pod of this image, which has chaoskit[kubernetes]: for machines without the volume "
        "(--env kubernetes)"
    )
    command.add_argument("--harness-image", metavar="IMAGE", help=about)
    about = "service account of that pod (default: chaoskit)"
    command.add_argument("--harness-account", metavar="NAME", default="chaoskit", help=about)
    command.add_argument("--list", action="store_true", help="list the experiments without running them")
    command.add_argument("-x", action="store_true", help="stop at the first experiment that does not pass")
    options.add_to_parser(command)
    command.set_defaults(do=do)


def add_battery_options(command: argparse.ArgumentParser) -> None:
    """Add the options that select experiments, and that say how they run and what counts."""
    command.add_argument("-k", metavar="EXPR", help="select experiments by name, with pytest's -k syntax")
    command.add_argument(
        "--quick", action="store_true", help="run the few experiments that find most: try these first"
    )
    command.add_argument(
        "--only",
        metavar="AREAS",
        type=selection.areas,
        help=f"run all experiments of these areas, divided by commas: {', '.join(selection.AREAS)}",
    )
    command.add_argument("--junitxml", metavar="FILE", help="write the results as JUnit XML")
    command.add_argument(
        "-n",
        metavar="WORKERS",
        type=workers,
        help="experiments in parallel (default: as cores and memory allow)",
    )
    command.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also print every experiment (a table, and why each one did not pass), the advice in full, and what to "
        "change for each weakness",
    )
    command.add_argument(
        "--no-proof",
        action="store_true",
        help="do not put lost state back; otherwise further runs show whether a problem is all that is wrong (not with "
        "--quick)",
    )
    command.add_argument(
        "--fail-on",
        choices=FAIL_ON,
        help="what makes the exit code 1: problems and weaknesses (the default), or problems alone",
    )


def _dry_run(job: Job, store: Path) -> int:
    """Print what one run would make in a cluster."""
    from chaoskit.environments.kubernetes.dry_run import dry_run

    found = dry_run(job, store=store)
    say(found.as_yaml(), end="")
    if found.difference:
        say("# What chaoskit changes in the job template:")
        say("".join(f"# {line}" for line in found.difference.splitlines(keepends=True)), end="")
    labels = ", ".join(f"{name}={value}" for name, value in found.labels.items())
    matched = ", ".join(pod.name for pod in found.selected) or "none, since nothing of the run is there yet"
    say(f"# The API server accepts these objects, and has made none. Faults match pods with {labels}.")
    say("# Run and owner are new for each run.")
    say(f"# Pods that they match now: {matched}.")
    return ExitCode.PASS


def do(args: argparse.Namespace, *, session: Session | None = None) -> int:
    """Run the experiments and report the results; `session` is what another command adds."""
    from chaoskit import environments
    from chaoskit.cli import battery, configuration, parallelism, remote_run
    from chaoskit.cli.pytest_settings import Settings
    from chaoskit.engine import launch_mode, result, retention
    from chaoskit.engine.run_store import Store
    from chaoskit.job import Job
    from chaoskit.report.machine import publishing
    from chaoskit.studies.problems import acceptance

    found = configuration.read(Path.cwd())
    typed, options_typed = args.k, dict(vars(args))
    if found is not None:
        configuration.apply(args, found)
    options.check(vars(args))
    options.must_be_used({**options_typed, "env": args.env})
    options.leave_out_unused(args)
    also = session.also if session is not None else ()
    chosen = battery.Selection(args.k, only=args.only, quick=args.quick, also=also)
    where = found.places.get("select", "") if found is not None and args.k != typed else ""
    if args.list:
        _list(_titles(chosen, args, where))
        return ExitCode.PASS
    if args.harness_image:
        return remote_run.do(args, found)
    settings = Settings()
    if found is not None:
        accepted = () if args.strict else found.acceptances
        settings = Settings(accepted, found.variables, found.command, str(Path.cwd()), found.pods)
    cluster = options.cluster_of(vars(args), settings.pods)
    decided = options.job_of_template(cluster, args.command)
    command = decided.get("command") or args.command or settings.command
    if not command:
        raise UsageError(_no_command())
    args.image, args.nodes = args.image or decided.get("image"), args.nodes or decided.get("nnodes")
    _check_parameters(settings.acceptances)
    variables = {**settings.variables, **decided.get("env", {})}
    job = Job.from_command(
        command, cwd=os.getcwd(), env=variables, cluster=cluster, **options.job_fields(vars(args))
    )
    environment = options.environment_of(args.env)
    if args.dry_run and environment != "kubernetes":
        raise UsageError(f"--dry-run is for --env kubernetes, not for {environment!r}: leave it out")
    job.validate(files_here=environments.environment(environment).traits.files_here)
    environments.must_fit(environment, job.nodes)
    targets, root, limit = targets_of(args), options.root_of(args), options.limit_of(args.store_limit)
    if args.junitxml:
        publishing.file(args.junitxml, option="--junitxml")
    environments.must_have(environment)
    if args.dry_run:
        return _dry_run(job, root)
    environments.environment(environment).rests_on(job)
    begun = time.monotonic()
    args.dir = str(root)
    names = list(_titles(chosen, args, where))
    if session is None:
        side_by_side = parallelism.chosen(args.n, job.command, experiments=len(names))
    else:
        side_by_side = session.workers(job, environment, experiments=len(names))
    Store(root).must_take_runs()
    planned = session.begin(job, Store(root), names) if session is not None else []
    complain(launch_mode.describe(job, environment=environment, wish=args.launch or "auto"))
    if (warning := retention.nearly_full(Store(root), limit)) is not None:
        complain(warning)
    collected = battery.run(
        [
            *options.forward(args),
            f"--chaos-job={shlex.join(job.command)}",
            f"--chaos-settings={settings.to_text()}",
            *planned,
        ],
        chosen,
        junitxml=args.junitxml,
        workers=side_by_side,
        fail_fast=args.x,
        stream=sys.stderr,
    )
    results = collected.all_results()
    suite = replace(collected.suite, results=tuple(results)) if collected.suite is not None else None
    proofs: tuple[Proof, ...] = ()
    unproved = args.no_proof or args.quick or (session is not None and session.is_over)
    if not (unproved or collected.interrupted or collected.has_failed):
        told = replace(job, resume_args=args.resume_args or ())
        proofs = _proofs(results, Store(root), suite, launch=args.launch or "auto", secrets=told.secrets)
    seconds = time.monotonic() - begun
    report_problems(results, args, targets, Store(root), seconds=seconds, suite=suite, proofs=proofs)
    if session is not None:
        session.end(results, suite, Store(root))
    if collected.interrupted:
        complain("interrupted; the results above cover the experiments that had ended")
        return ExitCode.INTERRUPTED
    if collected.troubles:
        sentences = [r.sentences[0] for r in results if r.trouble == "internal" and r.sentences]
        internal(root, collected.troubles, (sentences or ["an experiment could not be run"])[0])
        return ExitCode.INTERNAL
    if collected.shortages:
        exhausted(collected.shortages[0])
        return ExitCode.EXHAUSTED
    if collected.outages:
        sentences = [r.sentences[0] for r in results if r.trouble == "environment"]
        outage(root, collected.outages, sentences[0])
        return ExitCode.INTERNAL
    for line in acceptance.overdue(settings.acceptances, results, day=acceptance.today()):
        complain(line)
    if chosen.everything and not args.x and not any(result.is_unrun for result in results):
        for one in acceptance.unmatched(settings.acceptances, results):
            complain(acceptance.useless(one, len(results)))
    return result.exit_code(results, fail_on=args.fail_on or FAIL_ON[0])


def _proofs(
    results: Sequence[Result], store: Store, suite: Suite | None, *, launch: str, secrets: Mapping[str, str]
) -> tuple[Proof, ...]:
    """Put back what was lost, and keep with the suite what that showed."""
    from chaoskit.cli.proofs import prove_problems
    from chaoskit.studies.nights.archive import Archive

    proofs = prove_problems(results, store=store, launch=launch, secrets=secrets)
    if suite is not None and proofs:
        Archive(store).add_proofs(suite, proofs)
    return proofs


def _check_parameters(acceptances: Sequence[Acceptance]) -> None:
    """Raises UsageError for an acceptance that names an experiment with parameters that it does not have."""
    from chaoskit.cli import battery
    from chaoskit.faults.node.preempt import CLOUDS

    for one in acceptances:
        name, bracket, _ = one.experiment.partition("[")
        if bracket and "::" not in name:
            every = ",".join(CLOUDS)
            known = battery.titles(battery.Selection(name), nodes="1:2", env="kubernetes", notices=every)
            if one.experiment not in known:
                near = near_miss(one.experiment, known)
                raise UsageError(f"{one.where}: there is no experiment {one.experiment!r}{near}")


def _no_command() -> str:
    from chaoskit.cli import configuration

    elsewhere = configuration.above(Path.cwd())
    text = f"the command of the job is missing: put it after '--', for example\n  {EXAMPLE}"
    if elsewhere is not None:
        return f"{text}\nor start chaoskit in {elsewhere}, where a file has its configuration"
    return f"{text}\nor write it as 'command' into [tool.chaoskit] of pyproject.toml"


def _titles(chosen: battery.Selection, args: argparse.Namespace, where: str) -> dict[str, str]:
    """Map the experiments that are chosen to their titles. `where` is the place of `select` in the file, if that chose
    them; the error about it names that."""
    from chaoskit.cli import battery

    try:
        return battery.titles(
            chosen, nodes=args.nodes, every=args.every, env=args.env, notices=args.notices
        )
    except UsageError as error:
        if not where:
            raise
        raise UsageError(f"{where}: select: {error}") from error


def _list(titles: dict[str, str]) -> None:
    width = max(map(len, titles), default=0)
    for name, title in titles.items():
        say(f"{name:{width}}  {title}".rstrip())
