"""The commands about a stored run: `chaoskit analyze`, `explain`, `replay`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chaoskit.cli import options
from chaoskit.cli.foreign_runs import add_yes, ask_first
from chaoskit.cli.output import complain, report, say, targets_of
from chaoskit.engine.terminal_text import one_line
from chaoskit.errors import ExitCode

if TYPE_CHECKING:
    from chaoskit.engine.run_store import Store
    from chaoskit.engine.runner import Run, Runner

#: The checks for a stored run that has no verdicts.
UNJUDGED = (
    "completed", "resumed_from_last_valid", "state_restored", "same_data", "checkpoints_faithful",
    "matches_reference", "stays_finite", "no_orphans",
)  # fmt: skip


def add_to(commands: Any) -> None:
    """Add the commands to those of `chaoskit`."""
    written = ("json", "report", "summary")
    for name, do, text, own in (
        ("analyze", do_analyze, "apply the checks to a stored run again, without running the job", written),
        (
            "replay",
            do_replay,
            "repeat a stored run: inject the same faults into the same job, and apply the same checks",
            (*written, "env", "launch", "timeout"),
        ),
        (
            "explain",
            do_explain,
            "print the events of a stored run in order: faults, resumes, origin of each component, verdicts",
            (),
        ),
    ):
        command = commands.add_parser(name, help=text, description=text.capitalize() + ".")
        command.add_argument(
            "run", metavar="RUN", help="a stored run: its directory, its id, or a prefix of its id"
        )
        options.add_to_parser(command, "dir", *own)
        if name == "replay":
            add_yes(command)
        command.set_defaults(do=do)


def do_analyze(args: argparse.Namespace) -> int:
    """`chaoskit analyze`."""
    from chaoskit import checks
    from chaoskit.engine import result
    from chaoskit.engine.runner import analyze

    targets = targets_of(args)
    run, store = stored_run(args)
    if store.is_judged(run.dir):
        analyze(run)
    else:
        complain(f"no check was applied to {run.id} so far: now the usual ones are")
        run.judge(*(checks.REGISTRY[name]() for name in UNJUDGED), must_keep=False)
    if run.unkept:
        complain(f"the verdicts are valid, and are not kept in the store: {run.unkept}")
    found = result.of_runs(store.read(run.dir)["experiment"] or run.id, [run])
    report([found], args, targets, store)
    return result.exit_code([found])


def do_explain(args: argparse.Namespace) -> int:
    """`chaoskit explain`."""
    from chaoskit.engine.result import of_runs
    from chaoskit.report.story import story
    from chaoskit.report.terminal import table as terminal

    run, store = stored_run(args)
    record = store.read(run.dir)
    say(one_line(f"{record['experiment'] or run.id}: {run.job.text}"))
    judged = store.is_judged(run.dir)
    for entry in story(run.case, store.read_verdicts(run.dir).verdicts if judged else ()):
        say(one_line(str(entry)))
    table = run.case.table()
    if len(table) > len(run.history.ranks):
        terminal.console_for(sys.stdout).print(terminal.alignment_table(table))
    for line in terminal.commands(of_runs(record["experiment"] or run.id, [run])):
        say(one_line(line))
    return ExitCode.PASS


def do_replay(args: argparse.Namespace) -> int:
    """`chaoskit replay`."""
    from chaoskit.engine import result
    from chaoskit.engine.runner import replay

    targets = targets_of(args)
    run, store = stored_run(args)
    begun = time.monotonic()
    with runner_for(
        run, store, environment=args.env, launch=args.launch, timeout=args.timeout, yes=args.yes
    ) as runner:
        again = replay(run, runner)
    seconds = time.monotonic() - begun
    found = replace(result.of_runs(run.experiment or again.id, [again]), seconds=seconds)
    report([found], args, targets, store, seconds=seconds)
    return result.exit_code([found])


@contextmanager
def runner_for(
    run: Run,
    store: Store,
    *,
    environment: str | None = None,
    launch: str | None = None,
    timeout: float | None = None,
    label: str = "",
    yes: bool = False,
) -> Iterator[Runner]:
    """Make a runner that repeats a stored run and shows its progress under `label`. The default `environment` is that
    of the stored run. Asks before it repeats a run from elsewhere, unless `yes`. Raises UsageError if this machine
    cannot run it, or the user said no."""
    from chaoskit import environments
    from chaoskit.engine.progress import progress_on
    from chaoskit.engine.runner import Runner

    ask_first(run, store, yes=yes)
    where = environment or str(store.read(run.dir)["environment"])
    environments.must_have(where)
    progress = progress_on(sys.stderr, label)
    try:
        yield Runner(
            store,
            environment=where,
            experiment=run.experiment,
            progress=progress,
            launch=launch or "auto",
            timeout=timeout,
        )
    finally:
        progress.stop()


def stored_run(args: argparse.Namespace) -> tuple[Run, Store]:
    """Return the named run and the store that contains it, which may be one of another directory."""
    from chaoskit.engine.run_store import Store
    from chaoskit.engine.runner import stored

    store = Store(options.root_of(args))
    run_dir = store.resolve(args.run)
    if run_dir.parent.name == "runs":
        store = Store(run_dir.parent.parent)
    if put_back := store.read(run_dir).get("put_back"):
        complain(f"in this run chaoskit put back {', '.join(put_back)}: it does not show the job as it is")
    return stored(run_dir, store), store
