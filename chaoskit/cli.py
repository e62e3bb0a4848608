"""The command `chaoskit`: run, crash-states, sdc-map, analyze, explain, replay, doctor, clean; heavy imports late."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from chaoskit import (
    __version__,
    compare_command,
    crash_command,
    history_command,
    options,
    report_command,
    sdc_command,
    upgrade_command,
)
from chaoskit.errors import ChaoskitError, ExitCode, MissingCapability, StoreError, UsageError

if TYPE_CHECKING:
    from chaoskit.job import Job
    from chaoskit.report.publishing import Targets
    from chaoskit.results import Result
    from chaoskit.runner import Run
    from chaoskit.store import Store
    from chaoskit.suites.suite import Suite

#: What is claimed of a stored run that no check was ever applied to.
UNJUDGED = (
    "completed", "resumed_from_last_valid", "state_restored", "same_data", "checkpoints_faithful",
    "matches_reference", "stays_finite", "no_orphans",
)  # fmt: skip
EXAMPLE = "chaoskit run -- torchrun --nproc-per-node 2 train.py --out {out}"


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say; returns the exit code, which `docs/codes.md` explains."""
    words, command = split(list(sys.argv[1:] if argv is None else argv))
    parser = make_parser()
    args = parser.parse_args(words)
    args.command = command
    if args.do is None:
        parser.print_help()
        return ExitCode.USAGE
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return int(args.do(args))
    except ChaoskitError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _complain("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.INTERRUPTED
    except Exception as error:
        _internal(root_of(args), [traceback.format_exc()], f"{type(error).__name__}: {error}")
        return ExitCode.INTERNAL
    finally:
        signal.signal(signal.SIGTERM, before)


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """chaoskit's own words, and the job's command, which begins after the first '--'."""
    at = argv.index("--") if "--" in argv else len(argv)
    own, command = argv[:at], argv[at + 1 :]
    # The value of --resume-args begins with a dash itself, which argparse takes for an option.
    joined: list[str] = []
    for word in own:
        if joined and joined[-1] == "--resume-args":
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined, command


class Parser(argparse.ArgumentParser):
    """Says where the command belongs, when what it does not know looks like one."""

    def error(self, message: str) -> NoReturn:
        """See argparse."""
        hint = f"\nthe command of the job comes after '--': {EXAMPLE}" if "unrecognized" in message else ""
        super().error(message + hint)


def make_parser() -> Parser:
    """All commands and their options."""
    about = "Prove that a training job survives what will happen to it; if it does not, say what was lost."
    parser = Parser(prog="chaoskit", description=about, epilog=f"example: {EXAMPLE}")
    parser.set_defaults(do=None)
    parser.add_argument("--version", action="version", version=f"chaoskit {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)

    run = commands.add_parser(
        "run",
        help="run the battery of experiments on a job",
        usage="chaoskit run [options] -- COMMAND...",
        description="Run the battery of experiments on a job, which nobody edits.",
        epilog=f"{{out}} becomes a fresh directory for each run; a relaunch gets the same one. Example: {EXAMPLE}",
    )
    run.add_argument("-k", metavar="EXPR", help="only experiments whose names match, as in pytest")
    run.add_argument("--list", action="store_true", help="show the experiments and run nothing")
    run.add_argument("--junitxml", metavar="FILE", help="write the results as JUnit XML")
    run.add_argument("-n", metavar="WORKERS", help="experiments at a time (default: what the cores take)")
    run.add_argument("-x", action="store_true", help="stop at the first experiment that does not pass")
    options.add_to_parser(run)
    run.set_defaults(do=do_run)

    crash_command.add_to(commands)
    sdc_command.add_to(commands)
    compare_command.add_to(commands)
    history_command.add_to(commands)
    report_command.add_to(commands)
    upgrade_command.add_to(commands)

    for name, do, text in (
        ("analyze", do_analyze, "judge a stored run again, without running anything"),
        ("replay", do_replay, "repeat what was done to a job in a stored run, and judge it by the same checks"),
    ):
        command = commands.add_parser(name, help=text, description=text.capitalize() + ".")
        command.add_argument("run", metavar="RUN", help="a stored run: its directory, or the beginning of its id")
        told = ("dir", "json", "report", "summary")
        options.add_to_parser(command, *told, *(("env", "launch", "timeout") if name == "replay" else ()))
        command.set_defaults(do=do)

    text = "tell the story of a stored run: what was broken, what was seen, what came from where"
    explain = commands.add_parser("explain", help=text, description=text.capitalize() + ".")
    explain.add_argument("run", metavar="RUN", help="a stored run: its directory, or the beginning of its id")
    options.add_to_parser(explain, "dir")
    explain.set_defaults(do=do_explain)

    text = "say what this machine can do, and how to get what is missing"
    doctor = commands.add_parser("doctor", help=text, description=text.capitalize() + ".")
    options.add_to_parser(doctor, "dir")
    doctor.set_defaults(do=do_doctor)

    text = "remove what a crashed harness has left behind"
    clean = commands.add_parser("clean", help=text, description=text.capitalize() + ".")
    clean.add_argument("--all", action="store_true", help="stored runs and references too")
    options.add_to_parser(clean, "dir")
    clean.set_defaults(do=do_clean)
    return parser


def do_run(args: argparse.Namespace) -> int:
    """`chaoskit run`."""
    from chaoskit import battery, launching, results, workers
    from chaoskit.report import json_report
    from chaoskit.store import Store

    if args.list:
        _list(battery.titles(args.k, nodes=args.nodes))
        return ExitCode.PASS
    if not args.command:
        raise UsageError(f"no command to run: give the job after '--', for example\n  {EXAMPLE}")
    job = _job(args.command)
    targets = _targets(args)
    if args.junitxml:
        json_report.check_target(args.junitxml, option="--junitxml")
    _must_have(args.env or "local")
    _complain(launching.describe(job, environment=args.env or "local", wish=args.launch or "auto"))
    root = root_of(args)
    begun = time.monotonic()
    args.dir = str(root)
    count = len(battery.titles(args.k, nodes=args.nodes))
    fitting = workers.fitting(job.command, experiments=count) if args.n is None else 1
    collected = battery.run(
        [*options.forward(args), f"--chaos-job={shlex.join(job.command)}"],
        expression=args.k,
        junitxml=args.junitxml,
        workers=args.n if fitting == 1 else str(fitting),
        fail_fast=args.x,
        stream=sys.stderr,
    )
    found = collected.all_results()
    suite = replace(collected.suite, results=tuple(found)) if collected.suite is not None else None
    _report(found, args, targets, Store(root), seconds=time.monotonic() - begun, suite=suite)
    if collected.interrupted:
        _complain("interrupted; what had ended is above")
        return ExitCode.INTERRUPTED
    if collected.troubles:
        told = [r.sentences[0] for r in found if r.trouble == "internal" and r.sentences]
        _internal(root, collected.troubles, (told or ["an experiment could not be run"])[0])
        return ExitCode.INTERNAL
    return results.exit_code(found)


def do_analyze(args: argparse.Namespace) -> int:
    """`chaoskit analyze`."""
    from chaoskit import checks, results
    from chaoskit.runner import analyze

    targets = _targets(args)
    run, store = _stored(args)
    if (run.dir / "verdicts.json").exists():
        analyze(run)
    else:
        # Its harness died before it came to a judgement.
        run.judge(*(checks.REGISTRY[name]() for name in UNJUDGED))
    found = results.of_runs(store.read(run.dir)["experiment"] or run.id, [run])
    _report([found], args, targets, store)
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
    from chaoskit import results
    from chaoskit.progress import progress_on
    from chaoskit.runner import Runner, replay

    targets = _targets(args)
    run, store = _stored(args)
    told = store.read(run.dir)
    environment = args.env or told["environment"]
    _must_have(environment)
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
    _report([found], args, targets, store, seconds=seconds)
    return results.exit_code([found])


def do_doctor(args: argparse.Namespace) -> int:
    """`chaoskit doctor`."""
    from chaoskit import doctor
    from chaoskit.report.terminal import console_for

    findings = doctor.examine(root_of(args))
    doctor.show(findings, console_for(sys.stdout))
    return ExitCode.PASS if doctor.local_runs(findings) else ExitCode.INCONCLUSIVE


def do_clean(args: argparse.Namespace) -> int:
    """`chaoskit clean`."""
    from chaoskit.environments.sweep import sweep
    from chaoskit.store import Store

    root = root_of(args)
    swept = sweep(root)
    for word, things in (("run", swept.runs), ("process", swept.processes), ("path", swept.paths)):
        for thing in things:
            print(f"{'ended' if word == 'process' else 'closed' if word == 'run' else 'removed'} {word} {thing}")
    if not swept:
        print("nothing was left behind")
    if args.all:
        runs, references = Store(root).clear()
        print(f"removed {runs} stored runs and {references} references from {root}")
    return ExitCode.PASS


def root_of(args: argparse.Namespace) -> Path:
    """The directory that runs are kept in."""
    from chaoskit.store import NAME

    return Path(getattr(args, "dir", None) or NAME).absolute()


def _job(command: Sequence[str]) -> Job:
    from chaoskit.job import Job

    job = Job.from_command(command, cwd=os.getcwd())
    job.validate()
    return job


def _must_have(environment: str) -> None:
    from chaoskit.environments import environment as named

    why = named(environment).available()
    if why is not None:
        message = f"environment {environment!r} cannot be used here: {why}"
        raise MissingCapability(message, capability=environment, remedy="chaoskit doctor says what there is")


def _stored(args: argparse.Namespace) -> tuple[Run, Store]:
    """The run that was named, and the store that it lies in, which is not always the one of this directory."""
    from chaoskit.runner import stored
    from chaoskit.store import Store

    store = Store(root_of(args))
    run_dir = store.resolve(args.run)
    if run_dir.parent.name == "runs":
        store = Store(run_dir.parent.parent)
    return stored(run_dir, store), store


def _targets(args: argparse.Namespace) -> Targets:
    """What is to be written afterwards; raises UsageError for what could not be."""
    from chaoskit.report.publishing import Targets

    given: dict[str, Any] = {name: getattr(args, name, None) for name in options.TARGETS}
    return Targets.of(**given)


def _report(
    found: Sequence[Result],
    args: argparse.Namespace,
    targets: Targets,
    store: Store,
    *,
    seconds: float | None = None,
    suite: Suite | None = None,
) -> None:
    """The table for people; whatever else was asked for. Standard output is JSON's alone if JSON goes there."""
    from chaoskit.report import publishing, terminal
    from chaoskit.suites.archive import unkept

    one = next((result.place for result in found if result.place), "RUN")
    told = ("--last-suite", store.root) if suite else (one,)
    look = terminal.look_at(*told, report=targets.report)
    console = terminal.console_for(sys.stderr if args.json == "-" else sys.stdout)
    terminal.show(found, console, seconds=seconds, look=look)
    suite = suite or unkept(["chaoskit", *sys.argv[1:]], found)
    publishing.publish(suite, targets, store=store, complain=_complain)


def _list(titles: dict[str, str]) -> None:
    width = max(map(len, titles), default=0)
    for name, title in titles.items():
        print(f"{name:{width}}  {title}".rstrip())


def _complain(message: str, stream: TextIO | None = None) -> None:
    print(f"chaoskit: {message}", file=stream or sys.stderr)


def _internal(root: Path, tracebacks: Sequence[str], what: str) -> None:
    """One line for the person, the traceback in a file; on the screen only where no file can be written."""
    from chaoskit.store import Store

    text = "\n\n".join(tracebacks) + "\n"
    try:
        path = Store(root).keep_crash(text)
    except (StoreError, OSError):
        print(text, file=sys.stderr)
        _complain(f"an error inside chaoskit ({what}); the traceback is above")
    else:
        _complain(f"an error inside chaoskit ({what}); please report it with {path}")


def _interrupt(signum: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
