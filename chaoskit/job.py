"""`Job`: how the user's unmodified training is launched, and how often it may be relaunched."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from chaoskit.errors import UsageError
from chaoskit.nodes import ClusterPlace, NodeLossPolicy, Nodes, count_nodes
from chaoskit.protocol import secret_words
from chaoskit.protocol.secret_words import Redaction
from chaoskit.schema import conform
from chaoskit.validation import (
    LONGEST,
    check_flag,
    check_instance,
    check_number,
    check_path,
    check_strings,
    check_text,
    check_variables,
    check_whole,
    shown,
)

OUT = "{out}"
#: Of `stops_with`: any exit code but 0.
NONZERO = "nonzero"
#: The newest checkpoint in `resume_args`, by a pattern of its name below `{out}`.
NEWEST = re.compile(r"\{newest:([^{}]+)\}")
#: Addresses of the node itself, whichever it is.
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MEETING_FLAGS = ("--rdzv-endpoint", "--master-addr")
_MEETING = ("PET_RDZV_ENDPOINT", "PET_MASTER_ADDR")
#: torchrun's flag, with its value behind a blank or '='.
_RESTARTS = re.compile(r"(?:^|\s)--max[-_]restarts[\s=]+(\d+)(?=\s|$)")
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


@dataclass(frozen=True)
class Job:
    """A training job: a script for torchrun, or (`Job.from_command`) a complete command.

    Each run replaces `{out}` in `args`, in the command and in the values of `env` by a fresh directory; a relaunch gets
    the same one. `module` starts `script` as `python -m` does. `max_restarts` is torchrun's. A relaunch starts
    `relaunch_command` instead of the command, if there is one, with another interpreter for example. Once a save has
    settled, it appends `resume_args`: `{out}` is filled in, and `{newest:step-*}` becomes the path of the newest
    checkpoint below `{out}` whose name matches the pattern.
    `relaunches` limits how often the whole command is started again after a failure, as a cluster's scheduler does.
    `timeout` is the deadline of one run in seconds (default: derived from the reference). `hang_after` is for how many
    seconds at least the job may do nothing before it counts as hung, as a watchdog of its own may need them (default:
    30, or 120 for a reference). The command starts in `cwd` (default: the current directory).

    `stops_with` is the exit code with which the job leaves when it was told to, so that its scheduler starts it again:
    a code, or `nonzero` (default), for any but 0. With 0, as a script needs that calls `scontrol requeue` itself, a job
    that exits with 0 after a notice is started again, too.

    `controls` is the number of uninterrupted runs made of a job whose first two differ. Their spread is what later runs
    are compared with.

    `nnodes` is torchrun's: the number of nodes, `2`, or a range, `"1:2"`. Each node has `nproc_per_node` ranks. This
    needs an environment with nodes (`netns`, `docker`, `slurm`), which gives torchrun their addresses. `rdzv_conf` is
    torchrun's too. `node_loss` is the policy of the scheduler for a node that is lost.

    `image` is the image of the nodes, where these are containers (`--env docker`): then the command, its programs and
    its files are those of the image. `mounts` are directories of this machine that the nodes see too, each
    `SRC:DST` or `SRC:DST:ro`; the command starts in the image's own directory or, where `cwd` lies in a mounted
    directory, there. With `pull` an image that is not there is fetched. `helper_image` is an image with Python and nft,
    in which a short-lived container changes the network of a node; root needs none. `cluster` is where the nodes are
    made, where these are pods (`--env kubernetes`). `partition` is that of a Slurm cluster (`--env slurm`).

    `record_every` is the n of `--record-every`: the ranks record losses, learning rates, batches and samples at every
    step, and the rest of their state at each n-th one, and after each start, load and save. Less is proven then (see
    docs/explanation/verdicts.md). The first control, what is run in a window, and what needs every step record all.

    `log_regex` finds the lines of the job's log that state a `step` and a `loss`, its two named groups. The log is the
    output of the job, or `log_file`, a path below `{out}`, if the job keeps one file there over all relaunches.

    `{secret:NAME}`, in a word or in a value of `env`, stands for the value of the variable NAME in the environment of
    chaoskit. What looks like a secret (see `chaoskit.protocol.secret_words`) is stored and shown in that form.

    Raises UsageError, naming the argument, for a job that cannot be launched.
    """

    script: str = ""
    args: Sequence[str] = ()
    nproc_per_node: int = field(default=2, kw_only=True)
    nnodes: int | str = field(default=1, kw_only=True)
    rdzv_conf: str = field(default="", kw_only=True)
    node_loss: NodeLossPolicy = field(default_factory=NodeLossPolicy, kw_only=True)
    max_restarts: int = field(default=0, kw_only=True)
    module: bool = field(default=False, kw_only=True)
    command: Sequence[str] = field(default=(), kw_only=True)
    resume_args: Sequence[str] = field(default=(), kw_only=True)
    relaunch_command: Sequence[str] = field(default=(), kw_only=True)
    relaunches: int = field(default=3, kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)
    hang_after: float | None = field(default=None, kw_only=True)
    env: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    cwd: str | None = field(default=None, kw_only=True)
    image: str = field(default="", kw_only=True)
    mounts: Sequence[str] = field(default=(), kw_only=True)
    pull: bool = field(default=False, kw_only=True)
    helper_image: str = field(default="", kw_only=True)
    cluster: ClusterPlace | None = field(default=None, kw_only=True)
    partition: str = field(default="", kw_only=True)
    stops_with: int | str = field(default=NONZERO, kw_only=True)
    controls: int = field(default=5, kw_only=True)
    record_every: int = field(default=1, kw_only=True)
    log_regex: str | None = field(default=None, kw_only=True)
    log_file: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._check_types()
        check_resume_args(self.resume_args)
        if bool(self.script) == bool(self.command):
            raise UsageError("Job: give a script, or command=[...] (one of the two)")
        count_nodes(self.nnodes)
        for mount in self.mounts:
            read_mount(mount)
        stop_code(self.stops_with)
        if self.log_regex is not None:
            log_pattern(self.log_regex)
        if self.log_file is not None:
            if self.log_regex is None:
                raise UsageError("Job: log_file needs log_regex, which finds the step and the loss in its lines")
            check_log_file(self.log_file)

    def _check_types(self) -> None:
        """Keep lists, paths and variables as such; raises UsageError for a field whose value is not of its type."""
        for name in ("args", "command", "resume_args", "relaunch_command", "mounts"):
            object.__setattr__(self, name, check_strings("Job", name, getattr(self, name)))
        for name in ("script", "cwd"):
            if getattr(self, name) is not None or name == "script":
                object.__setattr__(self, name, check_path("Job", name, getattr(self, name)))
        object.__setattr__(self, "env", check_variables("Job", "env", self.env))
        for name in ("rdzv_conf", "image", "helper_image", "partition"):
            check_text("Job", name, getattr(self, name))
        for name in ("log_regex", "log_file"):
            if (text := getattr(self, name)) is not None:
                check_text("Job", name, text)
        for name in ("module", "pull"):
            check_flag("Job", name, getattr(self, name))
        for name, least in (
            ("nproc_per_node", 1), ("max_restarts", 0), ("relaunches", 0), ("controls", 2), ("record_every", 1),
        ):  # fmt: skip
            check_whole("Job", name, getattr(self, name), least=least)
        for name in ("timeout", "hang_after"):
            if (seconds := getattr(self, name)) is not None:
                check_number("Job", name, seconds, over=0, most=LONGEST)
        check_instance("Job", "node_loss", self.node_loss, NodeLossPolicy, example="as NodeLossPolicy(lost='spare')")
        if self.cluster is not None:
            check_instance("Job", "cluster", self.cluster, ClusterPlace, example="from chaoskit.nodes")

    @classmethod
    def from_command(cls, command: Sequence[str], **options: Any) -> Job:
        """The job that a complete command starts, such as torchrun with other flags, or plain python."""
        return cls(command=command, **options)

    @property
    def directory(self) -> Path:
        """The directory in which the command starts."""
        return Path(self.cwd or os.getcwd()).absolute()

    @property
    def nodes(self) -> Nodes:
        """The number of its nodes, how they meet, and the policy for lost ones."""
        least, most = count_nodes(self.nnodes)
        return Nodes(least, most, self.rdzv_conf, self.node_loss)

    @property
    def agent_restarts(self) -> int:
        """How often torchrun's agents may start the ranks again by themselves, as far as the command tells."""
        variable = self.env.get("PET_MAX_RESTARTS", os.environ.get("PET_MAX_RESTARTS", ""))
        flag = _RESTARTS.search(" ".join(self.words()))
        # A flag wins over its variable.
        return int(flag[1]) if flag else int(variable) if variable.isdecimal() else 0

    @property
    def uses_out(self) -> bool:
        """Whether `{out}` occurs anywhere."""
        words = [*self.args, *self.command, *self.env.values()]
        return any(OUT in word for word in words)

    def words(
        self, *, out: Path | str = OUT, relaunch: bool = False, resume_words: Sequence[str] | None = None
    ) -> list[str]:
        """The command as a list of words, with `{out}` filled in; that of a `relaunch` ends with the `resume_words`
        (default: `resume_args`)."""
        if relaunch and self.relaunch_command:
            words = list(self.relaunch_command)
        elif self.command:
            words = list(self.command)
        else:
            words = ["python3" if self.image else sys.executable, "-m", "torch.distributed.run"]
            words += ["--nproc-per-node", str(self.nproc_per_node)]
            words += ["--max-restarts", str(self.max_restarts)]
            words += (["-m"] if self.module else []) + [self.script, *self.args]
        if relaunch:
            words += self.resume_args if resume_words is None else resume_words
        return [word.replace(OUT, str(out)) for word in words]

    def resume_words(self, out: Path | str, *, newest: Callable[[str], str]) -> list[str]:
        """The `resume_args` with `{out}` filled in, and `{newest:GLOB}` replaced by a path: what `newest` returns for
        the pattern, below `out`."""
        filled = [NEWEST.sub(lambda found: os.path.join(out, newest(found[1])), word) for word in self.resume_args]
        return [word.replace(OUT, str(out)) for word in filled]

    @property
    def text(self) -> str:
        """The command as one line, its secrets redacted: for whoever reads a report."""
        return shlex.join(secret_words.redact_words(self.words()))

    def with_secrets(self, values: Mapping[str, str]) -> Job:
        """The job with `{secret:NAME}` replaced by the value of NAME. Raises UsageError for a NAME without value."""
        given = {name: getattr(self, name) for name in ("args", "command", "resume_args", "relaunch_command", "env")}
        template = self.cluster.job_template if self.cluster is not None else {}
        names = secret_words.missing([*given.values(), template], values)
        if names:
            several = "variables" if len(names) > 1 else "variable"
            raise UsageError(
                f"the command of the job has {', '.join(f'{{secret:{name}}}' for name in names)} in the place of "
                f"secrets, which chaoskit does not store: give them in the environment {several} {', '.join(names)}"
            )
        changed = {name: filled for name, old in given.items() if (filled := secret_words.fill(old, values)) != old}
        if self.cluster is not None and (filled := secret_words.fill(template, values)) != template:
            changed["cluster"] = replace(self.cluster, job_template=filled)
        return replace(self, **changed) if changed else self

    def validate(self, *, files_here: bool = True) -> None:
        """Raises UsageError for a job that would only fail later: no such program or script, no `{out}`, no such
        mount. `files_here`: its programs and files are those of this machine."""
        words = self.words()
        if files_here:
            self._check_files(words)
        for source, target, _ in map(read_mount, self.mounts):
            if not (self.directory / source).exists():
                raise UsageError(
                    f"--mount {source}:{target}: there is no {self.directory / source} on this machine: check the path"
                )
        if self.nodes.most > 1 and (alone := self._loopback_setting(words, os.environ if files_here else {})):
            raise UsageError(
                f"the job binds to its own node only ({alone}), so that the ranks of {self.nodes} nodes cannot meet: "
                "leave it out; chaoskit gives torchrun the address of the others in PET_RDZV_ENDPOINT"
            )
        if not self.uses_out:
            raise UsageError(
                "the command has no {out}: write {out} where the job takes its checkpoint directory "
                "(or start it with 'env NAME={out} ...' if that comes from a variable), so that each run "
                "gets a fresh directory and a relaunch finds its own checkpoints"
            )

    def _check_files(self, words: Sequence[str]) -> None:
        containers = {
            "--image": self.image, "--mount": self.mounts, "--pull": self.pull, "--helper-image": self.helper_image,
        }  # fmt: skip
        if (option := next((name for name, given in containers.items() if given), None)) is not None:
            raise UsageError(f"{option} is for nodes that are containers: add --env docker, or leave {option} out")
        if not self.directory.is_dir():
            raise UsageError(f"Job: there is no directory {self.directory} to start in")
        self._check_program(words)
        if self.relaunch_command:
            self._check_program(self.words(relaunch=True))

    def _check_program(self, words: Sequence[str]) -> None:
        """Raises UsageError for a program or a script that does not exist."""
        path = self.env.get("PATH", os.environ.get("PATH", os.defpath))
        if shutil.which(words[0], path=path) is None and not (self.directory / words[0]).is_file():
            raise UsageError(f"there is no program {words[0]!r} on the PATH: is its environment active?")
        script = next((word for word in words[1:] if word.endswith(".py")), None)
        if script is not None and not (self.directory / script).is_file():
            raise UsageError(f"there is no script {script!r} in {self.directory}: check the path")

    def _loopback_setting(self, words: Sequence[str], variables: Mapping[str, str]) -> str | None:
        """The flag or variable that makes each node meet itself alone, or None. `variables` are those that
        the nodes have, without the job's own."""
        for word, following in zip(words, (*words[1:], ""), strict=True):
            flag, _, value = word.partition("=")
            flag, value = flag.replace("_", "-"), value or following
            if flag == "--standalone":
                return flag
            if flag in _MEETING_FLAGS and _is_loopback(value):
                return f"{flag} {value}"
        for name, value in {**variables, **self.env}.items():
            if (name in _MEETING and _is_loopback(value)) or (name in _INTERFACES and value == "lo"):
                return f"{name}={value}"
        return None

    def to_json(self) -> dict[str, Any]:
        """The form that `run.json` keeps: without secrets, each of which became `{secret:NAME}`."""
        return self._redacted()[0]

    @property
    def secrets(self) -> dict[str, str]:
        """The values that `to_json` leaves out, by the NAME that stands for each."""
        return self._redacted()[1].values

    def _redacted(self) -> tuple[dict[str, Any], Redaction]:
        found, redaction = self._content(), Redaction()
        # Variables first: their names are those that a secret should have.
        found["env"] = redaction.variables(self.env)
        for name in ("args", "command", "resume_args", "relaunch_command"):
            found[name] = redaction.words(found[name])
        if "cluster" in found:
            found["cluster"] = {**found["cluster"], "job_template": redaction.tree(found["cluster"]["job_template"])}
        return found, redaction

    def _content(self) -> dict[str, Any]:
        return {
            "script": self.script,
            "args": list(self.args),
            "nproc_per_node": self.nproc_per_node,
            "nnodes": self.nnodes,
            "rdzv_conf": self.rdzv_conf,
            "node_loss": self.node_loss.to_json(),
            "max_restarts": self.max_restarts,
            "module": self.module,
            "command": list(self.command),
            "resume_args": list(self.resume_args),
            "relaunch_command": list(self.relaunch_command),
            "relaunches": self.relaunches,
            "timeout": self.timeout,
            "hang_after": self.hang_after,
            "env": dict(self.env),
            "cwd": str(self.directory),
            "image": self.image,
            "mounts": list(self.mounts),
            "pull": self.pull,
            "helper_image": self.helper_image,
            **({"cluster": self.cluster.to_json()} if self.cluster is not None else {}),
            **({"partition": self.partition} if self.partition else {}),
            **({"stops_with": self.stops_with} if self.stops_with != NONZERO else {}),
            "controls": self.controls,
            **({"record_every": self.record_every} if self.record_every != 1 else {}),
            "log_regex": self.log_regex,
            "log_file": self.log_file,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Job:
        """The inverse of `to_json`. Older runs call `node_loss` the supervisor. Raises ValueError or UsageError, which
        names the field, for anything else: without a field of a later version it would be another job."""
        options = {"node_loss": data.get("supervisor", {}), **data}
        options.pop("supervisor", None)
        if unknown := options.keys() - cls.__dataclass_fields__.keys():
            raise UsageError(f"Job: there is no option {min(unknown)!r}")
        return conform(cls, options)

    def digest(self) -> str:
        """Identifies what an uninterrupted run of the job does, as far as the job itself determines it."""
        content = self._content()
        for name in (
            "resume_args", "relaunch_command", "relaunches", "timeout", "hang_after", "max_restarts", "controls",
            "node_loss", "pull", "helper_image", "cluster", "stops_with",
        ):  # fmt: skip
            content.pop(name, None)
        content["words"] = self.words()[0:1]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def read_mount(text: str) -> tuple[str, str, bool]:
    """The source, the target and whether it is read-only, of `SRC:DST` or `SRC:DST:ro`. Raises UsageError."""
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not source or not target.startswith("/") or mode not in ("", "ro", "rw"):
        raise UsageError(
            f"--mount {text!r} is not SRC:DST: write a path of this machine, a colon, and an absolute path in the "
            "container"
        )
    return source, target, mode == "ro"


def stop_code(given: object) -> int | None:
    """The exit code that a `stops_with` names, None for any but 0. Raises UsageError."""
    if isinstance(given, str) and given == NONZERO:
        return None
    code = int(given) if isinstance(given, str) and given.isdecimal() and len(given) < 4 else given
    if type(code) is not int or not 0 <= code <= 255:
        raise UsageError(f"Job: stops_with must be {NONZERO!r} or an exit code from 0 to 255, not {shown(given)}")
    return code


def check_resume_args(words: Sequence[str]) -> None:
    """Raises UsageError for words that name the newest checkpoint by no pattern below `{out}`."""
    for word in words:
        patterns = NEWEST.findall(word)
        if word.count("{newest") != len(patterns) or any(_leads_out(pattern) for pattern in patterns):
            raise UsageError(f"Job: resume_args: {word!r} must name a pattern below {OUT}, such as {{newest:step-*}}")


def check_log_file(path: str) -> None:
    """Raises UsageError for a path of the job's log that is not below `{out}`."""
    if _leads_out(path) or OUT in path:
        raise UsageError(f"Job: log_file must be a path below {OUT}, such as 'train.log', not {path!r}")


def _leads_out(text: str) -> bool:
    """Whether a path does not lead to something below the directory that it is relative to."""
    path = PurePath(text)
    return path.is_absolute() or ".." in path.parts or not path.parts


def _is_loopback(address: str) -> bool:
    """Whether an address, with or without a port, is the reader's own node."""
    return any(host.strip("[]") in LOOPBACK for host in (address, address.rpartition(":")[0]))


def log_pattern(regex: str) -> re.Pattern[str]:
    """Compile the regular expression that finds log lines.

    Raises UsageError for an invalid one, or one that lacks one of the named groups `step` and `loss`.
    """
    try:
        pattern = re.compile(regex)
    except re.error as error:
        raise UsageError(f"log_regex {regex!r} is not a regular expression: {error}") from error
    missing = [f"(?P<{name}>...)" for name in ("step", "loss") if name not in pattern.groupindex]
    if missing:
        raise UsageError(f"log_regex {regex!r} lacks the named group {' and '.join(missing)}")
    return pattern
