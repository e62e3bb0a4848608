"""Asks before a run from elsewhere is repeated: its stored command would run as the user who repeats it."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from chaoskit.cli.output import complain, say
from chaoskit.errors import UsageError

if TYPE_CHECKING:
    from chaoskit.engine.run_store import Store
    from chaoskit.engine.runner import Run


def add_yes(command: argparse.ArgumentParser) -> None:
    """Add the option that answers the question."""
    command.add_argument(
        "--yes",
        action="store_true",
        help="repeat a run that was not recorded here by you without asking: its command runs as you",
    )


def ask_first(run: Run, store: Store, *, yes: bool) -> None:
    """Show what a run from elsewhere would run, and ask, unless `yes`. Raises UsageError for a no, and where there is
    no terminal to ask on."""
    from chaoskit.engine.origin import recorded_here

    record = store.read(run.dir)
    if yes or recorded_here(run.dir, record):
        return
    told = "\n".join(_shown(run, record))
    sentence = (
        f"{run.dir} was not recorded here by you (but by another user, on another machine, in another "
        "directory or by an earlier chaoskit), or its job was changed since"
    )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"{sentence}. It would run:\n{told}\nRead that, and if it may run as you, repeat the command with --yes"
        )
    complain(f"{sentence}. It would run:\n{told}")
    say("Run it as you? [y/N] ", end="", file=sys.stderr)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was run")


def _shown(run: Run, record: Mapping[str, object]) -> Iterator[str]:
    """Everything of the job that decides which programs run, and where."""
    from chaoskit.engine.terminal_text import one_line

    job = run.job
    lines = [("command", shlex.join(job.words())), ("directory", str(job.directory))]
    if job.relaunch_command or job.resume_args:
        lines.append(("relaunched with", shlex.join([*job.relaunch_command, *job.resume_args])))
    lines += [("variable", f"{name}={value}") for name, value in job.env.items()]
    lines += [("image", name) for name in (job.image, job.helper_image) if name]
    lines += [("mount", mount) for mount in job.mounts]
    if job.cluster is not None:
        lines.append(("cluster", str(job.cluster.to_json())))
    lines.append(("environment", str(record["environment"])))
    for what, text in lines:
        yield f"  {what}: {one_line(text)}"
