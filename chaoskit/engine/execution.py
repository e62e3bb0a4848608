"""`execute`: one run of a job in an environment, from its first launch to its end, with its record and its status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine import job_log, reference_store
from chaoskit.engine.controller import Controller
from chaoskit.engine.progress import Progress
from chaoskit.engine.run_store import Store
from chaoskit.engine.windows.out_keeper import OutKeeper
from chaoskit.engine.windows.window_watch import Watch
from chaoskit.environments import environment as environment_named
from chaoskit.environments.environment import RunSpec
from chaoskit.environments.launch.mode import Mode
from chaoskit.environments.traits import StorageKind
from chaoskit.faults import Fault
from chaoskit.job import Job
from chaoskit.protocol import recording
from chaoskit.protocol.events import EventWriter

#: The deadline of an uninterrupted run in seconds, where the job sets none.
CONTROL_DEADLINE = 1800.0


def execute(
    run_dir: Path,
    job: Job,
    *,
    store: Store,
    environment: str,
    progress: Progress,
    deadline: float,
    mode: Mode,
    relaunch_mode: Mode | None = None,
    learning: bool = False,
    faults: Sequence[Fault] = (),
    reference: Reference | None = None,
    storage: StorageKind = "",
    limits: tuple[str, ...] = (),
    metadata: str = "",
    imdsv1: bool = False,
    keeper: OutKeeper | None = None,
    late: bool = False,
    watch: Watch | None = None,
    record_every: int = 1,
) -> str:
    """Run the job in `run_dir`, for at most `deadline` seconds; returns its status, which is in run.json too, whatever
    happens. With `learning`, the ranks record what they imported; `record_every` is the n of `recording`; for `keeper`,
    `late` and `watch` see `Controller`, for the rest `RunSpec`."""
    out = run_dir / "out"
    env = {key: value.replace("{out}", str(out)) for key, value in job.env.items()}
    if record_every > 1:
        env[recording.VARIABLE] = str(record_every)
    spec = RunSpec(
        run_dir=run_dir,
        out=out,
        cwd=job.directory,
        run_id=store.read(run_dir)["id"],
        gated=bool(faults) or keeper is not None,
        env=env,
        mode=mode,
        relaunch_mode=relaunch_mode,
        learning=learning,
        nodes=job.nodes,
        storage=storage,
        limits=limits,
        metadata=metadata,
        imdsv1=imdsv1,
        image=job.image,
        helper_image=job.helper_image,
        program=job.words()[0],
        mounts=tuple(job.mounts),
        cluster=job.cluster,
        partition=job.partition,
        store=store.root,
    )
    status = "interrupted"
    try:
        with store.writing(), environment_named(environment)(spec) as place:
            writer = EventWriter(run_dir / "events" / "harness.jsonl")
            try:
                controller = Controller(
                    env=place,
                    job=job,
                    out=out,
                    faults=faults,
                    reference=reference,
                    writer=writer,
                    deadline=deadline,
                    progress=progress,
                    keeper=keeper,
                    late=late,
                    watch=watch,
                )
                status = controller.run()
                job_log.record(run_dir, job, writer)
            finally:
                writer.close()
        # A rank whose last events did not fit on the disk cannot say so: no verdict is better than a wrong one.
        store.check_space()
    finally:
        store.finish(run_dir, status)
    return status


def execute_uninterrupted(
    run_dir: Path,
    job: Job,
    reference: Reference,
    *,
    store: Store,
    environment: str,
    progress: Progress,
    keeper: OutKeeper | None = None,
    late: bool = False,
    watch: Watch | None = None,
) -> str:
    """Run the job of a reference once more without a fault, as its controls ran; see `execute`."""
    with reference_store.own_port(store, reference, environment, progress):
        return execute(
            run_dir,
            replace(job, relaunches=0),
            store=store,
            environment=environment,
            progress=progress,
            deadline=job.timeout or CONTROL_DEADLINE,
            mode=Mode.from_json(reference.mode),
            reference=reference if late else None,
            keeper=keeper,
            late=late,
            watch=watch,
        )
