"""`Settings`: what a session of pytest takes from the configuration of the project.

Options of pytest win over the file. `chaoskit run` hands over its own with a hidden option, because the battery is no
part of the project; pytest-xdist hands it on to its workers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.cli import options

if TYPE_CHECKING:
    import pytest

    from chaoskit.cli.configuration import Configuration
    from chaoskit.job import Job
    from chaoskit.studies.problems.acceptance import Acceptance

#: The attribute of the hidden option.
HIDDEN = "chaos_settings"


@dataclass(frozen=True)
class Settings:
    """`acceptances` are those of the file; `command` is that of the job, to be started in `directory` with these
    `variables` of the environment, which a job from the command line gets, too. `pods` are the settings of the
    job's pods, if it runs in a cluster."""

    acceptances: tuple[Acceptance, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    directory: str = ""
    pods: Mapping[str, Any] = field(default_factory=dict)

    def to_text(self) -> str:
        """The value of the hidden option."""
        accept = [one.to_json() for one in self.acceptances]
        return json.dumps({**self.__dict__, "acceptances": accept})

    @classmethod
    def from_text(cls, text: str) -> Settings:
        """The inverse of `to_text`."""
        from chaoskit.studies.problems.acceptance import Acceptance

        data = json.loads(text)
        accept = tuple(Acceptance.from_json(each) for each in data["acceptances"])
        return cls(**{**data, "acceptances": accept, "command": tuple(data["command"])})


def settings_of(config: pytest.Config) -> Settings:
    """Return the settings of the session, and fill in the options that the file of pytest's root directory gives and
    the command line does not. Raises UsageError for a wrong file, and for options that the environment does not use.
    """
    if text := getattr(config.option, HIDDEN):
        return Settings.from_text(text)
    found = _file_of(config)
    typed = options.given_to(config)
    environment = typed["env"] or (found.value("env") if found is not None else None)
    if any(typed.values()):  # most sessions of pytest have nothing to do with chaoskit, and import nothing
        options.must_be_used({**typed, "env": environment}, flag="--chaos-")
    if found is None:
        return Settings()
    told = {option: found.value(option.name) for option in options.SHARED}
    unused = options.unused(environment) if any(told.values()) else ()
    for option, value in told.items():
        if option.name in unused:
            continue
        attribute = f"chaos_{option.attribute}"
        # Standard output belongs to pytest.
        if value is not None and value != "-" and getattr(config.option, attribute) in (None, False):
            setattr(config.option, attribute, value)
    made = Settings(found.acceptances, found.variables, found.command, str(Path(config.rootpath)), found.pods)
    setattr(config.option, HIDDEN, made.to_text())
    return made


def _file_of(config: pytest.Config) -> Configuration | None:
    if not any((config.rootpath / name).is_file() for name in ("pyproject.toml", "chaoskit.toml")):
        return None
    from chaoskit.cli import configuration

    return configuration.read(config.rootpath)


def job_given(config: pytest.Config, settings: Settings) -> Job | None:
    """Return the job of `--chaos-job`, to be started in pytest's directory, else that of the file, to be started in the
    directory of the file; None without both."""
    command, directory = config.getoption("chaos_job"), str(config.invocation_params.dir)
    if not command:
        command, directory = list(settings.command), settings.directory
    told = {name: config.getoption(f"chaos_{name}") for name in (*options.CLUSTER, "env", "job_template")}
    cluster = options.cluster_of(told, settings.pods)
    decided = options.job_of_template(cluster, config.getoption("chaos_job") or ())
    if not command and not decided:
        return None
    from chaoskit.job import Job

    variables = {**settings.variables, **decided.get("env", {})}
    return Job(**{"command": command, **decided, "env": variables}, cwd=directory, cluster=cluster)
