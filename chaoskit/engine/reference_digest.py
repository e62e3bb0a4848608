"""`digest`: names the reference of a job by everything that its uninterrupted run rests on, as far as that is known
before it runs. The files that the ranks read are compared later (`reference_store.load`)."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
from typing import Any

from chaoskit import environments
from chaoskit.environments import DEFAULT_ENVIRONMENT
from chaoskit.environments.launch.rank_modules import rank_modules
from chaoskit.environments.launch.surroundings import IDLE
from chaoskit.job import Job
from chaoskit.probe.sources import identify


def digest(job: Job, *, launch: str = "auto", environment: str = DEFAULT_ENVIRONMENT) -> str:
    """The name of the job's reference, in an environment on this machine, with the launch that was asked for."""
    kind = environments.environment(environment)
    traits = {
        "job": job.digest(),
        "launch": launch,
        **(_of_this_machine(job) if kind.traits.files_here else {}),
        "rests on": kind.rests_on(job),
        "chaoskit": [identify(str(path)) for path in rank_modules()],
        "machine": [platform.machine(), platform.release(), len(os.sched_getaffinity(0)), _processor()],
        "where": environment,
    }
    return hashlib.sha256(json.dumps(traits, sort_keys=True).encode()).hexdigest()[:16]


def _of_this_machine(job: Job) -> dict[str, Any]:
    """What the job gets from this machine: its program, the Python, the environment variables."""
    path = job.env.get("PATH", os.environ.get("PATH", os.defpath))
    program = shutil.which(job.words()[0], path=path) or job.words()[0]
    variables = {**os.environ, **job.env}
    return {
        "program": [os.path.realpath(program), identify(os.path.realpath(program))],
        "python": sys.version,
        "environment": {name: variables[name] for name in sorted(variables) if not name.startswith(IDLE)},
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as info:
            return next((line.strip() for line in info if line.startswith("model name")), "")
    except OSError:
        return ""
