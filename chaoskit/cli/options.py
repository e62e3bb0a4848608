"""The options that the command line and the pytest plugin share: `--timeout` here, `--chaos-timeout` there."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.cli.option_values import (
    count,
    duration,
    launch,
    log_file,
    log_regex,
    mount,
    nodes,
    notices,
    path,
    positive,
    resume_args,
    seconds,
    several,
    size,
    stops_with,
    volume,
    windows,
    words,
)
from chaoskit.errors import UsageError
from chaoskit.validation import check_schedule

if TYPE_CHECKING:
    import pytest

    from chaoskit.nodes import ClusterPlace


@dataclass(frozen=True)
class Option:
    """One option; `convert` is None for a flag without a value. One of `many` values may be given again."""

    name: str
    help: str
    metavar: str = ""
    convert: Callable[[str], Any] | None = None
    many: bool = False

    @property
    def attribute(self) -> str:
        """Its attribute in the namespace of argparse."""
        return self.name.replace("-", "_")

    @property
    def pytest_flag(self) -> str:
        """Its name as an option of pytest."""
        return f"--chaos-{self.name}"

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments for `add_argument` and `addoption`."""
        if self.convert is None:
            return {"action": "store_true", "help": self.help}
        more = {"action": "append"} if self.many else {}
        return {"metavar": self.metavar, "type": self.convert, "help": self.help, **more}


