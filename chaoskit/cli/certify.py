"""The command `chaoskit certify`: its options, and what it does."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.cli import option_values, options, run
from chaoskit.cli.output import complain, complain_unended, say
from chaoskit.errors import ExitCode, Inconclusive, StoreError, UsageError

if TYPE_CHECKING:
    from chaoskit.engine.result import Result
    from chaoskit.engine.run_store import Store
    from chaoskit.job import Job
    from chaoskit.studies.certificate.certificate import Certificate
    from chaoskit.studies.certificate.evidence import Demands
    from chaoskit.studies.nights.suite import Suite
    from chaoskit.studies.problems.acceptance import Acceptance

EXAMPLE = "chaoskit certify -- torchrun --nproc-per-node 2 train.py --out {out}"
#: The default directory of the certificate, and the files in it.
DIRECTORY, NAME = "chaoskit-certificate", "certificate"
#: Exit codes of the battery after which there are results to certify.
JUDGED = (ExitCode.PASS, ExitCode.FAIL, ExitCode.INCONCLUSIVE)
#: Options of a certificate alone, by their attributes.
DEMANDS = ("mtbf_hours", "gpus", "save_seconds", "interval_seconds", "silent_share")


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    command = commands.add_parser(
        "certify",
        help="tick a readiness checklist with stored runs, and verify such a certificate later",
        usage="chaoskit certify [options] [--suite SUITE | --verify FILE | -- COMMAND...]",
        description="Make a certificate: a readiness checklist of which stored runs tick each row. With a command it "
        "runs the battery first, as 'chaoskit run' does, and the experiments of the checklist that otherwise run only "
        "on request. Without one it starts no job, and certifies the newest suite, or those of --suite.",
        epilog="Exit codes: 0 ready, 1 a row failed, 3 a row is not tested, or a verified certificate no longer "
        f"holds; 2 for evidence that does not go together and for an edited certificate. Example: {EXAMPLE}",
    )
    command.add_argument(
        "--suite",
        metavar="SUITE",
        action="append",
        default=[],
        help="certify a stored suite: its id, its file, or 'last'; may be repeated for several of one job",
    )
    command.add_argument(
        "--verify", metavar="FILE", help="say whether the certificate in this JSON file still holds, here and now"
    )
    command.add_argument(
        "-o", metavar="DIR", help=f"write certificate.html, .md and .json to this directory (default: {DIRECTORY})"
    )
    hours = "mean time between failures of the production job, in hours; with --gpus that of one GPU"
    command.add_argument("--mtbf-hours", metavar="H", type=_positive, help=hours)
    command.add_argument("--gpus", metavar="N", type=option_values.positive, help="GPUs of the production job")
    about = "seconds that a save of the production job holds up its training (default: those of the small job)"
    command.add_argument("--save-seconds", metavar="S", type=option_values.seconds, help=about)
    about = "seconds between two checkpoints of the production job (with --mtbf-hours)"
    command.add_argument("--interval-seconds", metavar="S", type=option_values.seconds, help=about)
    about = "largest share of wrong numbers that may stay silent in 'chaoskit sdc-map' (default: 0.05)"
    command.add_argument("--silent-share", metavar="P", type=_share, help=about)
    run.add_battery_options(command)
    options.add_to_parser(command)
    command.set_defaults(do=do, list=False, dry_run=False, harness_image=None, x=False)


def _positive(text: str) -> float:
    return option_values.real(text, "a positive number of hours", lambda value: 0 < value < math.inf)


def _share(text: str) -> float:
    return option_values.real(text, "a share from 0 to 1", lambda value: 0 <= value <= 1)


class Collecting:
    """What `certify` adds to a run of the battery: the experiments of the checklist, and it keeps the suite."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self.suite: Suite | None = None

    @property
    def also(self) -> tuple[str, ...]:
        """The experiments of the checklist that otherwise run only on request; those that are asked for, if any."""
        from chaoskit.studies.certificate.rows import ALSO

        args = self._args
        return () if args.k or args.only or args.quick else ALSO

    @property
    def is_over(self) -> bool:
        """Never: a certificate has no budget."""
        return False

    def begin(self, job: Job, store: Store, names: Sequence[str]) -> list[str]:
        """Nothing to prepare."""
        return []

    def workers(self, job: Job, environment: str, *, experiments: int) -> str | None:
        """As many side by side as with `chaoskit run`."""
        from chaoskit.cli import parallelism

        return parallelism.chosen(self._args.n, job.command, experiments=experiments)

    def end(self, results: Sequence[Result], suite: Suite | None, store: Store) -> None:
        """Keep the suite."""
        self.suite = suite


