"""`make_map`: one launch stores the states, all others test corruptions, until the time is up."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from chaoskit import environments
from chaoskit.analysis.reference.reference import Reference
from chaoskit.capabilities import CanCorruptNumbers, CanOrder
from chaoskit.engine import reference_store
from chaoskit.engine.runner import Runner
from chaoskit.errors import Undecided, UsageError
from chaoskit.files.removal import remove
from chaoskit.job import Job
from chaoskit.protocol import targets
from chaoskit.protocol.targets import InjectionTarget
from chaoskit.studies.sdc.map import SdcMap
from chaoskit.studies.sdc.plan import InjectionPlan
from chaoskit.studies.sdc.sample import Sample
from chaoskit.studies.sdc.slot import InjectionSlot, Subject
from chaoskit.studies.sdc.windows import WatchWindow, windows

#: Number of corruptions between two reports of progress.
REPORT_EVERY = 10


def usual_places(reference: Reference) -> tuple[InjectionTarget, ...]:
    """Return the default targets for a job."""
    found = [targets.parameter(), targets.gradient(), targets.optimizer(), targets.activation("*")]
    if reference.world_size > 1:
        found.append(targets.gradient(reduced=True))
        # Those that the job does not use are closed after a few trials.
        found += [targets.collective(op) for op in ("all_reduce", "reduce_scatter", "all_gather")]
    return tuple(found)


def make_map(
    runner: Runner,
    job: Job,
    *,
    seconds: float,
    window: int,
    tolerance: float,
    most: int | None = None,
    into: Sequence[InjectionTarget] = (),
    seed: int = 0,
    workers: int = 1,
) -> SdcMap:
    """Test corruptions of the job's numbers for `seconds` seconds, at most `most` of them.

    Each is watched for `window` steps after its step; a loss that differs by at most `tolerance` (relative) counts as
    unchanged. `into` are the targets (none: the usual ones), `workers` the number of parallel launches.

    Raises UsageError if the job is too short for a window or lacks a target; Undecided if the job is not deterministic
    or the time was too short; and the errors of `Runner.reference`.
    """
    begun = time.monotonic()
    environments.must_offer(runner.environment, [CanOrder, CanCorruptNumbers], to="the map of silent corruption")
    environments.must_share_files(runner.environment, to="the map of silent corruption")
    job = job.with_secrets(os.environ)
    reference = runner.reference(job)
    if not reference.deterministic:
        raise Undecided(
            "two uninterrupted runs differ, so chaoskit cannot decide what a corruption changes: make the job "
            "deterministic first",
            code="not-deterministic",
        )
    found = windows(reference.steps, window)
    run_dir = runner.store.new_run(
        job=job.to_json(), experiment="sdc-map", environment=runner.environment, reference=reference.digest
    )
    reference_store.attach(reference, run_dir)
    subject = Subject(job, reference, runner.store, run_dir)
    sample = Sample(tuple(into) or usual_places(reference), found, reference.world_size, seed)
    plan = InjectionPlan(sample, reference, most=most, tolerance=tolerance)
    status = "interrupted"
    try:
        _measure(subject, plan, found, runner, until=begun + seconds, workers=workers)
        status = "finished"
    finally:
        remove(run_dir / "slots", within=runner.store.root)
        runner.store.finish(run_dir, status)
    _must_have_told(plan, into, seconds)
    made = SdcMap.of(plan, subject, sample, tolerance=tolerance, seconds=time.monotonic() - begun)
    (run_dir / "map.json").write_text(json.dumps(made.to_json(), indent=2) + "\n")
    return made


def _measure(
    subject: Subject,
    plan: InjectionPlan,
    found: Sequence[WatchWindow],
    runner: Runner,
    *,
    until: float,
    workers: int,
) -> None:
    """Store the states, then test corruptions in `workers` parallel launches."""
    over = threading.Event()
    errors: list[BaseException] = []

    def work(slot: InjectionSlot) -> None:
        try:
            while not over.is_set() and not plan.over:
                if not (trials := plan.take()):
                    over.wait(0.05)  # trials of other threads may wait again
                    continue
                done = slot.try_out(trials)
                plan.put(trials, done)
        except BaseException as error:
            errors.append(error)
            over.set()

    with ExitStack() as stack:
        slots = [stack.enter_context(InjectionSlot(number, subject, over)) for number in range(workers)]
        runner.progress.phase("storing the states of a launch without faults")
        _keep(slots[0], subject, found, plan)
        threads = [threading.Thread(target=work, args=(slot,)) for slot in slots]
        for thread in threads:
            thread.start()
        try:
            reported = -1
            while alive := [thread for thread in threads if thread.is_alive()]:
                if time.monotonic() > until:
                    over.set()
                count = len(plan.results)
                if count // REPORT_EVERY != reported:
                    reported = count // REPORT_EVERY
                    left = max(0, round(until - time.monotonic()))
                    runner.progress.phase(f"{count} corruptions tested, {left} s left")
                alive[0].join(0.2)
        finally:
            over.set()
            for thread in threads:
                thread.join()
    if errors:
        raise errors[0]


def _keep(slot: InjectionSlot, subject: Subject, found: Sequence[WatchWindow], plan: InjectionPlan) -> None:
    trace = slot.keep(found)
    if not trace.exact(WatchWindow(1, found[-1].opens), subject.reference):
        raise Undecided(
            "a launch without faults differs from the uninterrupted runs: does the job keep state outside {out}?",
            code="not-deterministic",
        )
    ranks = range(subject.reference.world_size)
    # The first window of a launch needs no stored state.
    if not all(Path(subject.snapshot(window, rank)).exists() for window in found[1:] for rank in ranks):
        plan.part("the training state of the job contains an object that cannot be copied")


def _must_have_told(plan: InjectionPlan, into: Sequence[InjectionTarget], seconds: float) -> None:
    """Raise an error with the reason if there is no result."""
    for place in into:
        if (why := plan.closed.get(str(place))) is not None:
            raise UsageError(f"--into {place}: {why}")
    if plan.results:
        return
    refused = [why for _, why in plan.refused.values()]
    if refused:
        raise Undecided(f"no corruption changed a number: {refused[0]}", code="fault-not-observed")
    raise Undecided(
        f"{seconds:g} s were too short to test a single corruption: increase --seconds", code="probe-blind"
    )
