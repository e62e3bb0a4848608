"""The command `chaoskit`: parses the arguments and calls a command. Heavy modules are imported late."""

from __future__ import annotations

import argparse
import atexit
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from chaoskit import __version__
from chaoskit.cli import (
    certify,
    compare,
    crash_states,
    forecast,
    history,
    init,
    kubernetes,
    nightly,
    options,
    prove,
    report,
    run,
    sdc_map,
    stored_runs,
    upgrade,
)
from chaoskit.cli.output import complain, exhausted, internal, say
from chaoskit.engine.shortage import shortage
from chaoskit.engine.terminal_text import printable
from chaoskit.errors import ChaoskitError, ExitCode

if TYPE_CHECKING:
    from chaoskit.engine.run_store import Store


def main(argv: Sequence[str] | None = None) -> int:
    """Execute the command line `argv` and return the exit code (see `docs/reference/codes.md`)."""
    words, command = split(list(sys.argv[1:] if argv is None else argv))
    parser = make_parser()
    if (empty := _empty(words)) is not None:
        complain(f"{empty} is empty: give a value, or leave it out")
        return ExitCode.USAGE
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
        return error.exit_code if shortage(error) is None else ExitCode.EXHAUSTED
    except KeyboardInterrupt:
        complain("interrupted")
        return ExitCode.INTERRUPTED
    except PermissionError as error:
        complain(f"{error.filename} cannot be used ({error.strerror}){_of_whom(error.filename)}")
        return ExitCode.USAGE
    except BrokenPipeError:
        # The reader of the output has exited, so nothing more can be printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.INTERRUPTED
    except Exception as error:
        if (lacking := shortage(error)) is not None:
            exhausted(lacking)
            return ExitCode.EXHAUSTED
        internal(options.store_path(args), [traceback.format_exc()], f"{type(error).__name__}: {error}")
        return ExitCode.INTERNAL
    finally:
        signal.signal(signal.SIGTERM, before)
        # What is registered last is called first: before xdist, which waits there for its workers.
        atexit.unregister(_ignore_interrupts)
        atexit.register(_ignore_interrupts)


def _ignore_interrupts() -> None:
    """All results are out: a further Ctrl-C would only print the traceback of something that still cleans up."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments into those of chaoskit and the command of the job, which begins after the first '--'."""
    at = argv.index("--") if "--" in argv else len(argv)
    own, command = argv[:at], argv[at + 1 :]
    # argparse would take the value of --resume-args, which begins with a dash, for an option.
    joined: list[str] = []
    for word in own:
        if joined and joined[-1] == "--resume-args":
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined, command


def _empty(words: Sequence[str]) -> str | None:
    """The option whose value is empty, as a variable of a shell may leave it; or 'an argument'."""
    for before, word in zip(("", *words), words, strict=False):
        option, equals, value = word.partition("=")
        if not word:
            return before if before.startswith("-") else "an argument"
        if option.startswith("-") and equals and not value:
            return option
    return None


class Parser(argparse.ArgumentParser):
    """Adds a hint to the error about unknown arguments: the command of the job comes after '--'."""

    def error(self, message: str) -> NoReturn:
        """See argparse."""
        hint = (
            f"\nthe command of the job must come after '--', for example: {run.EXAMPLE}"
            if "unrecognized" in message
            else ""
        )
        super().error(printable(message) + hint)


def make_parser() -> Parser:
    """Create the parser with all commands and their options."""
    about = "Inject faults into a training job, check that it recovers, and report what it lost if it does not."
    parser = Parser(prog="chaoskit", description=about, epilog=f"Example: {run.EXAMPLE}")
    parser.set_defaults(do=None)
    parser.add_argument("--version", action="version", version=f"chaoskit {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)

    run.add_to(commands)
    nightly.add_to(commands)
    certify.add_to(commands)
    init.add_to(commands)
    crash_states.add_to(commands)
    sdc_map.add_to(commands)
    compare.add_to(commands)
    history.add_to(commands)
    forecast.add_to(commands)
    report.add_to(commands)
    upgrade.add_to(commands)

    stored_runs.add_to(commands)
    prove.add_to(commands)
    kubernetes.add_to(commands)

    text = "check what this machine supports, and show how to install what is missing"
    doctor = commands.add_parser("doctor", help=text, description=text.capitalize() + ".")
    options.add_to_parser(doctor, "dir")
    doctor.set_defaults(do=do_doctor)

    text = "end the processes and remove the files that a crashed chaoskit left behind"
    clean = commands.add_parser("clean", help=text, description=text.capitalize() + ".")
    clean.add_argument("--all", action="store_true", help="also remove all stored runs and references")
    options.add_to_parser(clean, "dir")
    clean.set_defaults(do=do_clean)
    return parser


def do_doctor(args: argparse.Namespace) -> int:
    """`chaoskit doctor`."""
    from chaoskit.cli import doctor
    from chaoskit.report.terminal.table import console_for

    findings = doctor.examine(options.root_of(args))
    doctor.show(findings, console_for(sys.stdout))
    return ExitCode.PASS if doctor.local_runs(findings) else ExitCode.INCONCLUSIVE


def do_clean(args: argparse.Namespace) -> int:
    """`chaoskit clean`."""
    from chaoskit import environments
    from chaoskit.engine.run_store import Store
    from chaoskit.environments.machine.sweep import sweep

    root = options.root_of(args)
    used = Store(root).environments()
    swept, (others, unreached) = sweep(root), environments.sweep(root)
    for word, things in (("run", swept.runs), ("process", swept.processes), ("path", swept.paths)):
        for thing in things:
            say(f"{'ended' if word == 'process' else 'closed' if word == 'run' else 'removed'} {word} {thing}")
    for thing in others:
        say(f"removed {thing}")
    unseen = {name: why for name, why in unreached.items() if name in used}
    for name, why in unseen.items():
        complain(f"what runs with --env {name} may have left was not looked for: {why}; then clean again")
    if not swept and not others and not unseen:
        say("nothing to clean: no crashed chaoskit left anything behind")
    left = _complain_of(swept.left)
    left |= _clear(Store(root)) if args.all else False
    return ExitCode.INTERNAL if unseen or left else ExitCode.PASS


def _clear(store: Store) -> bool:
    """Remove the stored runs and references; returns whether something is left that should be gone."""
    from chaoskit.engine import retention
    from chaoskit.files.disk_use import shown

    cleaned = retention.clear(store)
    say(f"removed {cleaned} from {store.root}; {shown(cleaned.freed)} are free again")
    if cleaned.busy:
        say(f"left {cleaned.busy} of them alone: a chaoskit that runs now works on them")
    return _complain_of(cleaned.left)


def _complain_of(left: Sequence[str]) -> bool:
    """Say what could not be removed, and why; returns whether there is anything."""
    for why in left[:5]:
        complain(f"could not remove {why}")
    if len(left) > 5:
        complain(f"and {len(left) - 5} more could not be removed")
    return bool(left)


def _of_whom(path: str | None) -> str:
    """Whose the nearest directory is that this user may look at, if another's, and what to do."""
    for place in (Path(path), *Path(path).parents) if path else ():
        with suppress(OSError, KeyError):
            if place.stat().st_uid != os.geteuid():
                return f": {place} is of the user {place.owner()}; ask for a copy, or name a --dir of your own"
            break
    return ": change its permissions, or name another --dir"


def _interrupt(signum: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
