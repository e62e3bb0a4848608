"""How a job is launched: as the user asked, and with `auto` warm if a warm control equals a cold one.

`ReferenceMaker` runs the controls and describes how the decision is made; here is what each of them shows.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.reference import Reference
from chaoskit.environments import environment as environment_named
from chaoskit.environments.launch.mode import Mode
from chaoskit.environments.launch.warm import program_of
from chaoskit.errors import CannotWarm
from chaoskit.job import Job
from chaoskit.protocol.events import rank_events

#: The sentence for the head of a report, before the job is known.
WISHED = {
    "auto": "warm where a warm control agrees with a cold one, else cold (--chaos-launch)",
    "cold": "cold",
    "warm": "warm",
}


def planned(job: Job, *, environment: str, wish: str) -> Mode:
    """The mode as far as it is known before anything has run; raises CannotWarm where a demanded one is impossible."""
    if wish == "cold":
        return Mode()
    env = {**os.environ, **job.env}
    traits = environment_named(environment).traits
    try:
        if not traits.launches_warm:
            raise CannotWarm(f"environment {environment!r} starts every process afresh")
        if not traits.files_here:
            # The programs are elsewhere: the first launch tells what they are.
            return Mode(warm=True, threads=job.env.get("OMP_NUM_THREADS", "1"), demanded=wish == "warm")
        _, program = program_of(job.words(), env=env, cwd=job.directory)
    except CannotWarm as error:
        if wish == "warm":
            raise CannotWarm(f"cannot launch warm: {error}; --launch auto or cold launches it") from error
        return Mode(reason=str(error))
    # torchrun gives several ranks one thread each by default. The first control shows what they really have.
    threads = env.get("OMP_NUM_THREADS", "1" if program.is_launcher else None)
    return Mode(warm=True, threads=threads, demanded=wish == "warm")


def learned(mode: Mode, control: Path) -> Mode:
    """The mode with what the ranks of a cold control recorded: imported modules, captures, number of threads."""
    events = list(rank_events(control, "modules"))
    names = dict.fromkeys(name for event in events for name in event["names"])
    captures = dict.fromkeys((str(m), str(n), int(at)) for event in events for m, n, at in event["captures"])
    threads = events[0]["threads"] if events else mode.threads
    return replace(mode, modules=tuple(names), captures=tuple(captures), threads=threads)


def as_launched(mode: Mode, control: Path) -> Mode:
    """The mode, or a cold one with the reason, if a control that was to be warm was not."""
    how = History.read(control).launches[0].how
    if how.startswith("cold"):
        return Mode(reason=how.removeprefix("cold: "))
    afresh = [event for event in rank_events(control, "process.start") if not event.get("forked")]
    if afresh and not mode.demanded:
        return Mode(reason="its launcher starts the ranks itself, or with another environment than its own")
    return mode


def why_not_warm(reference: Reference) -> str:
    """The reason for launching cold: the cold controls are equal, the warm one differs from them."""
    first = reference.divergence
    assert first is not None
    where = f"step {first.step}, rank {first.rank}, in {', '.join(first.components)}"
    return f"its first warm launch differs from the cold ones from {where} on"


def describe(job: Job, *, environment: str, wish: str) -> str:
    """How the job will be launched, in one line for the head of a report; raises CannotWarm like `planned`."""
    mode = planned(job, environment=environment, wish=wish)
    if mode.warm and not mode.demanded:
        return "launching warm, after one cold launch that shows what to import (--launch cold: all afresh)"
    return f"launching {mode}"