def do(args: argparse.Namespace) -> int:
    """Verify a certificate, or make one of stored suites, or of those that a run of the battery leaves."""
    given = [name for name, there in (("--suite", args.suite), ("--verify", args.verify), ("a command", args.command))
             if there]  # fmt: skip
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} exclude each other: give only one of them")
    if args.gpus and args.mtbf_hours is None:
        raise UsageError("--gpus needs --mtbf-hours, the mean time between failures of one GPU")
    if args.verify:
        return _verify(args)
    return _certify(args)


def _verify(args: argparse.Namespace) -> int:
    from chaoskit.engine.run_store import Store
    from chaoskit.report.terminal import certificate_report
    from chaoskit.report.terminal.table import console_for
    from chaoskit.studies.certificate.verification import load, verify

    found = verify(load(Path(args.verify)), Store(options.root_of(args)))
    certificate_report.show_verification(found, console_for(sys.stdout))
    return found.exit_code


def _certify(args: argparse.Namespace) -> int:
    from chaoskit.cli import configuration
    from chaoskit.engine import certified_runs
    from chaoskit.engine.run_store import Store
    from chaoskit.report.machine import publishing
    from chaoskit.report.terminal import certificate_report
    from chaoskit.report.terminal.table import console_for
    from chaoskit.studies.certificate.issue import issue
    from chaoskit.studies.problems.acceptance import today

    target = publishing.directory(args.o or DIRECTORY, option="-o")
    demands = _demands(args)
    suites: list[Suite] = []
    if args.command:
        session = Collecting(args)
        code = run.do(args, session=session)
        if code not in JUDGED:
            complain("no certificate: the battery did not come to its end")
            return code
        if session.suite is None:
            raise UsageError("no certificate: the suite could not be stored")
        suites.append(session.suite)
        say()
    store = Store(options.root_of(args))
    found = configuration.read(Path.cwd())
    accepted = found.acceptances if found is not None and not args.strict else ()
    standing: list[Acceptance] = [one for one in accepted if not one.expired(today())]
    suites = suites or _suites(args.suite, store)
    try:
        made = issue(suites, store, standing=standing, demands=demands)
    except Inconclusive as error:
        complain(str(error))
        return ExitCode.INCONCLUSIVE
    try:
        certified_runs.keep(store, made.created.replace(":", ""), json.dumps(made.to_json(), indent=1) + "\n")
    except StoreError as error:
        complain(f"later sessions may remove its evidence: {error}")
    certificate_report.show(made, console_for(sys.stderr if args.json == "-" else sys.stdout))
    for path in write(made, target):
        say(publishing.shown(path), file=sys.stderr if args.json == "-" else sys.stdout)
    return made.exit_code


def _demands(args: argparse.Namespace) -> Demands:
    from chaoskit.studies.certificate.evidence import Demands

    mtbf = args.mtbf_hours * 3600 / (args.gpus or 1) if args.mtbf_hours is not None else None
    share = {} if args.silent_share is None else {"silent_share": args.silent_share}
    return Demands(mtbf, args.save_seconds, args.interval_seconds, **share)


def _suites(names: Sequence[str], store: Store) -> list[Suite]:
    """The named suites, or the newest one; each with a line that says which one it is."""
    from chaoskit.studies.nights.archive import Archive

    archive = Archive(store)
    paths = dict.fromkeys([archive.resolve(name) for name in names] if names else [archive.last()])
    suites = [archive.read(path) for path in paths]
    for suite in suites:
        complain(f"certifies suite {suite.id} of {suite.when}")
        complain_unended(suite)
    return suites


def write(one: Certificate, directory: Path) -> list[Path]:
    """Write the page, the Markdown and the JSON of a certificate; returns their paths. Raises UsageError."""
    from chaoskit.report.html import certificate_page, page
    from chaoskit.report.machine import certificate_markdown

    texts = {
        "html": certificate_page.render(one),
        "md": certificate_markdown.markdown(one),
        "json": json.dumps(one.to_json(), indent=1) + "\n",
    }
    paths = [directory / f"{NAME}.{suffix}" for suffix in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        page.write(text, path)
    return paths