SHARED = (
    Option(
        "env", "environment that runs the job ('chaoskit doctor' lists them and marks the default)", "NAME", str
    ),
    Option(
        "nodes",
        "number of nodes of the job, N or a range MIN:MAX (needs an environment with several nodes: netns, docker, "
        "kubernetes, slurm)",
        "N",
        nodes,
    ),
    Option(
        "image",
        "image of the containers or pods that are the nodes (--env docker, kubernetes); it is not changed",
        "IMAGE",
        str,
    ),
    Option(
        "mount",
        "directory or file of this machine that the containers see, as SRC:DST or SRC:DST:ro; may be repeated",
        "SRC:DST",
        mount,
        many=True,
    ),
    Option(
        "helper-image",
        "image with Python, nft and ip: short-lived containers of it change the network of nodes, "
        "where chaoskit does not run as root",
        "IMAGE",
        str,
    ),
    Option("partition", "partition of the Slurm cluster (--env slurm; default: that of the batch script)", "NAME", str),
    Option("pull", "fetch the image if it is not on this machine"),
    Option("namespace", "namespace of the cluster in which pods are made (--env kubernetes)", "NAME", str),
    Option(
        "volume",
        "volume claim that pods and chaoskit share, and where chaoskit has it: CLAIM:PATH (--env kubernetes)",
        "CLAIM:PATH",
        volume,
    ),
    Option(
        "context", "context of the kubeconfig; without it, the cluster in whose pod chaoskit runs", "NAME", str
    ),
    Option("kubeconfig", "kubeconfig file (default: $KUBECONFIG, or ~/.kube/config)", "FILE", str),
    Option("i-mean", "repeat the name of a context that looks like production", "CONTEXT", str),
    Option("address", "address at which pods reach chaoskit (default: found out)", "ADDRESS", str),
    Option(
        "job-template",
        "run the team's own manifest (Job, JobSet, PyTorchJob, TrainJob), with command and image (--env kubernetes)",
        "FILE",
        path,
    ),
    Option("require", "fail if a capability or environment is missing, instead of skipping the experiment"),
    Option(
        "keep-going",
        "run every experiment, also after three of them have hung in the same way (default: skip the others)",
    ),
    Option(
        "whole",
        "train every experiment from the first step to the last (default: only around its fault, where the job trains "
        "long enough for that to pay and a run shows that it can be judged so)",
    ),
    Option(
        "windows",
        "which experiments are run only around their faults: 'auto', 'always' (also those of a short job) or 'never', "
        "which is --whole (default: auto)",
        "MODE",
        windows,
    ),
    Option("dir", "directory for stored runs (default: .chaoskit in the project)", "DIR", str),
    Option("keep", "number of passed runs that stay stored (default: 50)", "N", count),
    Option(
        "store-limit",
        "size that the stored runs may have at the end of a session, such as 20GB: the oldest are removed, passed ones "
        "first (default: none)",
        "SIZE",
        size,
    ),
    Option(
        "launch",
        "how processes start: 'cold' starts new interpreters, 'warm' forks a process that has imported torch "
        "(default: auto, which uses warm if a test shows that the job computes the same)",
        "MODE",
        launch,
    ),
    Option(
        "every",
        "also kill a worker each time that this time has passed, as long as --during says: 30m; with --notices, "
        "another experiment preempts a node each time",
        "TIME",
        duration,
    ),
    Option("during", "for how long --every strikes, at most until the job ends: 6h", "TIME", duration),
    Option(
        "seed",
        "number that draws the workers and nodes that --every strikes, and the experiments that are trained on behind "
        "their windows, for comparison (default: 0)",
        "N",
        count,
    ),
    Option(
        "notices",
        "also give the notices of preemption that the job handles, separated by commas: aws, gcp, azure, kubernetes, "
        "slurm, signal (SIGTERM) and file ({out}/emergency_checkpoint)",
        "NAMES",
        notices,
    ),
    Option(
        "stops-with",
        "exit code with which the job leaves when it was told to, so that its scheduler starts it again: 0, nonzero or "
        "another one (default: nonzero); with 0, chaoskit starts it again as well",
        "CODE",
        stops_with,
    ),
    Option("relaunches", "maximum number of relaunches of a job that ended early", "N", count),
    Option("timeout", "deadline of one run (default: derived from the uninterrupted run)", "SECONDS", seconds),
    Option(
        "hang-after",
        "shortest time without any activity that counts as a hang, for jobs that end a hang by themselves "
        "(default: 30, or 120 in the uninterrupted runs)",
        "SECONDS",
        seconds,
    ),
    Option(
        "resume-args",
        "arguments to append to the job's command on relaunches once a save has settled, quoted as one word; "
        "{newest:step-*} becomes the path of the newest checkpoint below {out} with such a name",
        "ARGS",
        resume_args,
    ),
    Option(
        "record-every",
        "of a long run, record the state at each N-th step only, and after each start, load and save; losses, learning "
        "rates and data at every step (default: 1)",
        "N",
        positive,
    ),
    Option("controls", "number of uninterrupted runs of a job that is not deterministic (default: 5)", "N", several),
    Option(
        "log-regex",
        "pattern of the job's log lines, with the groups (?P<step>...) and (?P<loss>...)",
        "REGEX",
        log_regex,
    ),
    Option(
        "log-file",
        "log file below {out} that the job appends to over its relaunches (default: its output)",
        "FILE",
        log_file,
    ),
    Option("strict", "ignore the list of accepted losses ([tool.chaoskit] accept)"),
    Option("json", "write the results as JSON to a file ('-' for standard output, not with pytest)", "FILE", str),
    Option("report", "write HTML pages to a directory: one for the suite, one for each run", "DIR", str),
    Option(
        "summary", "append the problems and the results as Markdown to a file such as $GITHUB_STEP_SUMMARY", "FILE", str
    ),
    Option(
        "badge",
        "write an SVG badge for a README: how many experiments passed, and how many problems there are",
        "FILE",
        str,
    ),
)
#: Output files, which the command itself writes after the last verdict.
TARGETS = ("json", "report", "summary", "badge")
#: The fields of a `Job` that options override, and the attribute of each option.
JOB_FIELDS = {
    **{
        name: name
        for name in (
            "relaunches", "timeout", "hang_after", "resume_args", "controls", "log_regex", "log_file", "stops_with",
            "record_every",
        )
    },
    "nnodes": "nodes",
    "image": "image",
    "mounts": "mount",
    "helper_image": "helper_image",
    "partition": "partition",
}


