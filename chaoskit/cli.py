"""The command `chaoskit`: what it is given, and which of its commands that is; heavy imports late."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from chaoskit import (
    __version__,
    compare_command,
    crash_command,
    history_command,
    options,
    report_command,
    run_command,
    sdc_command,
    stored_command,
    upgrade_command,
)
from chaoskit.errors import ChaoskitError, ExitCode
from chaoskit.telling import complain, internal

if TYPE_CHECKING:
    pass


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
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        complain("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.INTERRUPTED
    except Exception as error:
        internal(options.root_of(args), [traceback.format_exc()], f"{type(error).__name__}: {error}")
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
        hint = (
            f"\nthe command of the job comes after '--': {run_command.EXAMPLE}"
            if "unrecognized" in message
            else ""
        )
        super().error(message + hint)


def make_parser() -> Parser:
    """All commands and their options."""
    about = "Prove that a training job survives what will happen to it; if it does not, say what was lost."
    parser = Parser(prog="chaoskit", description=about, epilog=f"example: {run_command.EXAMPLE}")
    parser.set_defaults(do=None)
    parser.add_argument("--version", action="version", version=f"chaoskit {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)

    run_command.add_to(commands)
    crash_command.add_to(commands)
    sdc_command.add_to(commands)
    compare_command.add_to(commands)
    history_command.add_to(commands)
    report_command.add_to(commands)
    upgrade_command.add_to(commands)

    stored_command.add_to(commands)

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


def do_doctor(args: argparse.Namespace) -> int:
    """`chaoskit doctor`."""
    from chaoskit import doctor
    from chaoskit.report.terminal import console_for

    findings = doctor.examine(options.root_of(args))
    doctor.show(findings, console_for(sys.stdout))
    return ExitCode.PASS if doctor.local_runs(findings) else ExitCode.INCONCLUSIVE


def do_clean(args: argparse.Namespace) -> int:
    """`chaoskit clean`."""
    from chaoskit.environments.sweep import sweep
    from chaoskit.store import Store

    root = options.root_of(args)
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


def _interrupt(signum: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
