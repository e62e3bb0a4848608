"""The options that the command line and the pytest plugin share: `--timeout` here, `--chaos-timeout` there."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.errors import UsageError

if TYPE_CHECKING:
    import pytest

    from chaoskit.job import Job


def count(text: str) -> int:
    """A whole number from 0."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def seconds(text: str) -> float:
    """A positive number of seconds."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no positive number of seconds")
    return value


def words(text: str) -> list[str]:
    """Arguments as a shell would split them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be split into words: {error}") from error


def _passed(check: Callable[[str], object], text: str) -> str:
    """The text, once the check of whoever uses it has nothing against it."""
    try:
        check(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def log_regex(text: str) -> str:
    """A regular expression for log lines, with the named groups that they are read by."""
    from chaoskit.job import log_pattern

    return _passed(log_pattern, text)


def launch(text: str) -> str:
    """How processes are to be started."""
    from chaoskit.launch.mode import wish

    return _passed(wish, text)


def nodes(text: str) -> str:
    """A number of nodes, or a range."""
    from chaoskit.nodes import count_nodes

    return _passed(count_nodes, text)


@dataclass(frozen=True)
class Option:
    """One option; `convert` is None for a switch."""

    name: str
    help: str
    metavar: str = ""
    convert: Callable[[str], Any] | None = None

    @property
    def attribute(self) -> str:
        """Where its value is kept by argparse."""
        return self.name.replace("-", "_")

    @property
    def pytest_flag(self) -> str:
        """How pytest spells it."""
        return f"--chaos-{self.name}"

    def arguments(self) -> dict[str, Any]:
        """What `add_argument` and `addoption` are given beside the flag."""
        if self.convert is None:
            return {"action": "store_true", "help": self.help}
        return {"metavar": self.metavar, "type": self.convert, "help": self.help}


SHARED = (
    Option("env", "environment to run in (default: local; 'chaoskit doctor' lists them)", "NAME", str),
    Option("nodes", "on how many nodes the job runs, N or a range MIN:MAX (needs --env netns)", "N", nodes),
    Option("require", "a missing capability or environment is an error, not a skip"),
    Option("dir", "where runs are kept (default: .chaoskit in the project)", "DIR", str),
    Option(
        "launch",
        "how processes start: 'cold' is afresh, 'warm' by a fork of one that has imported torch (default: auto, "
        "warm where that is shown to change nothing)",
        "MODE",
        launch,
    ),
    Option("relaunches", "how often a command that died is started again", "N", count),
    Option("timeout", "deadline of one run (default: from the uninterrupted run)", "SECONDS", seconds),
    Option("resume-args", "arguments to add on relaunches, as one word", "ARGS", words),
    Option("controls", "uninterrupted runs of a job that is not deterministic (default: 5)", "N", count),
    Option("log-regex", "finds log lines, by the groups (?P<step>...) and (?P<loss>...)", "REGEX", log_regex),
    Option(
        "log-file", "log below {out} that the job keeps over its relaunches (default: its output)", "FILE", str
    ),
    Option("json", "write the results as JSON to a file ('-' with 'chaoskit run': standard output)", "FILE", str),
    Option("report", "write pages for a browser to a directory: of the suite, and of each run", "DIR", str),
    Option("summary", "append a table in Markdown to a file, such as $GITHUB_STEP_SUMMARY", "FILE", str),
    Option("badge", "draw how many experiments passed, as a badge (SVG) for a README", "FILE", str),
)
#: What is written once the verdicts are there, by the command itself.
TARGETS = ("json", "report", "summary", "badge")
#: The fields of a `Job` that options go over, and the attribute of the option.
JOB_FIELDS = {
    **{name: name for name in ("relaunches", "timeout", "resume_args", "controls", "log_regex", "log_file")},
    "nnodes": "nodes",
}


def root_of(args: argparse.Namespace) -> Path:
    """The directory that runs are kept in."""
    from chaoskit.store import NAME

    return Path(getattr(args, "dir", None) or NAME).absolute()


def add_to_parser(parser: argparse.ArgumentParser, *names: str) -> None:
    """The shared options, or those of these names, as options of a command."""
    for option in (option for option in SHARED if not names or option.name in names):
        parser.add_argument(f"--{option.name}", **option.arguments())


def add_to_pytest(parser: pytest.Parser) -> None:
    """The shared options, and `--chaos-job`, as pytest's."""
    group = parser.getgroup("chaoskit", "fault injection for training jobs (chaoskit)")
    for option in SHARED:
        group.addoption(option.pytest_flag, **option.arguments())
    about = "the job of the fixture 'job', as one word with {out} in it"
    group.addoption("--chaos-job", metavar="COMMAND", type=words, help=about)


def forward(args: argparse.Namespace) -> list[str]:
    """What the command was told, in pytest's spelling; what is written afterwards is the command's own affair.

    Raises UsageError for options that do not go together.
    """
    if args.log_file is not None and args.log_regex is None:
        raise UsageError("--log-file needs --log-regex, which says what the lines of the file tell")
    told = []
    for option in SHARED:
        value = getattr(args, option.attribute, None)
        if option.name in TARGETS or value is None or value is False:
            continue
        if value is True:
            told.append(option.pytest_flag)
        else:
            text = shlex.join(value) if option.convert is words else str(value)
            told.append(f"{option.pytest_flag}={text}")
    return told


def overrides(config: pytest.Config) -> dict[str, Any]:
    """The fields of a `Job` that options were given for; they replace what the job itself says."""
    given = {field: config.getoption(f"chaos_{name}") for field, name in JOB_FIELDS.items()}
    return {field: value for field, value in given.items() if value is not None}


def job_given(config: pytest.Config) -> Job | None:
    """The job of `--chaos-job`, started where pytest was; None when there is none."""
    command = config.getoption("chaos_job")
    if not command:
        return None
    from chaoskit.job import Job

    return Job.from_command(command, cwd=str(config.invocation_params.dir))