#: The options that say where in a cluster a job runs.
CLUSTER = ("namespace", "volume", "context", "kubeconfig", "i_mean", "address")


def cluster_of(given: Mapping[str, Any], pods: Mapping[str, Any]) -> ClusterPlace | None:
    """The place in a cluster that these options name, by their attributes, None if they name none, or if the
    environment uses none; `pods` are the settings of its pods. Raises UsageError for half a place, and for a job
    template that cannot be run."""
    if "namespace" in unused(given.get("env")):
        return None
    told: dict[str, Any] = {name: given.get(name) for name in CLUSTER if given.get(name)}
    settings = {name: value for name, value in pods.items() if name != "job_template"}
    template = _template_of(given, pods)
    if not told and not settings and not template:
        return None
    for name, example in (("namespace", "--namespace NAME"), ("volume", "--volume CLAIM:PATH")):
        if name not in told:
            raise UsageError(f"a job in a cluster needs {example} as well")
    from chaoskit.nodes import ClusterPlace, read_volume

    claim, path = read_volume(told.pop("volume"))
    return ClusterPlace(**{"claim": claim, "path": path, **told, **settings, "job_template": template})


def _template_of(given: Mapping[str, Any], pods: Mapping[str, Any]) -> Mapping[str, Any]:
    """The job template that the options or else the settings of the pods name."""
    file = given.get("job_template") or pods.get("job_template")
    if not file:
        return {}
    from chaoskit.environments.kubernetes.job_template import read_template

    return read_template(Path(file))


def job_of_template(cluster: ClusterPlace | None, command: Sequence[str]) -> dict[str, Any]:
    """The fields of a `Job` that the job template of a place decides; none where it has no template. Raises UsageError
    for a template whose pods have other settings, too, and if a `command` is given beside it."""
    if cluster is None or not cluster.job_template:
        return {}
    from chaoskit.environments.kubernetes.job_template import JobTemplate

    template = JobTemplate(cluster.job_template)
    if command and list(command) != template.words:
        raise UsageError(
            f"the command of the job is given twice: the job template {template.name!r} has one; leave out what stands "
            "after '--', or the template"
        )
    template.place(cluster)
    return {"command": template.words, "image": template.image, "nnodes": template.nodes, "env": template.telling}


def unused(environment: str | None) -> dict[str, list[str]]:
    """The options that this environment does not use, each with the names of those that do."""
    from chaoskit import environments

    return environments.unused_options(environment_of(environment))


def must_be_used(given: Mapping[str, Any], *, flag: str = "--") -> None:
    """Raises UsageError if somebody has typed an option, by its attribute, that the environment does not use."""
    chosen = environment_of(given.get("env"))
    used_by = unused(chosen)
    for option in SHARED:
        if option.name in used_by and given.get(option.attribute):
            names = " or ".join(f"{flag}env {name}" for name in used_by[option.name])
            what = f"{flag}{option.name} is for {names}, not for {chosen!r}"
            raise UsageError(f"{what}: choose {names}, or leave {flag}{option.name} out")


def leave_out_unused(args: argparse.Namespace) -> None:
    """Forget what a configuration file says for other environments than the one that is used."""
    for option in unused(args.env):
        if getattr(args, option.replace("-", "_"), None):
            setattr(args, option.replace("-", "_"), None)


def windows_of(given: Mapping[str, Any]) -> str:
    """Which experiments are run in windows, by the attributes of the options."""
    return "never" if given.get("whole") else given.get("windows") or "auto"


def limit_of(given: str | None) -> int | None:
    """The bytes that the stored runs may have; None for no limit."""
    from chaoskit.validation import check_size

    return check_size("", "the size", given) if given else None


