"""`Configuration`: what a project keeps in `[tool.chaoskit]` of its pyproject.toml, or in its chaoskit.toml.

The keys are the long options of `chaoskit run`, with the same names and values. The command line wins over the file.
Every mistake in the file is a UsageError that names the file and the line.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.cli import option_values, options, selection
from chaoskit.cli.options import Option
from chaoskit.cli.toml_lines import line_of
from chaoskit.errors import CODES, FAMILIES, UsageError
from chaoskit.nodes import CHANNELS
from chaoskit.studies.problems.acceptance import Acceptance
from chaoskit.validation import near_miss

if TYPE_CHECKING:
    from chaoskit.engine.result import FailOn

PYPROJECT, OWN = "pyproject.toml", "chaoskit.toml"


def workers(text: str) -> str:
    """Validate a number of parallel experiments."""
    if not text.isdecimal() and text not in ("auto", "logical"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor 'auto'")
    return text


def fail_on(text: str) -> str:
    """Validate what makes the exit code 1."""
    if text not in FAIL_ON:
        raise argparse.ArgumentTypeError(f"{text!r} is neither {' nor '.join(map(repr, FAIL_ON))}")
    return text


#: Where the keys stand in each file.
PREFIXES: dict[str, tuple[str, ...]] = {PYPROJECT: ("tool", "chaoskit"), OWN: ()}
#: Options that are no keys of the table itself: `strict` is for the one who asks whether the list still holds, and the
#: job template belongs to the settings of the pods.
NOT_IN_FILE = ("strict", "job-template")
#: Options of `chaoskit run` that are for one run, and how they are typed.
FOR_ONE_RUN = {"no-proof": "--no-proof", "verbose": "-v", "v": "-v", "list": "--list", "x": "-x"}
#: What `--fail-on` may be; the first is the default.
FAIL_ON: tuple[FailOn, ...] = ("weaknesses", "problems")
#: Keys of `chaoskit run` alone; pytest has options of its own for them.
SELECTION = (
    Option("select", "experiments by name, with the syntax of -k", "EXPR", str),
    Option("only", "experiments by area, a list or a text with commas", "AREAS", selection.areas),
    Option("quick", "run the few experiments that find most"),
    Option("workers", "experiments in parallel: a number, or 'auto'", "WORKERS", workers),
    Option("junitxml", "write the results as JUnit XML", "FILE", str),
    Option("fail-on", "what makes the exit code 1: 'weaknesses' and problems (the default), or 'problems' alone",
           "WHAT", fail_on),
)
#: The keys that are options, by name.
KEYS = {each.name: each for each in (*options.SHARED, *SELECTION) if each.name not in NOT_IN_FILE}
#: The other keys, and what each is for.
TABLES = {
    "command": "the command of the job, as after '--': a text, or a list of words",
    "variables": "a table of environment variables for the job",
    "accept": "a list of losses that the team accepts",
    "kubernetes": "a table with the settings of the pods (--env kubernetes)",
    "nightly": "a table with the options of 'chaoskit nightly' alone: minutes, gpus, publish, complete",
}
#: The keys of the table `nightly`, and what each must be.
NIGHT_KEYS: dict[str, tuple[tuple[type, ...], str]] = {
    "minutes": ((int, float), "a number over 0"),
    "gpus": ((int,), "a whole number from 1"),
    "publish": ((str,), "a directory or a URL, in quotes"),
    "complete": ((bool,), "true or false"),
}
#: The keys of the table `kubernetes`: the field of `ClusterPlace`, and what each is for.
POD_KEYS = {
    "resources": ("resources", 'requests and limits of each pod, as in a manifest: {limits = {cpu = "4"}}'),
    "node-selector": ("node_selector", "a table with labels of the machines that pods may run on"),
    "tolerations": ("tolerations", "a list of tolerations, as in a manifest"),
    "pull-secret": ("pull_secret", "the name of the secret for the image"),
    "service-account": ("service_account", "the name of the account of the pods"),
    "job-template": ("job_template", "the file with the team's own manifest of the job, in quotes"),
    "channel": ("channel", '"tcp", or "volume" if pods reach chaoskit by files on the volume alone, in quotes'),
    "grace": ("grace", "a whole number of seconds from 1 that a pod has to end by itself after SIGTERM"),
}
#: The keys of an entry of `accept`, and what each is for.
ACCEPT_KEYS = {
    "code": "the code of diagnosis that is accepted; no other is",
    "reason": "why, for whoever reads the report",
    "until": "the last day on which it is accepted (UTC), as a TOML date: 2027-06-01; without it there is no end",
    "experiment": "the experiment in which it is accepted, or the node id of a test (default: all)",
}
#: What people write for a key that has another name.
MEANT = {
    "environment": "env", "environ": "variables", "k": "select", "n": "workers", "cmd": "command", "mounts": "mount",
}  # fmt: skip
#: Keys whose value is a path, which counts from the directory of the file.
PATHS = ("dir", "json", "report", "summary", "badge", "junitxml")


@dataclass(frozen=True)
class Configuration:
    """The content of `file`, validated. `values` maps keys to what the option of that name would parse; `command` is
    empty and `variables` too if the file has none. `pods` are fields of `ClusterPlace`. `places` says where each key
    stands: 'pyproject.toml:12'."""

    file: Path
    values: Mapping[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    acceptances: tuple[Acceptance, ...] = ()
    pods: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    night: Mapping[str, Any] = field(default_factory=dict)

    def value(self, key: str) -> Any:
        """The value of a key; None if the file does not have it. A path is absolute."""
        found = self.values.get(key)
        return str(self.file.parent / found) if found is not None and key in PATHS and found != "-" else found


def read(directory: Path) -> Configuration | None:
    """Return the configuration in `directory`; None if there is none. Raises UsageError for one that is wrong, and for
    two files that differ."""
    found = [each for name in (OWN, PYPROJECT) if (each := _Reader.of(directory / name)) is not None]
    if len(found) == 2 and found[0].table != found[1].table:
        keys = [key for key in {**found[0].table, **found[1].table} if not _same(key, found)]
        at = ", ".join(each.at(keys[0]) if keys[0] in each.table else each.at() for each in found)
        raise UsageError(
            f"{at}: two files configure chaoskit and disagree about {keys[0]!r}: remove the table from one of them"
        )
    return found[0].configuration() if found else None


def above(directory: Path) -> Path | None:
    """The nearest directory above that has a configuration, for a hint."""
    for each in directory.parents:
        for name in (OWN, PYPROJECT):
            try:
                if _Reader.of(each / name) is not None:
                    return each
            except UsageError:
                continue
    return None


def _same(key: str, readers: Sequence[_Reader]) -> bool:
    return len({key in each.table for each in readers}) == 1 and readers[0].table[key] == readers[1].table[key]


@dataclass(frozen=True)
class _Reader:
    """The table of one file, and its text, in which the lines are."""

    file: Path
    text: str
    table: Mapping[str, Any]

    @classmethod
    def of(cls, file: Path) -> _Reader | None:
        """The table of chaoskit in a file; None if it has none."""
        try:
            text = file.read_bytes().decode()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{_shown(file)} cannot be read ({error}): it must be TOML, in UTF-8") from error
        prefix = PREFIXES[file.name]
        if any(name not in text for name in prefix):
            return None  # a pyproject.toml without chaoskit is none of ours, whatever else is wrong with it
        try:
            table: Any = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(_not_toml(_shown(file), text, str(error))) from error
        for end, name in enumerate(prefix, start=1):
            if name not in table:
                return None
            table = table[name]
            if not isinstance(table, dict):
                line = line_of(text, *prefix[:end])
                raise UsageError(f"{_shown(file)}:{line}: {name} must be a table: [{'.'.join(prefix)}]")
        return cls(file, text, table)

    def at(self, *path: str | int) -> str:
        """'pyproject.toml:12'"""
        line = line_of(self.text, *PREFIXES[self.file.name], *path)
        return f"{_shown(self.file)}:{line}" if line is not None else _shown(self.file)

    def wrong(self, *path: str | int, what: str) -> UsageError:
        """The error about the value at a path."""
        return UsageError(f"{self.at(*path)}: {what}")

    def configuration(self) -> Configuration:
        """Validate everything."""
        values: dict[str, Any] = {}
        for key, value in self.table.items():
            if key in KEYS:
                values[key] = self._value(key, value)
            elif key not in TABLES:
                raise self.wrong(key, what=self._unknown(key))
        if "log-file" in values and "log-regex" not in values:
            raise self.wrong("log-file", what="log-file needs log-regex: add the pattern of the file's lines")
        chosen = [key for key in ("select", "only", "quick") if values.get(key)]
        if "quick" in chosen and len(chosen) > 1:
            raise self.wrong("quick", what=f"quick and {chosen[0]} exclude each other: remove one of them")
        return Configuration(
            self.file,
            values,
            self._command(),
            self._variables(),
            tuple(self._acceptances()),
            self._pods(),
            {key: self.at(key) for key in self.table},
            self._night(),
        )

    def _unknown(self, key: str) -> str:
        if key == "tool" and self.file.name == OWN:
            return f"in {OWN} the keys stand at the top, and accept is [[accept]]: remove 'tool.chaoskit.'"
        if key in MEANT:
            return f"there is no key {key!r}; did you mean {MEANT[key]!r}?"
        if key in POD_KEYS:
            return f"{key} is a key of the table kubernetes: move it there"
        if key in NOT_IN_FILE:
            return f"{key} is an option of the command line alone (--{key})"
        if (typed := FOR_ONE_RUN.get(key.replace("_", "-"))) is not None:
            return f"{key} is an option of the command line alone ({typed})"
        return f"there is no key {key!r}{near_miss(key.replace('_', '-'), [*KEYS, *TABLES])}"

    def _value(self, key: str, value: Any) -> Any:
        option = KEYS[key]
        if option.convert is None:
            if not isinstance(value, bool):
                raise self.wrong(key, what=f"{key} must be true or false, not {value!r}")
            return value
        if option.many:
            given = [value] if isinstance(value, str) else value
            if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
                raise self.wrong(key, what=f"{key} must be a list of {option.metavar}, each in quotes, not {value!r}")
            return [self._converted(key, option.convert, each) for each in given]
        if value == "":
            raise self.wrong(key, what=f"{key} is empty: give a value, or remove the line")
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            if option.convert is option_values.resume_args:
                value = shlex.join(value)
            if option.convert is selection.areas:
                value = ",".join(value)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            hint = "; variables of the environment are in the table 'variables'" if key == "env" else ""
            raise self.wrong(key, what=f"{key} must be {option.metavar or 'a value'}, not {value!r}{hint}")
        if option.convert is str and not isinstance(value, str):
            raise self.wrong(key, what=f"{key} must be a text in quotes, not {value!r}")
        return self._converted(key, option.convert, value)

    def _converted(self, key: str, convert: Callable[[str], Any], value: Any) -> Any:
        try:
            converted = convert(str(value))
            if key == "env":
                from chaoskit import environments

                environments.environment(str(value))
        except (argparse.ArgumentTypeError, UsageError) as error:
            told = str(error)
            raise self.wrong(key, what=told if told.startswith(f"{key}: ") else f"{key}: {told}") from error
        except ValueError as error:
            raise self.wrong(key, what=f"{key} must be a number ({KEYS[key].metavar}), not {value!r}") from error
        return converted

    def _command(self) -> tuple[str, ...]:
        value = self.table.get("command", [])
        if isinstance(value, str):
            try:
                value = option_values.words(value)
            except argparse.ArgumentTypeError as error:
                raise self.wrong("command", what=f"command: {error}") from error
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.wrong("command", what=f"command must be a text, or a list of texts, not {value!r}")
        if "command" in self.table and not value:
            raise self.wrong("command", what="command is empty: write the command of the job, with {out}")
        return tuple(value)

    def _variables(self) -> dict[str, str]:
        value = self.table.get("variables", {})
        if not isinstance(value, dict):
            raise self.wrong("variables", what='variables must be a table: {OMP_NUM_THREADS = "1"}')
        for name, each in value.items():
            if isinstance(each, bool) or not isinstance(each, str | int | float) or not name or "=" in name:
                what = f"the variable {name!r} must be a text or a number, not {each!r}"
                raise self.wrong("variables", name, what=what)
        return {name: str(each) for name, each in value.items()}

    def _pods(self) -> dict[str, Any]:
        value = self.table.get("kubernetes", {})
        if not isinstance(value, dict):
            raise self.wrong("kubernetes", what="kubernetes must be a table")
        kinds: dict[str, type] = {
            "tolerations": list, "pull-secret": str, "service-account": str, "job-template": str, "channel": str,
            "grace": int,
        }  # fmt: skip
        for key, each in value.items():
            if key in KEYS:
                what = f"{key} is a key of chaoskit's own table: move it there"
                raise self.wrong("kubernetes", key, what=what)
            if key not in POD_KEYS:
                raise self.wrong("kubernetes", key, what=f"there is no key {key!r}{near_miss(key, POD_KEYS)}")
            is_wrong = not isinstance(each, kinds.get(key, dict)) or isinstance(each, bool)
            if is_wrong or (key == "grace" and each < 1) or (key == "channel" and each not in CHANNELS):
                raise self.wrong("kubernetes", key, what=f"{key} must be {POD_KEYS[key][1]}, not {each!r}")
        if "job-template" in value:
            value = {**value, "job-template": str(self.file.parent.absolute() / value["job-template"])}
        return {POD_KEYS[key][0]: each for key, each in value.items()}

    def _night(self) -> dict[str, Any]:
        value = self.table.get("nightly", {})
        if not isinstance(value, dict):
            raise self.wrong("nightly", what="nightly must be a table")
        for key, each in value.items():
            if key not in NIGHT_KEYS:
                raise self.wrong("nightly", key, what=f"there is no key {key!r}{near_miss(key, NIGHT_KEYS)}")
            kinds, meant = NIGHT_KEYS[key]
            wrong = not isinstance(each, kinds) or (isinstance(each, bool) and bool not in kinds)
            if wrong or (key in ("minutes", "gpus") and not 0 < each < float("inf")) or each == "":
                raise self.wrong("nightly", key, what=f"{key} must be {meant}, not {each!r}")
        here = "://" in value.get("publish", "://")
        return value if here else {**value, "publish": str(self.file.parent / value["publish"])}

    def _acceptances(self) -> Iterator[Acceptance]:
        value = self.table.get("accept", [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            head = ".".join((*PREFIXES[self.file.name], "accept"))
            raise self.wrong("accept", what=f"accept must be a list of tables, each headed by [[{head}]]")
        seen: set[tuple[str, str]] = set()
        known = selection.experiments(_battery()) if value else {}
        for number, entry in enumerate(value):
            one = self._acceptance(number, entry, known)
            if (one.code, one.experiment) in seen:
                raise self.wrong("accept", number, what=f"{one.code} is accepted twice: remove one of the two")
            seen.add((one.code, one.experiment))
            yield one

    def _acceptance(self, number: int, entry: Mapping[str, Any], known: Collection[str]) -> Acceptance:
        def wrong(key: str, what: str) -> UsageError:
            return self.wrong("accept", number, key, what=what)

        for key in entry:
            if key not in ACCEPT_KEYS:
                raise wrong(key, f"an acceptance has no key {key!r}{near_miss(key, ACCEPT_KEYS)}")
        code, reason, until = entry.get("code"), entry.get("reason"), entry.get("until")
        experiment = entry.get("experiment", "")
        if code is None:
            raise wrong("code", "an acceptance needs a code: without one it would accept everything")
        if not isinstance(code, str) or code not in CODES:
            if isinstance(code, str) and set(code) & set("*?["):
                raise wrong("code", f"{code!r} would accept everything; name one code, and no pattern")
            raise wrong("code", f"there is no code {code!r}{near_miss(str(code), CODES)}")
        if FAMILIES[code] == "inconclusive":
            what = "says that an experiment decided nothing; to accept that would be a pass that proves nothing"
            raise wrong("code", f"{code} {what}")
        if not isinstance(reason, str) or not reason.strip():
            raise wrong("reason", f"the acceptance of {code} needs a reason, for whoever reads the report")
        if until is not None and (not isinstance(until, date) or isinstance(until, datetime)):
            given = until.isoformat() if isinstance(until, datetime) else repr(until)
            raise wrong("until", f"until must be a date without quotes or time, such as 2027-06-01, not {given}")
        if not isinstance(experiment, str) or (not experiment and "experiment" in entry):
            raise wrong("experiment", f"experiment must be the name of one, not {experiment!r}")
        name = experiment.partition("[")[0]
        if experiment and "::" not in experiment and name not in known:
            near = _experiment_near(name, known)
            own = "Name a test of your own by its node id: test_x.py::test_y"
            raise wrong("experiment", f"there is no experiment {experiment!r}{near} {own}")
        return Acceptance(code, " ".join(reason.split()), until, experiment, self.at("accept", number))


def _experiment_near(name: str, known: Collection[str]) -> str:
    near = near_miss(name, known)
    return near if "did you mean" in near else "; 'chaoskit run --list' shows their names."


def _not_toml(file: str, text: str, error: str) -> str:
    """Say in which line a file is no TOML. The parser calls a date that does not exist a missing newline."""
    found = re.search(r"at line (\d+)", error)
    if found is None:
        return f"{file} is not TOML: {error}"
    line = text.split("\n")[int(found[1]) - 1]
    for given in re.findall(r"(?<![\w.-])\d{1,4}-\d{1,2}-\d{1,2}(?![\w.-])", line):
        try:
            date.fromisoformat(given)
        except ValueError:
            return f"{file}:{found[1]}: not TOML: {given} is no date; write a date that exists, such as 2027-06-01"
    return f"{file}:{found[1]}: not TOML: {error}"


def _battery() -> Path:
    from chaoskit.cli import battery

    return battery.directory()


def _shown(file: Path) -> str:
    """The file for people: relative to the current directory if it lies below."""
    return os.path.relpath(file) if file.is_relative_to(Path.cwd()) else str(file)


def apply(args: argparse.Namespace, found: Configuration) -> None:
    """Put the values of the file into the arguments of `chaoskit run` where the command line gives none. A selection
    on the command line replaces that of the file."""
    names = {"select": "k", "workers": "n"}
    chosen = any(getattr(args, name) for name in ("k", "only", "quick"))
    for key in found.values:
        attribute = names.get(key, key.replace("-", "_"))
        if chosen and key in ("select", "only", "quick"):
            continue
        if getattr(args, attribute) in (None, False):
            setattr(args, attribute, found.values[key])
