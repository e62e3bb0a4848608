"""Decides how a job is launched: as was wished, and with `auto` warm once a warm control has agreed with a cold one.

The first control is cold and teaches what the ranks import; the second is warm. If the two agree to the bit, launching
warm was shown to change nothing; if they do not, a third, cold again, tells whether the job or the launch is to blame.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from chaoskit.environments import environment as environment_named
from chaoskit.errors import CannotWarm
from chaoskit.events import rank_events
from chaoskit.history import History
from chaoskit.job import Job
from chaoskit.launch.mode import Mode
from chaoskit.launch.warm import program_of
from chaoskit.reference import Reference

#: What is said before it is known which job.
WISHED = {
    "auto": "warm where a warm control agrees with a cold one, else cold (--chaos-launch)",
    "cold": "cold",
    "warm": "warm",
}


def planned(job: Job, *, environment: str, wish: str) -> Mode:
    """What can be said before anything has run; raises CannotWarm where warm is demanded and cannot be."""
    if wish == "cold":
        return Mode()
    env = {**os.environ, **job.env}
    try:
        if not getattr(environment_named(environment), "launches_warm", False):
            raise CannotWarm(f"environment {environment!r} starts every process afresh")
        _, program = program_of(job.words(), env=env, cwd=job.directory)
    except CannotWarm as error:
        if wish == "warm":
            raise CannotWarm(f"cannot launch warm: {error}; --launch auto or cold launches it") from error
        return Mode(reason=str(error))
    # torchrun gives several ranks one thread each, unless told otherwise. The ranks will tell.
    threads = env.get("OMP_NUM_THREADS", "1" if program.is_launcher else None)
    return Mode(warm=True, threads=threads, demanded=wish == "warm")


def learned(mode: Mode, control: Path) -> Mode:
    """The same, with what the ranks of a cold control imported, captured, and were given of threads."""
    told = list(rank_events(control, "modules"))
    names = dict.fromkeys(name for event in told for name in event["names"])
    captures = dict.fromkeys((str(m), str(n), int(at)) for event in told for m, n, at in event["captures"])
    threads = told[0]["threads"] if told else mode.threads
    return replace(mode, modules=tuple(names), captures=tuple(captures), threads=threads)


def seen(mode: Mode, control: Path) -> Mode:
    """The same, or a cold one with the reason, if a control that should have been warm was not."""
    how = History.read(control).launches[0].how
    if how.startswith("cold"):
        return Mode(reason=how.removeprefix("cold: "))
    afresh = [event for event in rank_events(control, "process.start") if not event.get("forked")]
    if afresh and not mode.demanded:
        return Mode(reason="its launcher starts the ranks itself, or in other surroundings than its own")
    return mode


def differed(reference: Reference) -> str:
    """The reason for launching cold where a warm control differs from the cold ones, which agree."""
    parting = reference.parting
    assert parting is not None
    where = f"step {parting.step}, rank {parting.rank}, in {', '.join(parting.components)}"
    return f"its first warm launch parted from the cold ones at {where}"


def describe(job: Job, *, environment: str, wish: str) -> str:
    """How the job will be launched, for the head of a report; raises CannotWarm like `planned`."""
    mode = planned(job, environment=environment, wish=wish)
    if mode.warm and not mode.demanded:
        return "launching warm, after one cold launch that shows what to import (--launch cold: all afresh)"
    return f"launching {mode}"