def environment_of(given: str | None) -> str:
    """Return the name of the environment to run in."""
    from chaoskit.environments import DEFAULT_ENVIRONMENT

    return given or DEFAULT_ENVIRONMENT


def store_path(args: argparse.Namespace) -> Path:
    """Return the path of the stored runs, whatever is there."""
    from chaoskit.engine.run_store import NAME

    return Path(getattr(args, "dir", None) or NAME).absolute()


def root_of(args: argparse.Namespace) -> Path:
    """Return the directory of the stored runs, which need not exist. Raises UsageError if it is something else."""
    root = store_path(args)
    found = next(each for each in (root, *root.parents) if os.path.lexists(each))
    if not found.is_dir():
        raise UsageError(f"--dir: cannot keep runs in {root}, because {found} is no directory: name another one")
    return root


def add_to_parser(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add the shared options, or those with these names, to a command."""
    for option in (option for option in SHARED if not names or option.name in names):
        parser.add_argument(f"--{option.name}", **option.arguments())


def add_to_pytest(parser: pytest.Parser) -> None:
    """Add the shared options and `--chaos-job` to pytest."""
    group = parser.getgroup("chaoskit", "fault injection for training jobs (chaoskit)")
    for option in SHARED:
        group.addoption(option.pytest_flag, **option.arguments())
    about = "command of the job for the fixture 'job', quoted as one word; must contain {out}"
    group.addoption("--chaos-job", metavar="COMMAND", type=words, help=about)
    group.addoption("--chaos-settings", help=argparse.SUPPRESS)
    group.addoption("--chaos-night", help=argparse.SUPPRESS)


def check(given: Mapping[str, Any], *, flag: str = "--") -> None:
    """Raises UsageError for shared options, by their attributes, that are empty or contradict each other. `flag` is
    the prefix of the options."""
    for option in SHARED:
        if given.get(option.attribute) == "":
            raise UsageError(f"{flag}{option.name} is empty: give a value, or leave the option out")
    if given.get("log_file") is not None and given.get("log_regex") is None:
        raise UsageError(f"{flag}log-file needs {flag}log-regex: add the pattern of the file's lines")
    if given.get("whole") and given.get("windows") not in (None, "never"):
        both = f"{flag}whole and {flag}windows {given['windows']}"
        raise UsageError(f"{both} contradict each other: leave one of them out")
    every, during = given.get("every"), given.get("during")
    if bool(every) != bool(during):
        raise UsageError(f"{flag}every and {flag}during belong together: {flag}every 30m {flag}during 6h")
    if every and during:
        check_schedule(f"{flag}every", every, during)


def job_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `Job` that these options override, by their attributes."""
    found = {field: given.get(name) for field, name in JOB_FIELDS.items()}
    more = {"pull": True} if given.get("pull") else {}
    return {field: value for field, value in found.items() if value is not None} | more


def forward(args: argparse.Namespace) -> list[str]:
    """Translate the options into those of the pytest plugin, without the output files.

    Raises UsageError for options that contradict each other.
    """
    check(vars(args))
    forwarded = []
    for option in SHARED:
        value = getattr(args, option.attribute, None)
        if option.name in TARGETS or value is None or value is False:
            continue
        if value is True:
            forwarded.append(option.pytest_flag)
        elif option.many:
            forwarded += [f"{option.pytest_flag}={each}" for each in value]
        else:
            text = shlex.join(value) if isinstance(value, list) else str(value)
            forwarded.append(f"{option.pytest_flag}={text}")
    return forwarded


def given_to(config: pytest.Config) -> dict[str, Any]:
    """The shared options of a session of pytest, by their attributes."""
    return {option.attribute: config.getoption(f"chaos_{option.attribute}") for option in SHARED}


def overrides(config: pytest.Config) -> dict[str, Any]:
    """Return the fields of a `Job` that options override."""
    return job_fields(given_to(config))
