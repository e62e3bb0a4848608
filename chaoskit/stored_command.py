"""The commands about a stored run: `chaoskit analyze`, `explain`, `replay`."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chaoskit import options
from chaoskit.errors import ExitCode
from chaoskit.telling import report, targets_of

if TYPE_CHECKING:
    from chaoskit.runner import Run
    from chaoskit.store import Store

#: What is claimed of a stored run that no check was ever applied to.
UNJUDGED = (
    "completed", "resumed_from_last_valid", "state_restored", "same_data", "checkpoints_faithful",
    "matches_reference", "stays_finite", "no_orphans",
)  # fmt: skip


def add_to(commands: Any) -> None:
    """Add the commands to those of `chaoskit`."""
    written = ("json", "report", "summary")
    for name, do, text, own in (
        ("analyze", do_analyze, "judge a stored run again, without running anything", written),
        (
            "replay",
            do_replay,
            "repeat what was done to a job in a stored run, and judge it by the same checks",
            (*written, "env", "launch", "timeout"),
        ),
        (
            "explain",
            do_explain,
            "tell the story of a stored run: what was broken, what was seen, what came from where",
            (),
        ),
    ):
        command = commands.add_parser(name, help=text, description=text.capitalize() + ".")
        command.add_argument("run", metavar="RUN", help="a stored run: its directory, or the beginning of its id")
        options.add_to_parser(command, "dir", *own)
        command.set_defaults(do=do)


def do_analyze(args: argparse.Namespace) -> int:
    """`chaoskit analyze`."""
    from chaoskit import checks, results
    from chaoskit.runner import analyze

    targets = targets_of(args)
    run, store = _stored(args)
    if (run.dir / "verdicts.json").exists():
        analyze(run)
    else:
        # Its harness died before it came to a judgement.
        run.judge(*(checks.REGISTRY[name]() for name in UNJUDGED))
    found = results.of_runs(store.read(run.dir)["experiment"] or run.id, [run])
    report([found], args, targets, store)
    return results.exit_code([found])


def do_explain(args: argparse.Namespace) -> int:
    """`chaoskit explain`."""
    from chaoskit.report import terminal
    from chaoskit.report.story import story
    from chaoskit.results import of_runs

    run, store = _stored(args)
    told = store.read(run.dir)
    print(f"{told['experiment'] or run.id}: {shlex.join(run.job.words())}")
    judged = (run.dir / "verdicts.json").exists()
    for moment in story(run.case, store.read_verdicts(run.dir).verdicts if judged else ()):
        print(moment)
    table = run.case.table()
    if len(table) > len(run.history.ranks):
        terminal.console_for(sys.stdout).print(terminal.alignment_table(table))
    for line in terminal.commands(of_runs(told["experiment"] or run.id, [run])):
        print(line)
    return ExitCode.PASS


def do_replay(args: argparse.Namespace) -> int:
    """`chaoskit replay`."""
    from chaoskit import environments, results
    from chaoskit.progress import progress_on
    from chaoskit.runner import Runner, replay

    targets = targets_of(args)
    run, store = _stored(args)
    told = store.read(run.dir)
    environment = args.env or told["environment"]
    environments.must_have(environment)
    progress = progress_on(sys.stderr)
    begun = time.monotonic()
    runner = Runner(
        store,
        environment=environment,
        experiment=told["experiment"],
        progress=progress,
        launch=args.launch or "auto",
        timeout=args.timeout,
    )
    try:
        again = replay(run, runner)
    finally:
        progress.stop()
    seconds = time.monotonic() - begun
    found = replace(results.of_runs(told["experiment"] or again.id, [again]), seconds=seconds)
    report([found], args, targets, store, seconds=seconds)
    return results.exit_code([found])


def _stored(args: argparse.Namespace) -> tuple[Run, Store]:
    """The run that was named, and the store that it lies in, which is not always the one of this directory."""
    from chaoskit.runner import stored
    from chaoskit.store import Store

    store = Store(options.root_of(args))
    run_dir = store.resolve(args.run)
    if run_dir.parent.name == "runs":
        store = Store(run_dir.parent.parent)
    return stored(run_dir, store), store
