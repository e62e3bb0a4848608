"""Which parts of its environment a process reads while it starts and imports, and which it reads later.

A fork cannot read again what its parent read: the parent must have been started in the same environment. Everything
named here may differ between a parent and the processes that are forked from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
from collections.abc import Mapping
from pathlib import Path

#: Environment variables that no training depends on and that change from call to call, by their beginnings. All
#: others count.
IDLE = (
    "BUILD_", "CHAOSKIT_", "CI_", "COLUMNS", "DBUS_", "GITHUB_", "GPG_", "HIST", "JENKINS_", "LC_", "LESS", "LINES",
    "LS_COLORS", "MAIL", "MAKE", "MFLAGS", "OLDPWD", "PAGER", "PROMPT", "PS1", "PWD", "PYTEST_", "RUNNER_", "SHLVL",
    "SSH_", "SUDO_", "TERM", "TMUX", "VSCODE_", "WINDOW", "XDG_", "_",
)  # fmt: skip
#: What torchrun and accelerate add for a rank, and whatever else is read when it is used, not when something is
#: imported.
LATE = (
    "ACCELERATE_", "CUDA_VISIBLE_DEVICES", "GLOO_", "GROUP_RANK", "GROUP_WORLD_SIZE", "HOSTNAME", "LOCAL_RANK",
    "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NCCL_", "PET_", "RANK", "ROLE_", "TMPDIR", "TORCHELASTIC_",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "TORCH_NCCL_", "WORLD_SIZE",
)  # fmt: skip
#: Belong to IDLE for a reference, but decide how text is read and written, and where packages keep their files.
_EARLY = ("LC_ALL", "LC_CTYPE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
#: Where the probe's sitecustomize lies, which the parent must not run.
PROBE_SITE = str(Path(__file__).resolve().parents[2] / "probe" / "site")


def early(env: Mapping[str, str], cwd: str) -> dict[str, str]:
    """The part of a job's environment that its parent must be started with: paths made absolute, without the
    probe's.
    """
    kept = {name: value for name, value in env.items() if name in _EARLY or not name.startswith((*IDLE, *LATE))}
    kept.pop("PYTHONPATH", None)
    if path := python_path(env, cwd):
        kept["PYTHONPATH"] = os.pathsep.join(path)
    return kept


def python_path(env: Mapping[str, str], cwd: str) -> list[str]:
    """The entries of PYTHONPATH as an interpreter takes them, an empty one for the directory, without the probe's."""
    path = env["PYTHONPATH"].split(os.pathsep) if env.get("PYTHONPATH") else []
    here = os.path.realpath(cwd)
    whole = [os.path.join(here, entry) if entry else here for entry in path]
    return [entry for entry in whole if os.path.realpath(entry) != PROBE_SITE]


def differences(env: Mapping[str, str], other: Mapping[str, str], cwd: str) -> list[str]:
    """The names of variables for which `early` differs between the two environments."""
    one, two = early(env, cwd), early(other, cwd)
    return sorted(name for name in {*one, *two} if one.get(name) != two.get(name))


def limits() -> list[object]:
    """What a process hands on to its children beside the environment: limits, mask, cores, priority."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        umask = next((line.split()[1] for line in status if line.startswith("Umask")), "")
    names = sorted(name for name in vars(resource) if name.startswith("RLIMIT_"))
    return [
        umask,
        sorted(os.sched_getaffinity(0)),
        os.getpriority(os.PRIO_PROCESS, 0),
        [resource.getrlimit(getattr(resource, name)) for name in names],
        [os.getresuid(), os.getresgid(), sorted(os.getgroups())],
        [Path(f"/proc/self/{name}").read_text() for name in ("cgroup", "oom_score_adj")],
        [os.stat(f"/proc/self/ns/{name}").st_ino for name in sorted(os.listdir("/proc/self/ns"))],
    ]


def digest(*parts: object) -> str:
    """A short name for surroundings: equal parts, equal name."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
