"""The survey: one launch keeps the states, all others try corruptions out, until the time is up."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from chaoskit import places
from chaoskit.errors import Undecided, UsageError
from chaoskit.job import Job
from chaoskit.places import Place
from chaoskit.reference import Reference
from chaoskit.runner import Runner
from chaoskit.sdc.map import SdcMap
from chaoskit.sdc.plan import Plan
from chaoskit.sdc.sample import Sample
from chaoskit.sdc.slot import Slot, Subject
from chaoskit.sdc.windows import Window, windows

#: So many trials, and it is said how far it is.
SAY_EVERY = 10


def usual_places(reference: Reference) -> tuple[Place, ...]:
    """Where corruptions are put where nobody says."""
    found = [places.parameter(), places.gradient(), places.optimizer(), places.activation("*")]
    if reference.world_size > 1:
        found.append(places.gradient(reduced=True))
        # Which of these the job makes shows soon enough.
        found += [places.collective(op) for op in ("all_reduce", "reduce_scatter", "all_gather")]
    return tuple(found)


def make_map(
    runner: Runner,
    job: Job,
    *,
    seconds: float,
    window: int,
    tolerance: float,
    most: int | None = None,
    into: Sequence[Place] = (),
    seed: int = 0,
    workers: int = 1,
) -> SdcMap:
    """Try corruptions of the job's numbers out for so many seconds, or `most` of them.

    Each is watched for `window` steps after the one that it strikes in; a loss that is off by `tolerance` (relative) is
    not changed by it. `into` are the places (none: the usual ones), `workers` how many launches go on side by side.

    Raises UsageError for a job too short for a window, and for a place that it does not have; Undecided where nothing
    could be told: the job is not deterministic, or the time was too short; and what `Runner.reference` raises.
    """
    begun = time.monotonic()
    reference = runner.reference(job)
    if not reference.deterministic:
        raise Undecided(
            "two uninterrupted runs differ, so nobody can tell what a corruption changes", code="not-deterministic"
        )
    found = windows(reference.steps, window)
    run_dir = runner.store.new_run(job=job.to_json(), experiment="sdc-map", reference=reference.digest)
    subject = Subject(job, reference, runner.store, run_dir)
    sample = Sample(tuple(into) or usual_places(reference), found, reference.world_size, seed)
    plan = Plan(sample, reference, most=most, tolerance=tolerance)
    status = "interrupted"
    try:
        _measure(subject, plan, found, runner, until=begun + seconds, workers=workers)
        status = "finished"
    finally:
        shutil.rmtree(run_dir / "slots", ignore_errors=True)
        runner.store.finish(run_dir, status)
    _must_have_told(plan, into, seconds)
    made = SdcMap.of(plan, subject, sample, tolerance=tolerance, seconds=time.monotonic() - begun)
    (run_dir / "map.json").write_text(json.dumps(made.to_json(), indent=2) + "\n")
    return made


def _measure(
    subject: Subject, plan: Plan, found: Sequence[Window], runner: Runner, *, until: float, workers: int
) -> None:
    """Keep the states, then try out, `workers` launches at a time."""
    over = threading.Event()
    troubles: list[BaseException] = []

    def work(slot: Slot) -> None:
        try:
            while not over.is_set() and not plan.over:
                if not (trials := plan.take()):
                    over.wait(0.05)  # what others are at may come back
                    continue
                done = slot.try_out(trials)
                plan.put(trials, done)
        except BaseException as error:
            troubles.append(error)
            over.set()

    with ExitStack() as stack:
        slots = [stack.enter_context(Slot(number, subject, over)) for number in range(workers)]
        runner.progress.phase("keeping the states of an undisturbed launch")
        _keep(slots[0], subject, found, plan)
        threads = [threading.Thread(target=work, args=(slot,)) for slot in slots]
        for thread in threads:
            thread.start()
        try:
            said = -1
            while alive := [thread for thread in threads if thread.is_alive()]:
                if time.monotonic() > until:
                    over.set()
                count = len(plan.results)
                if count // SAY_EVERY != said:
                    said = count // SAY_EVERY
                    left = max(0, round(until - time.monotonic()))
                    runner.progress.phase(f"{count} corruptions tried out, {left} s left")
                alive[0].join(0.2)
        finally:
            over.set()
            for thread in threads:
                thread.join()
    if troubles:
        raise troubles[0]


def _keep(slot: Slot, subject: Subject, found: Sequence[Window], plan: Plan) -> None:
    trace = slot.keep(found)
    if not trace.exact(Window(1, found[-1].opens), subject.reference):
        raise Undecided(
            "an undisturbed launch was not that of the uninterrupted runs: does the job keep something outside {out}?",
            code="not-deterministic",
        )
    ranks = range(subject.reference.world_size)
    # The first window of a launch needs none.
    if not all(Path(subject.snapshot(window, rank)).exists() for window in found[1:] for rank in ranks):
        plan.part("the job keeps something in its training state that cannot be copied")


def _must_have_told(plan: Plan, into: Sequence[Place], seconds: float) -> None:
    """Raises where nothing was learned, saying why."""
    for place in into:
        if (why := plan.closed.get(str(place))) is not None:
            raise UsageError(f"--into {place}: {why}")
    if plan.results:
        return
    refused = [why for _, why in plan.refused.values()]
    if refused:
        raise Undecided(f"no corruption changed anything: {refused[0]}", code="fault-not-observed")
    raise Undecided(f"{seconds:g} s were too short to try out a single corruption: give more", code="probe-blind")
