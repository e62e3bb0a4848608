"""`submission`: the sbatch command of a launch: the team's own, or one for an allocation around a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chaoskit.environments.slurm.queued_job import QueuedJob
from chaoskit.environments.slurm.run_mark import RunMark
from chaoskit.errors import UsageError
from chaoskit.nodes import Nodes

#: Options of sbatch that the environment gives itself, and options that it cannot do with. Each may have a value.
_OURS = {
    "--comment": "chaoskit writes the comment, by which it knows its jobs",
    "--export": "chaoskit gives the job all variables",
    "--parsable": "chaoskit gives it itself",
    "--output": "chaoskit keeps the output in the directory of the run",
    "--error": "chaoskit keeps the output in the directory of the run",
    "--open-mode": "chaoskit keeps the output in the directory of the run",
    "--test-only": "nothing would run",
    "--wait": "chaoskit waits for the job itself",
    "--array": "an array is many jobs, and chaoskit judges one; submit a script without it",
    "--hold": "the job would never start",
    "--cluster": "chaoskit asks one cluster alone",
}
_SHORT = {"-o": "--output", "-e": "--error", "-a": "--array", "-W": "--wait", "-H": "--hold", "-M": "--cluster"}
#: Those that the options of a command line do not replace where they stand in the script.
_IN_SCRIPTS = ("--array", "--wait", "--hold", "--test-only", "--cluster")
#: The variables by which torchrun finds the rendezvous; the first node of the allocation hosts it.
_HOST = "PET_RDZV_ENDPOINT"
_SCRIPT = """\
#!/bin/sh
# The batch script of chaoskit: runs a command in the allocation, whose first node, this one, hosts the rendezvous, at
# a port of the job's own: another job may run on this node.
export {host}="${{{host}:-$SLURMD_NODENAME:$((20000 + SLURM_JOB_ID % 10000))}}"
exec "$@"
"""


def is_batch(command: Sequence[str]) -> bool:
    """Whether a command submits a batch script of the team's own."""
    return Path(command[0]).name == "sbatch"


def must_suit(command: Sequence[str], cwd: Path) -> None:
    """Raises UsageError for a batch command with options that the environment needs for itself."""
    if not is_batch(command):
        return
    for word in command[1:]:
        if (why := _refused(word, tuple(_OURS))) is not None:
            raise UsageError(f"{word}: leave it out of the sbatch command: {why}")
    for path in (cwd / word for word in command[1:]):
        for option in script_options(path):
            if option[0] == "-" and (why := _refused(option, _IN_SCRIPTS)) is not None:
                raise UsageError(f"{path.name}: '#SBATCH {option}' cannot be used here: {why}")


def submission(
    command: Sequence[str],
    *,
    mark: RunMark,
    log: Path,
    partition: str,
    nodes: Nodes,
    script: Path,
    avoided: Sequence[str] = (),
) -> list[str]:
    """The words that submit a launch. Of a command that is not sbatch, the file `script` is made, which runs it in an
    allocation of as many nodes as the job has: once on each, unless it begins with srun. The nodes `avoided` do not
    get the job."""
    own = [
        "--parsable", f"--comment={mark}", "--export=ALL", f"--output={log}", f"--error={log}", "--open-mode=append",
        *([f"--partition={partition}"] if partition else []),
        *([f"--exclude={','.join(avoided)}"] if avoided else []),
    ]  # fmt: skip
    if is_batch(command):
        return [command[0], *own, *command[1:]]
    script.write_text(_SCRIPT.format(host=_HOST))
    each = [] if Path(command[0]).name == "srun" else ["srun", "--ntasks-per-node=1", "--kill-on-bad-exit=1"]
    size = [f"--nodes={nodes.most}", "--ntasks-per-node=1"]
    return ["sbatch", *own, *size, "--job-name=chaoskit", str(script), *each, *command]


def outranking(job: QueuedJob, *, mark: RunMark, partition: str, qos: str = "") -> list[str]:
    """The words that submit a job which wants the very nodes of another one, and does nothing there."""
    return [
        "sbatch", "--parsable", f"--comment={mark}", f"--partition={partition}", *([f"--qos={qos}"] if qos else []),
        f"--nodes={job.nodes}", f"--nodelist={job.node_list}", "--exclusive", "--no-requeue", "--output=/dev/null",
        "--chdir=/", "--job-name=chaoskit-preempts", "--wrap=sleep 3600",
    ]  # fmt: skip


def rendezvous(nodes: Nodes, run_id: str) -> Mapping[str, str]:
    """The variables of torchrun in an allocation of chaoskit's with several nodes."""
    if nodes.most == 1:
        return {}
    conf = {"PET_RDZV_CONF": nodes.rdzv_conf} if nodes.rdzv_conf else {}
    return {"PET_NNODES": str(nodes), "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ID": run_id, **conf}


def outside(env: Mapping[str, str]) -> dict[str, str]:
    """The variables without those of an allocation around the harness: srun would take them for options."""
    within = "SLURM_JOB_ID" in env
    return {
        name: value
        for name, value in env.items()
        if not within or name == "SLURM_CONF" or not name.startswith(("SLURM_", "SLURMD_"))
    }


def _refused(word: str, options: Sequence[str]) -> str | None:
    """Why an option cannot be used; None if it can. Long options may be cut short."""
    name = word.partition("=")[0]
    if name.startswith("--"):
        found = [option for option in options if len(name) > 4 and option.startswith(name)]
        return _OURS[found[0]] if found else None
    full = _SHORT.get(name[:2]) if name.startswith("-") else None
    return _OURS[full] if full in options and full is not None else None


def script_options(path: Path) -> list[str]:
    """The options in the #SBATCH lines of a script, with their values; none if it cannot be read as one."""
    try:
        lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    except OSError:
        return []
    if not lines or not lines[0].startswith("#!"):
        return []
    return [word for line in lines if line.startswith("#SBATCH") for word in line.split()[1:]]
