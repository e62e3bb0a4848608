"""The options that the command line and the pytest plugin share: `--timeout` here, `--chaos-timeout` there."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.errors import UsageError

if TYPE_CHECKING:
    import pytest

    from chaoskit.nodes import ClusterPlace


def count(text: str) -> int:
    """Parse a nonnegative integer."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative: give 0 or more")
    return value


def seconds(text: str) -> float:
    """Parse a positive number of seconds."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return value


def words(text: str) -> list[str]:
    """Split arguments as a shell does."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} cannot be split into arguments ({error}): check the quotes"
        ) from error


def _passed(check: Callable[[str], object], text: str) -> str:
    """Return the text if `check` accepts it; turns its UsageError into an error of argparse."""
    try:
        check(text)
    except UsageError as error:
        # The option is named already: by argparse, or with the line of the file.
        argument, _, told = str(error).partition(": ")
        raise argparse.ArgumentTypeError(told if argument.isidentifier() and told else str(error)) from error
    return text


def log_regex(text: str) -> str:
    """Validate a regular expression for log lines: it needs the named groups `step` and `loss`."""
    from chaoskit.job import log_pattern

    return _passed(log_pattern, text)


def duration(text: str) -> str:
    """Validate a time such as 30m."""
    from chaoskit.validation import check_duration

    return _passed(lambda given: check_duration("", "the time", given), text)


def launch(text: str) -> str:
    """Validate a launch mode."""
    from chaoskit.environments.launch.mode import wish

    return _passed(wish, text)


def mount(text: str) -> str:
    """Validate a mount."""
    from chaoskit.job import read_mount

    return _passed(read_mount, text)


def path(text: str) -> str:
    """The absolute path of a file."""
    return str(Path(text).absolute())


def volume(text: str) -> str:
    """Validate a volume claim and its path."""
    from chaoskit.nodes import read_volume

    return _passed(read_volume, text)


def nodes(text: str) -> str:
    """Validate a number of nodes, or a range."""
    from chaoskit.nodes import count_nodes

    return _passed(count_nodes, text)


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
        "kubernetes)",
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
    Option("dir", "directory for stored runs (default: .chaoskit in the project)", "DIR", str),
    Option(
        "launch",
        "how processes start: 'cold' starts new interpreters, 'warm' forks a process that has imported torch "
        "(default: auto, which uses warm if a test shows that the job computes the same)",
        "MODE",
        launch,
    ),
    Option("every", "also kill a worker each time that this time has passed, as long as --during says: 30m", "TIME",
           duration),
    Option("during", "for how long --every kills workers, at most until the job ends: 6h", "TIME", duration),
    Option("seed", "number that draws the workers that --every kills (default: 0)", "N", count),
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
        words,
    ),
    Option("controls", "number of uninterrupted runs of a job that is not deterministic (default: 5)", "N", count),
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
        str,
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
        for name in ("relaunches", "timeout", "hang_after", "resume_args", "controls", "log_regex", "log_file")
    },
    "nnodes": "nodes",
    "image": "image",
    "mounts": "mount",
    "helper_image": "helper_image",
}


#: The options that say where in a cluster a job runs.
CLUSTER = ("namespace", "volume", "context", "kubeconfig", "i_mean", "address")


def cluster_of(given: Mapping[str, Any], pods: Mapping[str, Any]) -> ClusterPlace | None:
    """The place in a cluster that these options name, by their attributes, None if they name none; `pods` are the
    settings of its pods. Raises UsageError for half a place, and for a job template that cannot be run."""
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
    """The job template that the options or else the settings of the pods name; none for another environment."""
    file, environment = given.get("job_template"), environment_of(given.get("env"))
    if file and environment != "kubernetes":
        raise UsageError(f"--job-template is for --env kubernetes, not for {environment!r}: leave it out")
    file = file or pods.get("job_template")
    if not file or environment != "kubernetes":
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


def environment_of(given: str | None) -> str:
    """Return the name of the environment to run in."""
    from chaoskit.environments import DEFAULT_ENVIRONMENT

    return given or DEFAULT_ENVIRONMENT


def root_of(args: argparse.Namespace) -> Path:
    """Return the directory of the stored runs."""
    from chaoskit.engine.run_store import NAME

    return Path(getattr(args, "dir", None) or NAME).absolute()


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


def forward(args: argparse.Namespace) -> list[str]:
    """Translate the options into those of the pytest plugin, without the output files.

    Raises UsageError for options that contradict each other.
    """
    if args.log_file is not None and args.log_regex is None:
        raise UsageError("--log-file needs --log-regex: add the pattern of the file's lines")
    if bool(getattr(args, "every", None)) != bool(getattr(args, "during", None)):
        raise UsageError("--every and --during belong together: --every 30m --during 6h")
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
            text = shlex.join(value) if option.convert is words else str(value)
            forwarded.append(f"{option.pytest_flag}={text}")
    return forwarded


def overrides(config: pytest.Config) -> dict[str, Any]:
    """Return the fields of a `Job` that options override."""
    given = {field: config.getoption(f"chaos_{name}") for field, name in JOB_FIELDS.items()}
    more = {"pull": True} if config.getoption("chaos_pull") else {}
    return {field: value for field, value in given.items() if value is not None} | more
